/** Reads the headers of a response: when it was given, how long a refusal says to wait, and the rate limit. */
import { secondMs } from '../model/time.ts';

/** Names in lower case. */
export type HttpHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Returns the text of the header, the first one if it was sent several times. */
export function headerText(headers: HttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value.trim() : value?.[0]?.trim();
}

function headerNumber(headers: HttpHeaders, name: string): number | undefined {
  const text = headerText(headers, name);
  return text !== undefined && /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : undefined;
}

/** Parses an HTTP date, in ms since 1970. The pattern is needed because `Date.parse` makes a date of almost anything. */
function headerTime(headers: HttpHeaders, name: string): number | undefined {
  const text = headerText(headers, name) ?? '';
  const ms = /^[A-Z][a-z]+, .* GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

/** When the server gave a response, and how long it took. */
export interface ResponseTime {
  /** The `Date` header, ms since 1970, in whole seconds. */
  readonly serverTime?: number;
  /** Age of the response if it came from a cache, ms, in whole seconds. */
  readonly ageMs?: number;
  /** How long the response took. */
  readonly milliseconds: number;
}

export function whenOf({
  headers,
  milliseconds,
}: {
  readonly headers: HttpHeaders;
  readonly milliseconds: number;
}): ResponseTime {
  const serverTime = headerTime(headers, 'date');
  const age = headerNumber(headers, 'age');
  return {
    milliseconds,
    ...(serverTime === undefined ? {} : { serverTime }),
    ...(age === undefined ? {} : { ageMs: age * secondMs }),
  };
}

/**
 * Returns how far the server's clock was ahead of this machine's when the response came, ms: negative if it was behind,
 * undefined if the response has no time. Some caches pass on the server's `Date`, to which `Age` must be added; others write
 * their own. The reading that agrees better with this machine's clock is taken, so an absurd `Age` changes nothing.
 */
export function serverAheadOf({ serverTime, ageMs = 0, milliseconds }: ResponseTime, now: number): number | undefined {
  if (serverTime === undefined) return undefined;
  // The header is cut to whole seconds (half a second off on average), and was written about halfway through the wait.
  const ahead = Math.round(serverTime + secondMs / 2 - (now - milliseconds / 2));
  return Math.abs(ahead) <= Math.abs(ahead + ageMs) ? ahead : ahead + ageMs;
}

/** A smaller number means seconds from now; any other is a time since 1970, as some servers write. */
const smallestEpochSeconds = 1_000_000_000;
const smallestEpochMs = 1_000_000_000_000;

/** Returns how long the header says to wait from `now`, ms. A time is compared with the server's own clock if it is known. */
function waitIn(headers: HttpHeaders, name: string, now: number): number | undefined {
  const value = headerNumber(headers, name);
  if (value !== undefined && value < smallestEpochSeconds) return value * secondMs;
  const at = value === undefined ? headerTime(headers, name) : value < smallestEpochMs ? value * secondMs : value;
  return at === undefined ? undefined : Math.max(0, at - (headerTime(headers, 'date') ?? now));
}

/** Returns how long `Retry-After` says to wait, ms. The header has seconds, a date, or seconds since 1970. */
export function retryAfterOf(headers: HttpHeaders, now: number): number | undefined {
  return waitIn(headers, 'retry-after', now);
}

/** Returns how long a refusal says to wait, ms: until `Retry-After`, else until the end of the rate limit's window. */
export function requestedWaitOf(headers: HttpHeaders, now: number): number | undefined {
  return retryAfterOf(headers, now) ?? waitIn(headers, 'x-ratelimit-reset', now);
}

interface RateHeaders {
  readonly remaining?: number;
  readonly resetInMs?: number;
}

/** Reads `X-RateLimit-Remaining` and `-Reset`. */
export function rateHeadersOf(headers: HttpHeaders, now: number): RateHeaders {
  const remaining = headerNumber(headers, 'x-ratelimit-remaining');
  const resetInMs = waitIn(headers, 'x-ratelimit-reset', now);
  return {
    ...(remaining === undefined ? {} : { remaining }),
    ...(resetInMs === undefined ? {} : { resetInMs }),
  };
}
