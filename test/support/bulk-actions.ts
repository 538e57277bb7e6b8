/** Batches of any action against a sandbox in this process: planned, sent, lost on the way, settled. */
import { actionOf } from '../../src/bulk/actions.ts';
import type { Batch, Intent } from '../../src/journal/port.ts';
import { systemClock } from '../../src/model/time.ts';
import { bulkClient, plan, type PlanTry, send, sheetOf, undo } from './bulk.ts';
import { newJournal } from './journal.ts';

export type Cells = Readonly<Record<string, string | number>>;

/** A journal, and what is done with it on the server. */
export async function benchOf(server: { readonly url: string; readonly key: string }) {
  const { journal } = await newJournal(systemClock);
  const client = bulkClient(server);
  return {
    plan: (action: string, rows: readonly Cells[], tried: PlanTry = {}): Promise<Batch> => {
      const headers = Object.keys(rows[0] ?? {});
      const cells = rows.map((row) => headers.map((name) => row[name] ?? ''));
      return plan(journal, client, sheetOf(cells, headers), { action: actionOf(action), ...tried });
    },
    /** Sends or resumes the batch; returns the exit code. */
    send: async ({ batch }: Batch, settleAfterMs?: number): Promise<number> => {
      const { error } = await send(journal, client, batch, settleAfterMs === undefined ? {} : { settleAfterMs });
      return error?.exitCode ?? 0;
    },
    row: async ({ batch }: Batch, row = 2): Promise<Intent> => {
      const intent = await journal.intent(batch, row);
      if (intent === undefined) throw new Error(`batch ${batch} has no row ${row}`);
      return intent;
    },
    undo: ({ batch }: Batch): Promise<Batch> => undo(journal, client, batch),
  };
}

export type Bench = Awaited<ReturnType<typeof benchOf>>;
