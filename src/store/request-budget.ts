/** One limit for all machines that use one key: a row in the shared store says when the next request may go (docs/worker.md). */
import type { Log } from '../model/log.ts';
import { minuteMs, secondMs, unlessAborted } from '../model/time.ts';
import type { SharedDatabase } from './postgres.ts';
import { codeOf } from './postgres-server.ts';

export interface BudgetOptions {
  readonly address: string;
  /** Identifies the key without revealing it. */
  readonly keyMark: string;
  readonly requestsPerSecond: number | undefined;
  readonly log: Log;
  /** Time that passes for this process, ms. */
  readonly elapsed?: () => number;
}

/** Permits are taken for this long at a time, so that the database gets few statements. */
const permitsForMs = secondMs / 4;
/** How long a reading of the row holds. */
const knownForMs = secondMs;
/** How long to wait for the store. */
const patienceMs = 10 * secondMs;
/** How long this process counts alone before it tries the store again. */
const awayMs = minuteMs;
const closingMs = 2 * secondMs;
/** PostgreSQL's code for a missing table: nobody has written anything to the store yet. */
const missingTable = '42P01';

/**
 * Opens the budget of one key at one server. While the store is away, this process counts alone. The caller closes it, which also closes
 * the database.
 */
export function openRequestBudget(
  { query, schema, close }: Pick<SharedDatabase, 'query' | 'schema' | 'close'>,
  { address, keyMark, requestsPerSecond, log, elapsed = () => performance.now() }: BudgetOptions,
) {
  const name = `${keyMark} ${address}`;
  const spacingMs = requestsPerSecond === undefined ? 0 : secondMs / requestsPerSecond;
  const permits = spacingMs === 0 ? 0 : Math.max(1, Math.floor(permitsForMs / spacingMs));
  /** When the next permit is due, and how many are left. */
  let due = 0;
  let left = 0;
  let lookAgain = Number.NEGATIVE_INFINITY;
  let awayUntil = Number.NEGATIVE_INFINITY;
  let turn: Promise<unknown> = Promise.resolve();

  function away(error: unknown): void {
    const isMissing = error instanceof Error && codeOf(error.cause) === missingTable;
    if (awayUntil === Number.NEGATIVE_INFINITY && !isMissing) {
      log.warn({ err: error }, 'the limit of requests is kept by each machine alone, until the shared store is back');
    }
    awayUntil = elapsed() + awayMs;
  }

  /** Takes the next permits. They are evenly spaced, so whichever machine comes next gets the places after them. */
  async function take(): Promise<void> {
    const taking = query<{ wait: number }>(
      `insert into ${schema}.store_budgets as b (name, next_at, closed_until)
         values ($1, clock_timestamp() + $2 * interval '1 millisecond', '-infinity')
         on conflict (name) do update
           set next_at = greatest(b.next_at, b.closed_until, clock_timestamp()) + $2 * interval '1 millisecond'
         returning (extract(epoch from next_at - clock_timestamp()) * 1000)::float8 - $2 as wait`,
      [name, permits * spacingMs],
    );
    const [row] = await soon(taking);
    due = elapsed() + Math.max(0, row?.wait ?? 0);
    left = permits;
    lookAgain = due + knownForMs;
  }

  /** Returns the wait for one place, in ms. Calls must not overlap, so that each gets a place of its own. */
  async function place(): Promise<number> {
    if (elapsed() < awayUntil) return 0;
    try {
      // Permits that were not used in time are gone: others have taken the places since.
      if (elapsed() >= lookAgain || (permits > 0 && left === 0)) await take();
      awayUntil = Number.NEGATIVE_INFINITY;
    } catch (error) {
      away(error);
      return 0;
    }
    const wait = Math.max(0, due - elapsed());
    left -= 1;
    due += spacingMs;
    return wait;
  }

  return {
    /** Returns how many ms to wait before the next request; 0 if the store is away. */
    next: () => {
      const mine = turn.then(place);
      turn = mine;
      return mine;
    },
    /** Tells all machines that the server refuses requests for this many ms. */
    refused: (waitMs: number) => {
      if (elapsed() < awayUntil) return;
      lookAgain = Number.NEGATIVE_INFINITY;
      const written = query(
        `insert into ${schema}.store_budgets as b (name, next_at, closed_until)
           values ($1, clock_timestamp(), clock_timestamp() + $2 * interval '1 millisecond')
           on conflict (name) do update set closed_until = greatest(b.closed_until, excluded.closed_until)`,
        [name, waitMs],
      );
      turn = turn.then(() => soon(written)).catch(away);
    },
    close: async () => {
      // Gives up on a connection that was cut: a process that must stop has only a few seconds.
      await soon(turn.then(close), closingMs).catch(() => {});
    },
  };
}

/** Rejects if it takes too long, since neither a request nor the end of the process may wait for a store that is away. */
function soon<T>(work: Promise<T>, ms = patienceMs): Promise<T> {
  return unlessAborted(work, AbortSignal.timeout(ms));
}
