/** Decides whether, and after which pause, a failed read is sent again (pure). Section "Requests" of docs/architecture.md. */
import { minuteMs, secondMs } from '../model/time.ts';
import type { TransportFault } from './transport.ts';

/** What went wrong with one try. */
export type Failure =
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly waitMs?: number | undefined;
      /** A refusal that probably comes from a proxy, or of an endpoint that the server has let us read before. */
      readonly doubtful?: boolean | undefined;
    }
  | { readonly kind: 'transport'; readonly fault: TransportFault }
  /**
   * A 2xx without a usable body: HTML, empty, truncated JSON, a refusal, another page. `doubtful` if it shows another list: one
   * retry tells an accident of a cache from a server that always does it.
   */
  | { readonly kind: 'unreadable'; readonly doubtful?: boolean | undefined };

interface Effort {
  /** Tries made so far that count: 1 after the first. */
  readonly attempt: number;
  /** Time since the first try, ms. */
  readonly elapsedMs: number;
}

export interface RetryLimits {
  readonly attempts: number;
  /** The same for a page that the server may be unable to make, if the caller has another way; `attempts` by default. */
  readonly pageAttempts?: number;
  /** No try begins later than this after the first, ms. */
  readonly deadlineMs: number;
  /** The same while no connection can be opened, ms. */
  readonly unreachableMs: number;
  /** The first pause is drawn from 0 to this; the bound doubles with each further one, ms. */
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
}

export const defaultRetryLimits: RetryLimits = {
  attempts: 6,
  deadlineMs: 5 * minuteMs,
  // With a last try of 8 s (the longest wait for a connection), an address where nothing listens is given up within 30 s.
  unreachableMs: 20 * secondMs,
  baseDelayMs: 300,
  maxDelayMs: 20 * secondMs,
};

type Decision =
  | { readonly again: true; readonly delayMs: number }
  /** `final`: trying again cannot help. */
  | { readonly again: false; readonly because: 'final' | 'attempts' | 'deadline' };

/** Draws a pause evenly from 0 to a bound that doubles with each try, so that clients do not come back in step. */
export function fullJitter(attempt: number, limits: RetryLimits, random: () => number): number {
  return random() * Math.min(limits.maxDelayMs, limits.baseDelayMs * 2 ** (attempt - 1));
}

function mayHelp(failure: Failure, attempt: number): boolean {
  switch (failure.kind) {
    case 'unreadable':
      return failure.doubtful !== true || attempt === 1;
    case 'status':
      // A proxy may refuse one request and let the next one pass; a second refusal is no accident.
      if (failure.status === 403) return failure.doubtful === true && attempt === 1;
      return failure.status >= 500 || failure.status === 408 || failure.status === 425 || failure.status === 429;
    case 'transport':
      return failure.fault !== 'tls' && failure.fault !== 'too-large' && failure.fault !== 'aborted';
    default:
      return failure satisfies never;
  }
}

/** Whether the failure uses up a try. A 429 does not: the server did not look at the request, and waiting is enough. */
export function countsAsTry(failure: Failure): boolean {
  return !(failure.kind === 'status' && failure.status === 429);
}

/** Decides whether to retry a failed read. */
export function decideRetry(failure: Failure, effort: Effort, limits: RetryLimits, random: () => number): Decision {
  if (!mayHelp(failure, effort.attempt)) return { again: false, because: 'final' };
  if (countsAsTry(failure) && effort.attempt >= limits.attempts) return { again: false, because: 'attempts' };
  const requested = failure.kind === 'status' ? failure.waitMs : undefined;
  const delayMs = requested ?? fullJitter(Math.max(1, effort.attempt), limits, random);
  const unreachable = failure.kind === 'transport' && failure.fault === 'connect';
  const deadlineMs = unreachable ? Math.min(limits.unreachableMs, limits.deadlineMs) : limits.deadlineMs;
  if (effort.elapsedMs + delayMs > deadlineMs) return { again: false, because: 'deadline' };
  return { again: true, delayMs };
}
