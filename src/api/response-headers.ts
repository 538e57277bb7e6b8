/** What the headers of a response say of time: the server's clock, how long to wait, what the rate limit leaves. */
import { secondMs } from '../model/time.ts';
import type { HttpHeaders } from './http.ts';

/** The header's text, the first where there are several. */
export function headerText(headers: HttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value.trim() : value?.[0]?.trim();
}

function numberOf(headers: HttpHeaders, name: string): number | undefined {
  const text = headerText(headers, name);
  return text !== undefined && /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : undefined;
}

/** An HTTP date; `Date.parse` alone would make a date of almost anything. */
function instantOf(text: string | undefined): number | undefined {
  const ms = text !== undefined && /^[A-Z][a-z]+, .* GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

/** The server's clock in ms since 1970, cut to whole seconds as the `Date` header is. */
export function serverTimeOf(headers: HttpHeaders): number | undefined {
  return instantOf(headerText(headers, 'date'));
}

/** How long before it came here a cache had got the response from the server, in whole seconds, ms; undefined without one. */
export function ageOf(headers: HttpHeaders): number | undefined {
  const seconds = numberOf(headers, 'age');
  return seconds === undefined ? undefined : seconds * secondMs;
}

/**
 * How long `Retry-After` asks to wait from `now`, in ms: seconds, or an HTTP date, which is read by the server's own
 * clock where it tells it. Undefined where there is no such header, or none that makes sense.
 */
export function retryAfterOf(headers: HttpHeaders, now: number): number | undefined {
  const seconds = numberOf(headers, 'retry-after');
  if (seconds !== undefined) return seconds * secondMs;
  const at = instantOf(headerText(headers, 'retry-after'));
  return at === undefined ? undefined : Math.max(0, at - (serverTimeOf(headers) ?? now));
}

interface RateHeaders {
  /** Requests in a window. */
  readonly limit?: number;
  /** Requests left in it. */
  readonly remaining?: number;
  /** How long until the window ends, ms from now. */
  readonly resetInMs?: number;
}

/** `X-RateLimit-Reset` below this is a number of seconds from now, above it a time since 1970. */
const smallestEpochSeconds = 1_000_000_000;
const smallestEpochMs = 1_000_000_000_000;

function resetOf(headers: HttpHeaders, now: number): number | undefined {
  const value = numberOf(headers, 'x-ratelimit-reset');
  if (value === undefined) return undefined;
  if (value < smallestEpochSeconds) return value * secondMs;
  const at = value < smallestEpochMs ? value * secondMs : value;
  return Math.max(0, at - (serverTimeOf(headers) ?? now));
}

/** `X-RateLimit-Limit`, `-Remaining` and `-Reset`, whichever are there. */
export function rateHeadersOf(headers: HttpHeaders, now: number): RateHeaders {
  const limit = numberOf(headers, 'x-ratelimit-limit');
  const remaining = numberOf(headers, 'x-ratelimit-remaining');
  const resetInMs = resetOf(headers, now);
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(remaining === undefined ? {} : { remaining }),
    ...(resetInMs === undefined ? {} : { resetInMs }),
  };
}

/** What a refusal asks to wait before the next try, ms: `Retry-After`, else the end of the rate limit's window. */
export function requestedWaitOf(headers: HttpHeaders, now: number): number | undefined {
  return retryAfterOf(headers, now) ?? resetOf(headers, now);
}

/** Where a redirect points to, as it stands. */
export function locationOf(headers: HttpHeaders): string | undefined {
  return headerText(headers, 'location');
}

export function contentTypeOf(headers: HttpHeaders): string {
  return headerText(headers, 'content-type')?.toLowerCase() ?? '';
}
