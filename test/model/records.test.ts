import { describe, expect, test } from 'vitest';
import { foreignList, otherResourceOf } from '../../src/model/records.ts';
import { resourceNames, resourceOf, type ResourceName } from '../../src/model/resources.ts';

/** A record with these of the resource's fields, and as many others. */
function recordWith(resource: ResourceName, fields: number, others = 0): Record<string, unknown> {
  const own = resourceOf(resource).fields.map(({ name }) => name);
  const shared = ['id', 'created_at', 'updated_at'];
  const kept = own.filter((name) => !shared.includes(name)).slice(0, fields);
  const unknown = Array.from({ length: others }, (_, at) => `order_${at}`);
  return Object.fromEntries([...shared, ...kept, ...unknown].map((name) => [name, 1]));
}

const ownFields = (resource: ResourceName) => resourceOf(resource).fields.length - 3;

describe('a record of a list', () => {
  test.each(resourceNames)(
    'of %s is none of another while it has half of its own fields, whatever else it has',
    (name) => {
      for (let fields = Math.ceil(ownFields(name) / 2); fields <= ownFields(name); fields += 1) {
        for (const others of [0, 3, 40]) {
          const record = recordWith(name, fields, others);
          expect(otherResourceOf(record, name)).toBeUndefined();
          expect(foreignList([record, record], name)).toBeUndefined();
        }
      }
    },
  );

  test('of which the server shows little is kept, and so is a lone one of unknown fields', () => {
    expect(foreignList([recordWith('users', 2), recordWith('users', 2)], 'users')).toBeUndefined();
    expect(foreignList([recordWith('users', 0, 9)], 'users')).toBeUndefined();
    expect(foreignList([], 'users')).toBeUndefined();
  });

  test('that has most of its fields from nowhere is none of the list where all records are such', () => {
    const order = recordWith('users', 1, 9);
    expect(foreignList([order, order], 'users')).toMatch(/^it is not a list of users: .*order_0/);
    expect(foreignList([order, recordWith('users', 14)], 'users')).toBeUndefined();
  });

  test('is of the other resource whose fields it has, and a page is where most records are', () => {
    const email = recordWith('emails', ownFields('emails'));
    const user = recordWith('users', ownFields('users'));
    expect(otherResourceOf(email, 'users')).toBe('emails');
    expect(foreignList([email, user, user], 'users')).toBeUndefined();
    expect(foreignList([email, email, user], 'users')).toBe(
      'it is not a list of users: 2 of 3 records look like emails',
    );
  });
});
