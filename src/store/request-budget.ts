/** One limit for all machines that use one key: a row in the shared store says when the next request may go (docs/fleet.md). */
import type { Log } from '../model/log.ts';
import { minuteMs, secondMs, unlessAborted } from '../model/time.ts';
import type { SharedDatabase } from './postgres.ts';
import { codeOf } from './postgres-server.ts';

export interface BudgetOptions {
  readonly address: string;
  /** Stands for the key, of which nothing can be read from it. */
  readonly keyMark: string;
  readonly requestsPerSecond: number | undefined;
  readonly log: Log;
  /** Time that passes for this process, ms. */
  readonly elapsed?: () => number;
}

/** Permits are taken for so long at once, and what one look has shown holds for so long: few requests to the database. */
const takenForMs = secondMs / 4;
const knownForMs = secondMs;
/** How long it waits for the store, and goes by its own count alone after that. */
const patienceMs = 10 * secondMs;
const awayMs = minuteMs;
const closingMs = 2 * secondMs;
/** PostgreSQL's code for a table that is not there: nobody has written anything to the store yet. */
const noTable = '42P01';

export type RequestBudget = ReturnType<typeof openRequestBudget>;

/** The budget of one key at one server; without the store, this process counts alone. The caller closes it, and so the database. */
export function openRequestBudget(
  { query, schema, close }: Pick<SharedDatabase, 'query' | 'schema' | 'close'>,
  { address, keyMark, requestsPerSecond, log, elapsed = () => performance.now() }: BudgetOptions,
) {
  const name = `${keyMark} ${address}`;
  const spacingMs = requestsPerSecond === undefined ? 0 : secondMs / requestsPerSecond;
  const permits = spacingMs === 0 ? 0 : Math.max(1, Math.floor(takenForMs / spacingMs));
  /** Of those that were taken: when the next one is due, and how many there are. */
  let due = 0;
  let left = 0;
  let lookAgain = Number.NEGATIVE_INFINITY;
  let awayUntil = Number.NEGATIVE_INFINITY;
  let turn: Promise<unknown> = Promise.resolve();

  function away(error: unknown): void {
    const isMissing = error instanceof Error && codeOf(error.cause) === noTable;
    if (awayUntil === Number.NEGATIVE_INFINITY && !isMissing) {
      log.warn({ err: error }, 'the limit of requests is kept by each machine alone, until the shared store is back');
    }
    awayUntil = elapsed() + awayMs;
  }

  /** Takes the next permits; evenly spaced, so whoever comes later, on whatever machine, gets the next place. */
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

  /** One after the other: each takes a place of its own. */
  async function place(): Promise<number> {
    if (elapsed() < awayUntil) return 0;
    try {
      // Permits that were not used in their time are gone; others had theirs meanwhile.
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
    /** ms until the next request may go; 0 where nobody knows. */
    next: () => {
      const mine = turn.then(place);
      turn = mine;
      return mine;
    },
    /** The server refused a request: nobody sends one within so many ms. */
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
    /** Ends what is under way. */
    close: async () => {
      // A line that was cut is left to the system: whoever is told to stop has some seconds for all of it.
      await soon(turn.then(close), closingMs).catch(() => {});
    },
  };
}

/** Rejects where it takes too long: whoever wants to send a request, or to end, does not wait for a store that is away. */
function soon<T>(work: Promise<T>, ms = patienceMs): Promise<T> {
  return unlessAborted(work, AbortSignal.timeout(ms));
}
