/** A real journal in its own folder, and rows for it. */
import { readFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import type { Actor } from '../../src/model/actor.ts';
import type { ApprovalPolicy } from '../../src/model/approval.ts';
import { type Clock, hourMs } from '../../src/model/time.ts';
import type { IntentFields, IntentState, Journal, JournalRules, NewBatch, NewIntent } from '../../src/journal/port.ts';
import { openJournal } from './journal-file.ts';
import { sandboxNow } from './sandbox.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** An actor that needs no account of this machine. */
export const anna: Actor = {
  name: 'anna',
  uid: 1001,
  host: 'office',
  sudoUser: null,
  job: null,
  account: null,
};

/** A policy of the config file; it always requires approval if it sets no threshold. */
export function policyOf(fields: Partial<ApprovalPolicy> = {}): ApprovalPolicy {
  const none = { rowAmount: undefined, net: undefined, gross: undefined, rows: undefined, alonePerDay: undefined };
  return { ...none, approvers: 1, goodForMs: 72 * hourMs, ...fields };
}

export async function newJournal(
  clock: Clock = { now: () => sandboxNow },
  file = `${temporaryFolder()}/journal.db`,
  rules?: JournalRules,
): Promise<{ readonly journal: Journal; readonly file: string }> {
  const journal = await openJournal(file, anna, clock, rules);
  onTestFinished(() => journal.close());
  return { journal, file };
}

export function newBatch(fields: Partial<NewBatch> = {}): NewBatch {
  return {
    batch: 'one',
    action: 'balance',
    title: 'credit',
    file: 'credit.csv',
    fileBytes: 100,
    fileHash: 'f1',
    hash: 'h1',
    rowsDigest: 'd1',
    rows: 1,
    net: '5.00',
    columns: ['user_id', 'type', 'amount'],
    problems: [],
    warnings: [],
    server: { address: 'http://127.0.0.1:1', keyMark: 'abcd', owner: '1' },
    undoOf: null,
    againReason: null,
    ...fields,
  };
}

export function newIntent(row: number, user: number, fields: Partial<NewIntent> = {}): NewIntent {
  return {
    row,
    state: 'planned',
    subject: `user:${user}`,
    user,
    key: null,
    token: `am:aaaaaaaaaa${String(row).padStart(2, '2').replaceAll(/[01]/g, 'b')}`,
    fingerprint: `print-${row}`,
    plannedEmail: null,
    plannedUsername: null,
    parameters: { type: 'add', amount: '5.00', description: null },
    cells: [String(user), 'add', '5.00'],
    plannedBefore: '0.00',
    plannedAfter: '5.00',
    problem: null,
    notes: [],
    undoOfRow: null,
    ...fields,
  };
}

/** The steps from `planned` to each state. */
const stepsTo: Readonly<Partial<Record<IntentState, readonly IntentState[]>>> = {
  planned: [],
  sending: ['sending'],
  acknowledged: ['sending', 'acknowledged'],
  unknown: ['sending', 'unknown'],
  needs_human: ['sending', 'unknown', 'needs_human'],
  applied: ['sending', 'unknown', 'applied'],
  rejected: ['sending', 'unknown', 'rejected'],
  not_applied: ['sending', 'unknown', 'not_applied'],
  blocked: ['blocked'],
  skipped: ['skipped'],
};

/** What a look at a user with a balance of 100.00 and no transactions has seen. */
export const seenAtHundred = {
  found: true,
  email: null,
  username: null,
  balance: '100.00',
  shown: true,
  hits: 0,
  agreeing: 0,
  alike: 0,
  sets: 0,
  sum: '0.00',
  others: [],
  recordId: null,
};

/** Moves a planned row to the state. @param fieldsOf the fields of each step on the way */
export async function moveTo(
  journal: Journal,
  row: number,
  state: IntentState,
  fieldsOf: (to: IntentState) => IntentFields = () => ({}),
  batch = 'one',
): Promise<void> {
  let from: IntentState = 'planned';
  for (const to of stepsTo[state] ?? []) {
    await journal.move({ batch, row, from, to, fields: fieldsOf(to) });
    from = to;
  }
}

/** How many transactions are in the log of the file, each of which waited for the disk once. */
export function commitsIn(file: string): number {
  const log = readFileSync(`${file}-wal`);
  const [header, frame] = [32, 24 + log.readUInt32BE(8)];
  let commits = 0;
  // The last page of a transaction has the size of the database.
  for (let at = header; at + frame <= log.length; at += frame) if (log.readUInt32BE(at + 4) > 0) commits += 1;
  return commits;
}
