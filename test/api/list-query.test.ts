import { describe, expect, test } from 'vitest';
import { checkedListOptions, dateRange, listPath, listQuery, type ListWords } from '../../src/api/list-query.ts';
import type { ResourceName } from '../../src/model/resources.ts';
import type { Day } from '../../src/model/time.ts';

const plain = (words: ListWords) => decodeURIComponent(listQuery(words));

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
