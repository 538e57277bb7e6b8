/** A batch of balance rows against a sandbox in this process: planned, sent and checked, as the command wires it. */
import { onTestFinished } from 'vitest';
import { type Client, openClient } from '../../src/api/operations.ts';
import type { Action } from '../../src/bulk/action.ts';
import { actionOf } from '../../src/bulk/actions.ts';
import { balance } from '../../src/bulk/actions/balance.ts';
import type { Rules } from '../../src/bulk/claim.ts';
import { type Caps, noCaps } from '../../src/model/money.ts';
import { planBatch, type PlanPorts, undoOf } from '../../src/bulk/plan.ts';
import { readRows } from '../../src/bulk/read-rows.ts';
import { sendBatch, type SendingEnd } from '../../src/bulk/send-batch.ts';
import type { BulkEvent, SendingOptions, SendingPorts } from '../../src/bulk/sending.ts';
import type { Sheet } from '../../src/bulk/sheet/sheet.ts';
import type { UserDirectory } from '../../src/bulk/find-users.ts';
import type { Batch, Intent, Journal } from '../../src/journal/port.ts';
import { silentLog } from '../../src/model/log.ts';
import { type Clock, dayMs, minuteMs, systemClock } from '../../src/model/time.ts';
import type { Sandbox } from './bent/sandbox.ts';

export const columns = ['user_id', 'type', 'amount', 'description', 'expected_balance'] as const;

/** A sheet as if it was read from a CSV file with these cells. */
export function sheetOf(
  rows: readonly (readonly (string | number)[])[],
  headers: readonly string[] = columns,
  hash = JSON.stringify([headers, rows]),
): Sheet {
  return {
    file: 'credit.csv',
    bytes: 100,
    hash,
    format: 'csv',
    delimiter: ',',
    sheet: null,
    columns: headers,
    rows: rows.map((cells, at) => ({
      row: at + 2,
      cells: headers.map((_, column) => {
        const text = String(cells[column] ?? '');
        return { text, raw: text, kind: text === '' ? ('empty' as const) : ('text' as const) };
      }),
    })),
    notes: [],
    problems: [],
  };
}

/** A client that gives up soon, but not before a busy machine has responded, and never waits. It is closed with the test. */
export function bulkClient(...given: Parameters<typeof openBulkClient>): Client {
  const client = openBulkClient(...given);
  onTestFinished(() => client.close());
  return client;
}

/** The same outside a test: the caller closes it. */
export function openBulkClient(
  server: { readonly url: string; readonly key: string },
  timeoutMs = 1_000,
  clock: Clock = systemClock,
): Client {
  let waited = 0;
  return openClient({
    baseUrl: server.url,
    key: server.key,
    timeoutMs,
    concurrency: 8,
    attempts: 3,
    deadlineMs: 60_000,
    pageSize: 1_000,
    userAgent: 'admin-mirror tests',
    log: silentLog,
    // A wait passes at once, and the clock advances by it.
    clock: { now: () => clock.now() + waited },
    sleep: (ms) => {
      waited += ms;
      return Promise.resolve();
    },
  });
}

/** No limits, except on what was sent before. */
export const openRules: Rules = { caps: noCaps, againWithinMs: 30 * dayMs };

export interface PlanTry {
  /** `balance` by default. */
  readonly action?: Action;
  readonly allowForce?: boolean;
  readonly caps?: Partial<Caps>;
  readonly directory?: UserDirectory;
  readonly againReason?: string;
  readonly clock?: PlanPorts['clock'];
}

function planPorts(journal: Journal, client: Client, tried: PlanTry = {}): PlanPorts {
  return {
    journal,
    client,
    directory: tried.directory ?? null,
    clock: tried.clock ?? systemClock,
    signal: new AbortController().signal,
    concurrency: 8,
    pageSize: 1_000,
    rules: { ...openRules, caps: { ...noCaps, ...tried.caps } },
  };
}

/** Plans the sheet and stores the batch. */
export async function plan(journal: Journal, client: Client, sheet: Sheet, tried: PlanTry = {}): Promise<Batch> {
  const { action = balance, allowForce = false } = tried;
  const rows = readRows(sheet, action, { decimals: 2, mark: null, allowForce });
  const file = { name: sheet.file, bytes: sheet.bytes, hash: sheet.hash };
  const source = { title: null, file, undoOf: null, again: { reason: tried.againReason ?? null } };
  return (await planBatch(planPorts(journal, client, tried), { action, rows, source })).batch;
}

/** Plans the reversal of the batch and stores it. */
export async function undo(journal: Journal, client: Client, batch: string): Promise<Batch> {
  return (await planBatch(planPorts(journal, client), await undoOf(journal, batch))).batch;
}

export interface SendTry extends Partial<SendingOptions> {
  readonly caps?: Partial<Caps>;
  readonly againReason?: string;
  readonly memory?: SendingPorts['memory'];
  /** Looks for every row and sends nothing. */
  readonly reconcile?: true;
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: BulkEvent) => void;
  readonly clock?: PlanPorts['clock'];
  /** Without it, nothing waits. */
  readonly sleep?: SendingPorts['sleep'];
}

/** Sends or resumes the batch. */
export async function send(journal: Journal, client: Client, batch: string, tried: SendTry = {}): Promise<SendingEnd> {
  const { signal = new AbortController().signal, onEvent = () => {}, clock = systemClock, ...rest } = tried;
  const { caps = {}, againReason = null, memory = null, reconcile, sleep = () => Promise.resolve(), ...options } = rest;
  const found = await journal.batch(batch);
  if (found === undefined) throw new Error(`no batch ${batch}`);
  const ports = { journal, memory, client, clock, sleep, signal, progress: onEvent };
  const all = { ...defaultOptions, ...options };
  const consent = {
    ...openRules,
    caps: { ...noCaps, ...caps },
    again: { reason: againReason },
    approved: found.state === 'planned' ? 'by a test' : null,
  };
  return sendBatch(ports, found, actionOf(found.action), all, reconcile === true ? null : consent);
}

/** The defaults of the settings. */
export const defaultOptions: SendingOptions = {
  settleAfterMs: 10 * minuteMs,
  concurrency: 1,
  maxErrors: 100,
  againWithinMs: openRules.againWithinMs,
};

export function intentsOf(journal: Journal, batch: string): Promise<Intent[]> {
  return Array.fromAsync(journal.intents(batch));
}

/** Adds a user with this balance and no transactions. */
export function newUser({ control }: Sandbox, balance: number): number {
  const id = Number(control.insert('users', { balance })['id']);
  control.setRelated('users', id, 'balance_transactions', []);
  return id;
}

/** The number of writes in the ledger with this token. */
export function madeWith({ control }: Sandbox, token: string | null): number {
  return control.ledger().filter(({ body }) => String(body['description']).endsWith(token ?? 'none')).length;
}

/** Requests to change the balance of that user that did not get 429 or 503: those that could pay. */
export function sendsTo({ control }: Sandbox, user: number): number {
  return control
    .requests()
    .recent.filter(
      ({ method, url, status }) =>
        method === 'PUT' && url.includes(`/users/${user}/`) && status !== 429 && status !== 503,
    ).length;
}
