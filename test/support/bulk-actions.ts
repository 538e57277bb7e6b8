/** Batches of any action against a sandbox in this process: planned, sent, lost on the way, settled. */
import { openClient } from '../../src/api/operations.ts';
import { actionOf } from '../../src/bulk/actions.ts';
import { planBatch, undoOf } from '../../src/bulk/plan.ts';
import { readRows } from '../../src/bulk/read-rows.ts';
import { sendBatch } from '../../src/bulk/send-batch.ts';
import type { Sheet } from '../../src/bulk/sheet/sheet.ts';
import { silentLog } from '../../src/model/log.ts';
import { minuteMs, systemClock } from '../../src/model/time.ts';
import type { Sandbox } from './bent/sandbox.ts';
import type { Batch, Intent, Journal } from '../../src/journal/port.ts';
import { defaultOptions, openRules } from './bulk.ts';

export type Cells = Readonly<Record<string, string | number>>;

/** The rows as if they were read from a CSV file with these columns. */
export function sheetWith(rows: readonly Cells[]): Sheet {
  const columns = Object.keys(rows[0] ?? {});
  return {
    file: 'rows.csv',
    bytes: 100,
    hash: JSON.stringify(rows),
    format: 'csv',
    delimiter: ',',
    sheet: null,
    columns,
    rows: rows.map((cells, at) => ({
      row: at + 2,
      cells: columns.map((name) => {
        const text = String(cells[name] ?? '');
        return { text, raw: text, kind: text === '' ? ('empty' as const) : ('text' as const) };
      }),
    })),
    notes: [],
    problems: [],
  };
}

export interface Bench {
  readonly plan: (
    action: string,
    rows: readonly Cells[],
    options?: { readonly allowForce?: boolean },
  ) => Promise<Batch>;
  /** Sends or resumes the batch; returns the exit code. */
  readonly send: (batch: Batch, settleAfterMs?: number) => Promise<number>;
  readonly row: (batch: Batch, row?: number) => Promise<Intent>;
  readonly undo: (batch: Batch) => Promise<Batch>;
  readonly close: () => Promise<void>;
}

/** The parts, wired as the command wires them, with a client that gives up soon and never waits. */
export function benchOf(sandbox: Sandbox, journal: Journal): Bench {
  const client = openClient({
    baseUrl: sandbox.url,
    key: sandbox.key,
    timeoutMs: 1_000,
    concurrency: 8,
    attempts: 3,
    pageSize: 1_000,
    userAgent: 'admin-mirror tests',
    clock: systemClock,
    log: silentLog,
    sleep: () => Promise.resolve(),
  });
  const { signal } = new AbortController();
  const common = { journal, client, clock: systemClock, signal };
  const planPorts = {
    ...common,
    directory: null,
    concurrency: 8,
    pageSize: 1_000,
    rules: openRules,
  };
  const again = { reason: null };
  return {
    plan: async (name, rows, { allowForce = false } = {}) => {
      const action = actionOf(name);
      const sheet = sheetWith(rows);
      const read = readRows(sheet, action, { decimals: 2, mark: null, allowForce });
      const file = { name: sheet.file, bytes: sheet.bytes, hash: sheet.hash };
      return (await planBatch(planPorts, { action, rows: read, source: { title: null, file, undoOf: null, again } }))
        .batch;
    },
    send: async (batch, settleAfterMs = 10 * minuteMs) => {
      const ports = { ...common, memory: null, sleep: () => Promise.resolve(), progress: () => {} };
      const found = (await journal.batch(batch.batch)) ?? batch;
      const approved = found.state === 'planned' ? 'by a test' : null;
      const consent = { ...openRules, again, approved };
      const options = { ...defaultOptions, settleAfterMs };
      const { error } = await sendBatch(ports, found, actionOf(batch.action), options, consent);
      return error?.exitCode ?? 0;
    },
    row: async (batch, row = 2) => {
      const intent = await journal.intent(batch.batch, row);
      if (intent === undefined) throw new Error(`batch ${batch.batch} has no row ${row}`);
      return intent;
    },
    undo: async ({ batch }) => (await planBatch(planPorts, await undoOf(journal, batch))).batch,
    close: () => client.close(),
  };
}
