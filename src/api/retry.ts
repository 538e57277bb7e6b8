/**
 * Whether a read is tried again, and after how long: a pure decision, taken after every failure. Writes never come
 * here. Section "Requests" of docs/architecture.md.
 */
import { minuteMs, secondMs } from '../model/time.ts';
import type { TransportFault } from './transport-error.ts';

/** What went wrong with one try. */
export type Failure =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly waitMs?: number | undefined;
      /** Set where a refusal is probably not the server's own, or stands alone amid what it has given. */
      readonly doubtful?: boolean | undefined;
    }
  | { readonly kind: 'transport'; readonly fault: TransportFault }
  /**
   * A 2xx that is no usable response: HTML, nothing, truncated JSON, a refusal in disguise, another page. `doubtful` where it
   * shows another list: one retry distinguishes an accident of a cache from a server that always does.
   */
  | { readonly kind: 'unreadable'; readonly doubtful?: boolean | undefined };

interface Effort {
  /** Tries made so far that count: 1 after the first. */
  readonly attempt: number;
  /** Since the first try, ms. */
  readonly elapsedMs: number;
}

export interface RetryLimits {
  readonly attempts: number;
  /** The same where it is the page that does not come, and the caller has another way; `attempts` where left out. */
  readonly pageAttempts?: number;
  /** No try begins later than this after the first, ms. */
  readonly deadlineMs: number;
  /** The same while nobody takes the connection, ms. */
  readonly unreachableMs: number;
  /** The first pause is drawn from 0 to this, each further one from 0 to twice as much, ms. */
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
}

export const defaultRetryLimits: RetryLimits = {
  attempts: 6,
  deadlineMs: 5 * minuteMs,
  // With a last try of 8 s (the longest wait for a connection), an address where nothing listens is given up in 30 s.
  unreachableMs: 20 * secondMs,
  baseDelayMs: 300,
  maxDelayMs: 20 * secondMs,
};

type Decision =
  | { readonly again: true; readonly delayMs: number }
  /** `final`: trying again cannot help. */
  | { readonly again: false; readonly because: 'final' | 'attempts' | 'deadline' };

/** A pause drawn evenly from 0 to a bound that doubles with each try, so that clients do not come back in step. */
export function fullJitter(attempt: number, limits: RetryLimits, random: () => number): number {
  return random() * Math.min(limits.maxDelayMs, limits.baseDelayMs * 2 ** (attempt - 1));
}

function mayHelp(failure: Failure, attempt: number): boolean {
  switch (failure.kind) {
    case 'unreadable':
      return failure.doubtful !== true || attempt === 1;
    case 'status':
      // A proxy in front refuses one request and lets the next pass; twice is no accident.
      if (failure.status === 403) return failure.doubtful === true && attempt === 1;
      return failure.status >= 500 || failure.status === 408 || failure.status === 425 || failure.status === 429;
    case 'transport':
      return failure.fault !== 'tls' && failure.fault !== 'too-large' && failure.fault !== 'aborted';
    default:
      return failure satisfies never;
  }
}

/** A refusal for its rate is no failed try: the request was not looked at, and waiting is all that is needed. */
export function counts(failure: Failure): boolean {
  return !(failure.kind === 'status' && failure.status === 429);
}

/** Decides after a failed read. */
export function decideRetry(failure: Failure, effort: Effort, limits: RetryLimits, random: () => number): Decision {
  if (!mayHelp(failure, effort.attempt)) return { again: false, because: 'final' };
  if (counts(failure) && effort.attempt >= limits.attempts) return { again: false, because: 'attempts' };
  const requested = failure.kind === 'status' ? failure.waitMs : undefined;
  const delayMs = requested ?? fullJitter(Math.max(1, effort.attempt), limits, random);
  const unreachable = failure.kind === 'transport' && failure.fault === 'connect';
  const deadlineMs = unreachable ? Math.min(limits.unreachableMs, limits.deadlineMs) : limits.deadlineMs;
  if (effort.elapsedMs + delayMs > deadlineMs) return { again: false, because: 'deadline' };
  return { again: true, delayMs };
}
