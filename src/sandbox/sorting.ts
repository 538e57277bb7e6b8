/** `sort[key]=direction` as an order: the keys apply in the order in which they are given. */
import type { Resource, ResourceName } from '../model/resources.ts';
import type { Behaviour } from './behaviour.ts';
import { badRequest, invalid } from './refusal.ts';
import { quoted } from './schema.ts';

export interface Order {
  readonly sql: string;
  readonly values: readonly number[];
}

/** Another order for every salt; a salt is drawn for each request. */
const shuffled = '((id * 2654435761 + ?) % 4294967291 * 40503 % 1000003)';

/** Keys that no two records share: nothing is left to decide after one of them. */
const uniqueKeys: Readonly<Record<ResourceName, readonly string[]>> = {
  users: ['id', 'username', 'email'],
  packages: ['id'],
  emails: ['id'],
  coupons: ['id'],
};

function asked(resource: Resource, sort: unknown, behaviour: Behaviour): (readonly [string, string])[] {
  if (sort === undefined || sort === '') return [];
  if (typeof sort !== 'object' || sort === null || Array.isArray(sort)) {
    throw invalid({ sort: ['The sort must be an array.'] });
  }
  const entries = Object.entries(sort);
  const unknown = entries.map(([key]) => key).filter((key) => !resource.sortKeys.includes(key));
  if (unknown.length > 0 && behaviour.unknown_keys === 'refuse') {
    throw badRequest(
      `Requested sort(s) \`${unknown.join(', ')}\` is not allowed. ` +
        `Allowed sort(s) are \`${resource.sortKeys.join(', ')}\`.`,
    );
  }
  const known: (readonly [string, string])[] = [];
  for (const [key, direction] of entries) {
    if (unknown.includes(key)) continue;
    const word = typeof direction === 'string' ? direction.toLowerCase() : '';
    if (word !== 'asc' && word !== 'desc' && word !== 'random') {
      throw invalid({ [`sort.${key}`]: [`The selected sort.${key} is invalid.`] });
    }
    known.push([key, word]);
  }
  return known;
}

/** The order of a list. Refuses unknown keys with 400 and unknown directions with 422. */
export function orderOf(resource: Resource, sort: unknown, behaviour: Behaviour, salt: () => number): Order {
  const keys = asked(resource, sort, behaviour);
  if (behaviour.sorts === 'random') return { sql: `${shuffled}, id`, values: [salt()] };
  if (behaviour.sorts === 'ignored' || keys.length === 0) return { sql: 'id', values: [] };
  const parts: string[] = [];
  const values: number[] = [];
  for (const [key, direction] of keys) {
    if (direction === 'random') {
      parts.push(shuffled);
      values.push(salt());
    } else {
      parts.push(`${quoted(key)} ${direction === 'desc' ? 'DESC' : 'ASC'}`);
      if (uniqueKeys[resource.name].includes(key)) return { sql: parts.join(', '), values };
    }
  }
  if (behaviour.sort_ties === 'random') {
    parts.push(shuffled);
    values.push(salt());
  }
  return { sql: [...parts, 'id'].join(', '), values };
}
