import { describe, expect, test } from 'vitest';
import { pageOf, UnreadableResponse } from '../../src/api/body.ts';
import { serverAheadOf } from '../../src/api/headers.ts';
import { checkedListOptions, dateRange, type ListOptions, listPath, type ListWords } from '../../src/api/lists.ts';
import type { ResourceName } from '../../src/model/resources.ts';
import type { Day } from '../../src/model/time.ts';
import { envelopeOf } from './support/plain-server.ts';

const plain = (options: ListOptions<'users'>) => decodeURIComponent(listPath('users', options)).split('?')[1];

describe('a list request', () => {
  test('uses the names of the reference, and keeps the order of sorts', () => {
    const path = listPath('packages', {
      paginate: 50,
      page: 3,
      include: ['prices', 'category'],
      filters: [
        { key: 'status', value: 'restricted' },
        { key: 'data->region', value: 'EU & more' },
      ],
      sorts: [
        { key: 'name', direction: 'desc' },
        { key: 'id', direction: 'asc' },
      ],
      date: '7days',
    });
    expect(decodeURIComponent(path)).toBe(
      '/api/v1/packages?paginate=50&page=3&include=prices,category&filter[status]=restricted' +
        '&filter[data->region]=EU & more&sort[name]=desc&sort[id]=asc&date=7days',
    );
    expect(new URL(path, 'http://x').searchParams.get('filter[data->region]')).toBe('EU & more');
  });

  test('has no question mark without options', () => {
    expect(listPath('emails', {})).toBe('/api/v1/emails');
  });

  test('writes flags as 0 and 1', () => {
    expect(plain({ filters: [{ key: 'is_subscribed', value: false }] })).toBe('filter[is_subscribed]=0');
  });

  test('writes days in either order of their parts', () => {
    const [from, to] = ['2026-01-02', '2026-01-31'] as [Day, Day];
    expect(plain({ date: dateRange(from, to, 'iso') })).toBe('date=2026-01-02,2026-01-31');
    expect(plain({ date: dateRange(from, to, 'dmy') })).toBe('date=02-01-2026,31-01-2026');
  });
});

describe('checked list options', () => {
  const adviceFor = (name: ResourceName, words: ListWords): string => {
    try {
      checkedListOptions(name, words);
    } catch (error) {
      const { message, advice } = error as { message: string; advice?: string };
      return `${message} | ${advice ?? ''}`;
    }
    return '';
  };

  test.each<[ResourceName, ListWords, RegExp]>([
    ['users', { include: ['paymnts'] }, /no include "paymnts" \| Did you mean "payments"/],
    ['coupons', { include: ['orders'] }, /no known include/],
    ['users', { filters: [{ key: 'user_name', value: 'x' }] }, /Did you mean "username"/],
    ['users', { filters: [{ key: 'data->plan', value: 'x' }] }, /No column of users can be filtered by a key inside/],
    ['packages', { filters: [{ key: 'status->x', value: 'x' }] }, /data->key/],
    ['packages', { filters: [{ key: 'data->', value: 'x' }] }, /data->key/],
    ['users', { sorts: [{ key: 'id', direction: 'asc' }] }, /no sort key "id"/],
    ['users', { sorts: [{ key: 'email', direction: 'down' }] }, /Known: asc, desc, random/],
    ['users', { date: '5days' }, /Did you mean "(3|7)days"/],
    ['users', { date: '2026-02-30,2026-03-01' }, /"2026-02-30" is not a day/],
    ['users', { page: 0 }, /above 0/],
    ['users', { paginate: 1.5 }, /above 0/],
    ['users', { include: ['orders', 'orders'] }, /given twice/],
  ])('refuse invalid options of %s with advice: %j', (name, words, expected) => {
    expect(adviceFor(name, words)).toMatch(expected);
  });

  test('accept presets, both date orders, random and nested keys', () => {
    const words: ListWords = {
      filters: [{ key: 'data->a->b', value: 1 }],
      sorts: [{ key: 'name', direction: 'random' }],
      date: '01-02-2026, 2026-03-01',
    };
    expect(adviceFor('packages', words)).toBe('');
    expect(checkedListOptions('packages', words).date).toEqual({ from: '01-02-2026', to: '2026-03-01' });
  });
});

const answerOf = (text: string, headers: Record<string, string> = {}) => ({
  status: 200,
  headers,
  body: text,
  bytes: 0,
  milliseconds: 1,
});
const page = (body: unknown, asked = 1) => pageOf(answerOf(JSON.stringify(body)), asked, 'users');

describe('a page', () => {
  test('has its numbers, records, text and server time', () => {
    const text = JSON.stringify(envelopeOf([{ id: 1 }, { id: 2 }], 3, 7, 99));
    expect(pageOf(answerOf(text, { date: 'Wed, 11 Mar 2026 10:00:00 GMT' }), 3, 'users')).toEqual({
      page: 3,
      perPage: 15,
      lastPage: 7,
      total: 99,
      records: [{ id: 1 }, { id: 2 }],
      text,
      milliseconds: 1,
      serverTime: Date.parse('2026-03-11T10:00:00Z'),
    });
  });

  test('may have numbers as text', () => {
    const body = { ...envelopeOf([]), current_page: '1', total: '12', per_page: '15', last_page: '1' };
    expect(page(body)).toMatchObject({ page: 1, total: 12, perPage: 15 });
  });

  test('may have records in an object with numeric keys, in numeric order', () => {
    expect(page({ ...envelopeOf([]), data: { 0: { id: 4 }, 10: { id: 6 }, 3: { id: 5 } } }).records).toEqual([
      { id: 4 },
      { id: 5 },
      { id: 6 },
    ]);
    expect(page({ ...envelopeOf([]), data: {} }).records).toEqual([]);
    expect(() => page({ ...envelopeOf([]), data: { id: { id: 4 } } })).toThrow(/data is not as documented/);
    expect(() => page({ data: [], meta: { total: 0 } })).toThrow(
      /current_page is not as documented; what came has data, meta$/,
    );
  });

  test.each([
    { what: 'whose Date is the server’s own', date: 'Wed, 11 Mar 2026 10:00:00 GMT', age: '3000' },
    { what: 'whose Date is that of the cache', date: 'Wed, 11 Mar 2026 10:50:00 GMT', age: '3000' },
    { what: 'whose age is absurd', date: 'Wed, 11 Mar 2026 10:50:00 GMT', age: '1000000000000' },
  ])('from a cache, $what, has its age, and does not shift the clock', ({ date, age }) => {
    const kept = pageOf(answerOf(JSON.stringify(envelopeOf([])), { date, age }), 1, 'users');
    expect(kept.ageMs).toBe(Number(age) * 1_000);
    const now = Date.parse('2026-03-11T10:50:00.500Z');
    expect(serverAheadOf({ ...kept, milliseconds: 0 }, now)).toBe(0);
    expect(serverAheadOf({ ...kept, milliseconds: 0 }, now + 60_000)).toBe(-60_000);
  });

  test('must be the requested one', () => {
    expect(() => page(envelopeOf([], 1), 4)).toThrow('page 4 was requested and page 1 came');
  });

  test('is distinguished from anything else that comes with 200', () => {
    const other = ['', '<html>no</html>', '  <!doctype html>', '{"data":[', 'null', '[]', '{"data":{}}', '42'];
    for (const text of other) expect(() => pageOf(answerOf(text), 1, 'users')).toThrow(UnreadableResponse);
    expect(() => page({ ...envelopeOf([]), data: [1] })).toThrow(UnreadableResponse);
    expect(() => page({ ...envelopeOf([]), total: -1 })).toThrow(/total/);
    expect(() => page({ success: false, errors: ['No.'] })).toThrow('the server reports a failure');
  });

  test('is parsed as JSON whatever its content type', () => {
    expect(pageOf(answerOf(JSON.stringify(envelopeOf([])), { 'content-type': 'text/html' }), 1, 'users').total).toBe(0);
  });
});
