import { describe, expect, test } from 'vitest';
import { pageOf, problemsIn, recordIn, serverAheadOf, UnreadableResponse } from '../../src/api/envelope.ts';
import { hasLongNumber, parseExactly, stringifyExactly } from '../../src/api/exact-json.ts';
import { envelopeOf } from './support/plain-server.ts';

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

describe('a number', () => {
  test('beyond double precision is kept exactly, and others stay numbers', () => {
    const text =
      '{"a":9007199254740993,"b":-12345678901234567890,"c":0.12345678901234567,"d":12.50,"e":9007199254740991}';
    const value = parseExactly(text);
    expect(value).toEqual({
      a: 9_007_199_254_740_993n,
      b: -12_345_678_901_234_567_890n,
      c: '0.12345678901234567',
      d: 12.5,
      e: 9_007_199_254_740_991,
    });
    expect(stringifyExactly({ a: 9_007_199_254_740_993n })).toBe('{"a":9007199254740993}');
  });

  test('that is a long decimal without a long part is kept, too', () => {
    expect(parseExactly('[1234567890.12345678]')).toEqual(['1234567890.12345678']);
    expect(parseExactly('[0.1000000000000000000]')).toEqual([0.1]);
  });

  test('is found anywhere in the bytes', () => {
    for (let offset = 0; offset < 40; offset += 1) {
      const around = ' '.repeat(offset);
      expect(hasLongNumber(`${around}1234567890123456`)).toBe(true);
      expect(hasLongNumber(`${around}123456789012345`)).toBe(false);
    }
    expect(hasLongNumber('"2026-03-11T10:00:00.000000Z"')).toBe(false);
  });
});

test('problems come from either error format, and long ones are cut', () => {
  expect(problemsIn({ success: false, errors: ['One.', 'Two.'] })).toEqual(['One.', 'Two.']);
  const fields = { message: 'The given data was invalid.', errors: { email: ['Taken.'], username: 'Short.' } };
  expect(problemsIn(fields)).toEqual(['email: Taken.', 'username: Short.']);
  expect(problemsIn({ message: 'Unauthenticated.' })).toEqual(['Unauthenticated.']);
  expect(problemsIn({ message: 'x'.repeat(9_000) })[0]).toHaveLength(500);
  for (const none of [null, 'text', 3, [], {}]) expect(problemsIn(none)).toEqual([]);
});

test('a single record is found bare, under data or under user', () => {
  const user = { id: 7 };
  for (const body of [user, { data: user }, { status: true, user }]) expect(recordIn(body)).toBe(user);
  for (const body of [null, [], {}, { data: [user] }]) expect(recordIn(body)).toBe(undefined);
});
