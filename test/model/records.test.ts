import { describe, expect, test } from 'vitest';
import { foreignList, otherResourceOf } from '../../src/model/records.ts';
import { resourceNames, resourceOf, type ResourceName } from '../../src/model/resources.ts';

/** A record with this many of the resource's own fields and this many unknown ones. */
function recordWith(resource: ResourceName, fields: number, others = 0): Record<string, unknown> {
  const own = resourceOf(resource).fields.map(({ name }) => name);
  const shared = ['id', 'created_at', 'updated_at'];
  const kept = own.filter((name) => !shared.includes(name)).slice(0, fields);
  const unknown = Array.from({ length: others }, (_, at) => `order_${at}`);
  return Object.fromEntries([...shared, ...kept, ...unknown].map((name) => [name, 1]));
}

const ownFields = (resource: ResourceName) => resourceOf(resource).fields.length - 3;

describe('a record of a list', () => {
  test.each(resourceNames)('of %s does not count as another while it has half of its own fields', (name) => {
    for (let fields = Math.ceil(ownFields(name) / 2); fields <= ownFields(name); fields += 1) {
      for (const others of [0, 3, 40]) {
        const record = recordWith(name, fields, others);
        expect(otherResourceOf(record, name)).toBeUndefined();
        expect(foreignList([record, record], name)).toBeUndefined();
      }
    }
  });

  test('with few fields is kept, and so is a single one with unknown fields', () => {
    expect(foreignList([recordWith('users', 2), recordWith('users', 2)], 'users')).toBeUndefined();
    expect(foreignList([recordWith('users', 0, 9)], 'users')).toBeUndefined();
    expect(foreignList([], 'users')).toBeUndefined();
  });

  test('with mostly unknown fields is foreign if all records of the page are like it', () => {
    const order = recordWith('users', 1, 9);
    expect(foreignList([order, order], 'users')).toMatch(/^it is not a list of users: .*order_0/);
    expect(foreignList([order, recordWith('users', 14)], 'users')).toBeUndefined();
  });

  test('belongs to the resource whose fields it has, and a page to that of most of its records', () => {
    const email = recordWith('emails', ownFields('emails'));
    const user = recordWith('users', ownFields('users'));
    expect(otherResourceOf(email, 'users')).toBe('emails');
    expect(foreignList([email, user, user], 'users')).toBeUndefined();
    expect(foreignList([email, email, user], 'users')).toBe(
      'it is not a list of users: 2 of 3 records look like emails',
    );
  });
});
