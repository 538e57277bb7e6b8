import { expect, test } from 'vitest';
import { decideRetry, defaultRetryLimits, type Failure, fullJitter } from '../../src/api/retry.ts';
import { rateHeadersOf, requestedWaitOf, retryAfterOf } from '../../src/api/headers.ts';

const half = () => 0.5;
const early = { attempt: 1, elapsedMs: 0 };
const status = (code: number, waitMs?: number): Failure => ({ kind: 'status', status: code, waitMs });
const decide = (failure: Failure, effort = early) => decideRetry(failure, effort, defaultRetryLimits, half);

test.each([408, 425, 429, 500, 502, 503, 504, 520, 599])('a read with the response %i is retried', (code) => {
  expect(decide(status(code)).again).toBe(true);
});

test.each([400, 401, 403, 404, 409, 419, 422, 301])('a read with the response %i is not retried', (code) => {
  expect(decide(status(code))).toEqual({ again: false, because: 'final' });
});

test('a 403 that may come from a proxy is retried once', () => {
  const doubtful: Failure = { kind: 'status', status: 403, doubtful: true };
  expect(decide(doubtful).again).toBe(true);
  expect(decide(doubtful, { attempt: 2, elapsedMs: 0 })).toEqual({ again: false, because: 'final' });
});

test.each(['connect', 'reset', 'timeout', 'protocol'] as const)('a read lost to %s is retried', (fault) => {
  expect(decide({ kind: 'transport', fault }).again).toBe(true);
});

test.each(['tls', 'too-large', 'aborted'] as const)('a read lost to %s is not retried', (fault) => {
  expect(decide({ kind: 'transport', fault })).toEqual({ again: false, because: 'final' });
});

test('an unreadable response is retried', () => {
  expect(decide({ kind: 'unreadable' }).again).toBe(true);
});

test('pauses are random, with a bound that doubles up to its maximum', () => {
  const bounds = [1, 2, 3, 4, 20].map((attempt) => fullJitter(attempt, () => 1));
  expect(bounds).toEqual([300, 600, 1_200, 2_400, 20_000]);
  expect(fullJitter(5, () => 0)).toBe(0);
});

test('a wait that the server asks for is kept to the millisecond', () => {
  expect(decide(status(503, 7_000))).toEqual({ again: true, delayMs: 7_000 });
});

test('retries end after the last attempt, or if the next would begin after the deadline', () => {
  expect(decide(status(500), { attempt: 6, elapsedMs: 0 })).toEqual({ again: false, because: 'attempts' });
  expect(decide(status(503, 10_000), { attempt: 1, elapsedMs: 295_000 })).toEqual({
    again: false,
    because: 'deadline',
  });
});

test('a 429 with a wait uses up no attempt', () => {
  expect(decide(status(429, 1_000), { attempt: 6, elapsedMs: 0 })).toEqual({ again: true, delayMs: 1_000 });
});

test('retries of refused connections end within thirty seconds', () => {
  const failure: Failure = { kind: 'transport', fault: 'connect' };
  expect(decide(failure, { attempt: 2, elapsedMs: 21_000 })).toEqual({ again: false, because: 'deadline' });
  expect(decide({ kind: 'transport', fault: 'timeout' }, { attempt: 2, elapsedMs: 21_000 }).again).toBe(true);
});

const now = Date.parse('2026-03-11T10:00:00Z');

test("Retry-After is read as seconds, or as a time by the server's clock in whatever form", () => {
  expect(retryAfterOf({ 'retry-after': '3' }, now)).toBe(3_000);
  expect(retryAfterOf({ 'retry-after': 'Wed, 11 Mar 2026 10:00:05 GMT' }, now)).toBe(5_000);
  const ahead = { date: 'Wed, 11 Mar 2026 11:00:00 GMT', 'retry-after': 'Wed, 11 Mar 2026 11:00:09 GMT' };
  expect(retryAfterOf(ahead, now)).toBe(9_000);
  expect(retryAfterOf({ 'retry-after': 'Wed, 11 Mar 2026 09:00:00 GMT' }, now)).toBe(0);
  expect(retryAfterOf({ 'retry-after': String(now / 1_000 + 8) }, now)).toBe(8_000);
  for (const text of ['', 'soon', '-1', '1e3', 'Wed Mar 11 10:00:07 2026'])
    expect(retryAfterOf({ 'retry-after': text }, now)).toBe(undefined);
});

test('X-RateLimit-Reset is read as seconds or as a time, and replaces a missing Retry-After', () => {
  const reset = (text: string) => rateHeadersOf({ 'x-ratelimit-reset': text }, now).resetInMs;
  expect(reset('30')).toBe(30_000);
  expect(reset(String(now / 1_000 + 12))).toBe(12_000);
  expect(reset(String(now + 12_000))).toBe(12_000);
  expect(requestedWaitOf({ 'x-ratelimit-reset': '4' }, now)).toBe(4_000);
  expect(requestedWaitOf({ 'x-ratelimit-reset': '4', 'retry-after': '2' }, now)).toBe(2_000);
});
