import { describe, expect, test } from 'vitest';
import { isSameOwner, type KnownServer, objections, probesOf, remainsFrom } from '../../src/mirror/server-check.ts';

const known: KnownServer = {
  address: 'https://one.example.com',
  key_mark: 'aaaa',
  owner: { id: '7', marks: { username: '1111', email: '2222' } },
};
const owner = { id: '7', name: 'anna', marks: { username: '1111', email: '2222' } };
const other = { id: '8', name: 'ben', marks: { username: '3333', email: '4444' } };
const same = { known, address: known.address, owner: null, remains: 'kept' } as const;
const elsewhere = 'https://two.example.com';

describe('the server is the same', () => {
  test.each([
    ['if nothing changed', same],
    ['at first contact', { ...same, known: null, owner: other, remains: 'unclear' }],
    ['under another key of the same user', { ...same, owner }],
    ['under another key if it does not tell the owner', { ...same, owner: null }],
    ['at another address, with its records and the same owner of the key', { ...same, address: elsewhere, owner }],
    ['at another address with its records if it does not tell the owner of the key', { ...same, address: elsewhere }],
    ['if it does not show single records', { ...same, remains: 'unclear' }],
    ['if it never told the owner of the key', { ...same, known: { ...known, owner: null }, owner: other }],
  ] as const)('%s', (_, evidence) => {
    expect(objections(evidence)).toEqual([]);
  });
});

describe('the server may be another one', () => {
  test.each([
    ['if the key belongs to another user', { ...same, owner: other }, /belongs to user 8 \(ben\).*user 7/],
    ['if it has other records', { ...same, remains: 'gone' }, /other records/],
    ['if it lost the newest records', { ...same, remains: 'restored' }, /old backup/],
    [
      'at another address if no record shows that it is the same',
      { ...same, address: elsewhere, owner, remains: 'unclear' },
      /stood at https:\/\/one/,
    ],
  ] as const)('%s', (_, evidence, words) => {
    expect(objections(evidence).join()).toMatch(words);
  });

  test('for more than one reason at once', () => {
    expect(objections({ ...same, address: elsewhere, owner: other, remains: 'gone' })).toHaveLength(2);
  });
});

test('the owner of a key is the same under another name or email address, but not if only the id is the same', () => {
  expect(isSameOwner(owner, { ...owner, marks: { username: 'ffff', email: '2222' } })).toBe(true);
  expect(isSameOwner(owner, { ...owner, marks: {} })).toBe(true);
  expect(isSameOwner(owner, { ...owner, marks: { username: 'ffff', email: 'ffff' } })).toBe(false);
  expect(isSameOwner(owner, { ...owner, id: '9' })).toBe(false);
});

test('probes are newest records, further apart the further back', () => {
  const sampled = Array.from({ length: 20 }, (_, index) => ({ createdAt: `2026-03-${String(index + 10)}` }));
  expect(probesOf(sampled).map(({ createdAt }) => createdAt)).toEqual(
    ['29', '28', '26', '22'].map((day) => `2026-03-${day}`),
  );
  expect(probesOf(sampled.slice(0, 3))).toHaveLength(2);
});

test.each([
  [['same'], 8, 'unknown', 'kept'],
  [['absent', 'absent', 'same'], 20, 'unknown', 'kept'],
  [['absent', 'absent', 'absent', 'absent'], 8, 'same', 'restored'],
  [['absent', 'other', 'absent', 'absent'], 8, 'same', 'restored'],
  [['absent', 'absent', 'absent', 'absent'], 8, 'absent', 'gone'],
  [['other', 'other', 'other', 'other'], 8, 'other', 'gone'],
  // So few may all have been deleted. But an id is never given to two records.
  [['absent', 'absent'], 3, 'absent', 'unclear'],
  [['absent', 'other'], 3, 'absent', 'gone'],
  [[], 0, 'unknown', 'unclear'],
] as const)(
  'of sampled records seen %j, of %i, and the oldest %s, the remains are %s',
  (newest, count, oldest, remains) => {
    expect(remainsFrom(newest, count, oldest)).toBe(remains);
  },
);
