/** `bulk plan`: turns rows into a stored batch, and sends nothing. Section "Writing" of docs/architecture.md. */
import { randomBytes } from 'node:crypto';
import { parse } from 'node:path';
import type { Batch, Journal, NewIntent, PlannedServer } from '../journal/port.ts';
import { counted, storable, trimmed } from '../model/text.ts';
import { IncompleteError, UsageError } from '../model/errors.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import { untilAborted } from '../model/turns.ts';
import type { Action, LookingClient } from './action.ts';
import { actionOf } from './actions.ts';
import { batchOf, checkNotRepeated, earlierClock, repeatLines, type Rules, termsOf } from './claim.ts';
import { type Caps, noCaps } from '../model/money.ts';
import type { Again } from './approval.ts';
import { batchCapProblem, capAdvice, rowsCapProblem } from '../journal/caps.ts';
import { addKey, findTaken, findUsers, type FoundUsers, type UserDirectory, type WantedKeys } from './find-users.ts';
import { keyOwner, type LiveClient } from './live-users.ts';
import { bounded, claimableRows, notedFields, planHash, planRows, rowsDigest } from './plan-rows.ts';
import { type ReadRow, type ReadRows, undoRows } from './read-rows.ts';
import type { SheetProblem } from './sheet/sheet.ts';
import { newToken } from './token.ts';

export interface PlanPorts {
  readonly journal: Journal;
  readonly client: LiveClient & LookingClient;
  readonly directory: UserDirectory | null;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly concurrency: number;
  readonly pageSize: number;
  readonly rules: Rules;
}

interface PlanSource {
  /** What people call the batch; null for the name of its file. */
  readonly title: string | null;
  readonly file: { readonly name: string; readonly bytes: number; readonly hash: string } | null;
  readonly undoOf: string | null;
  readonly again: Again;
}

/** Rows, their action and their source. */
export interface Plannable {
  readonly action: Action;
  readonly rows: ReadRows;
  readonly source: PlanSource;
}

/** The rows that take the batch back. Throws a UsageError if there is no such batch, or nothing of it to take back. */
export async function undoOf(journal: Journal, name: string): Promise<Plannable> {
  const batch = await batchOf(journal, name);
  const action = actionOf(batch.action);
  const rows = await undoRows(journal, batch, action);
  const title = `Reversal of ${batch.title}`;
  return { action, rows, source: { title, file: null, undoOf: batch.batch, again: { reason: null } } };
}

interface Planned {
  readonly batch: Batch;
  /** As they were planned: reading a large batch back would take as long as planning it. */
  readonly rows: readonly NewIntent[];
}

/**
 * Plans the rows and stores the batch. Throws a UsageError, and stores nothing, if the batch must not be sent.
 * @param goesOn with an earlier plan of the same file that was not sent and is still the same to the last row: stores no second one
 */
export async function planBatch(
  ports: PlanPorts,
  { action, rows: read, source }: Plannable,
  batch = newBatchId(ports.clock),
  goesOn = false,
): Promise<Planned> {
  const { journal, client, rules } = ports;
  const caps = source.undoOf === null ? rules.caps : { ...noCaps, currency: rules.caps.currency };
  checkRowCount(read, caps);
  const owner = await keyOwner(client, ports.signal);
  const server: PlannedServer = { address: client.address, keyMark: client.keyMark, owner };
  const fileHash = source.file?.hash ?? null;
  const { plan, unconfirmed } = await plannedRows(ports, action, read, source, caps);
  const { rows } = plan;
  const claimed = claimableRows(rows);
  const digest = rowsDigest(claimed);
  const tooMuch = batchCapProblem(claimed, [], caps);
  if (tooMuch !== null) throw notPlanned(tooMuch);
  const view = await journal.claimView(
    { batch, fileHash, rowsDigest: digest },
    claimed,
    termsOf(rules, earlierClock(ports)),
  );
  checkNotRepeated(view, { fileHash, undoOf: source.undoOf }, source.again);
  const hashAs = (title: string): string =>
    planHash({ action: action.name, title, fileHash, server, undoOf: source.undoOf }, rows);
  const earlier = goesOn && fileHash !== null ? await journal.plansOf(action.name, fileHash, digest) : [];
  const same = earlier.find((each) => each.hash === hashAs(source.title === null ? each.title : titleOf(source)));
  if (same !== undefined) return { batch: same, rows };
  const title = titleOf(source);
  // Only a warning: what is left of the day's limit is decided when the batch is sent.
  const today = batchCapProblem(claimed, view.claimedToday, caps);
  const warnings = [
    ...read.notes,
    ...plan.warnings,
    ...(await unsettledWarning(ports, action, rows)),
    ...unconfirmedWarning(unconfirmed, action, ports.directory),
    ...(today === null ? [] : [today]),
    ...bounded(repeatLines(view)),
  ];
  await journal.addBatch(
    {
      batch,
      action: action.name,
      title,
      file: source.file?.name ?? null,
      fileBytes: source.file?.bytes ?? null,
      fileHash,
      hash: hashAs(title),
      rowsDigest: digest,
      rows: rows.length,
      net: plan.net,
      columns: read.columns,
      problems: [...read.problems, ...apartFrom(read.problems, plan.problems)],
      warnings,
      server,
      undoOf: source.undoOf,
      againReason: source.again.reason,
    },
    untilAborted(rows, ports.signal),
  );
  const stored = await journal.batch(batch);
  if (stored === undefined) throw new IncompleteError(`batch ${batch} was stored and is not there`);
  return { batch: stored, rows };
}

const titleLength = 120;

function titleOf({ title, file }: PlanSource): string {
  const words = trimmed(title ?? '') || parse(file?.name ?? '').name;
  return storable(words.slice(0, titleLength));
}

/** A function of its own, so that the users are released before the rows are stored: there may be a hundred thousand of both. */
async function plannedRows(ports: PlanPorts, action: Action, read: ReadRows, { again }: PlanSource, caps: Caps) {
  const { users, unconfirmed } = await usersOf(ports, action, read);
  return { plan: await planRows(action, plannableRows(read, again), users, caps, ports.signal), unconfirmed };
}

/** Throws a UsageError if there are no rows, or too many. Called before any user is looked up. */
export function checkRowCount({ rows }: ReadRows, caps: Pick<Caps, 'maxRows'>): void {
  if (rows.length === 0) throw new UsageError('there are no rows to plan', { advice: 'Add rows below the header.' });
  const tooMany = rowsCapProblem(rows.length, caps);
  if (tooMany !== null) throw notPlanned(tooMany);
}

function notPlanned(problem: string): UsageError {
  return new UsageError(`${problem}; nothing was planned`, { advice: capAdvice });
}

const sentStates = new Set(['applied', 'unknown', 'needs_human', 'acknowledged', 'sending']);

/** The rows, of which those that must not be planned as they are have a problem. */
function plannableRows({ columns, rows, problems }: ReadRows, again: Again): readonly ReadRow[] {
  const [first] = problems;
  if (first !== undefined) {
    // None of them can be relied on.
    const problem = `the file was not read: ${first.problem}`;
    return rows.map((row) => ({ ...row, key: null, problems: [{ row: row.row, column: null, problem }] }));
  }
  const at = columns.findIndex((name) => name.toLowerCase() === '_state');
  if (at === -1 || again.reason !== null) return rows;
  return rows.map((row) => {
    const state = row.cells[at]?.trim().toLowerCase() ?? '';
    if (!sentStates.has(state)) return row;
    const problem = `the file says that this row is ${state}: it was sent. Take it out, or send it again with \`--again --reason "…"\``;
    return { ...row, problems: [...row.problems, { row: row.row, column: '_state', problem }] };
  });
}

/** Each invalid row is named; one that a problem of the file names is not named again. */
function apartFrom(ofFile: readonly SheetProblem[], ofRows: readonly SheetProblem[]): SheetProblem[] {
  const named = new Set(ofFile.map(({ row }) => row));
  return ofRows.filter(({ row }) => !named.has(row));
}

async function usersOf(ports: PlanPorts, action: Action, read: ReadRows): Promise<FoundUsers> {
  const keys: WantedKeys = new Map();
  for (const { key, problems, parameters } of read.problems.length > 0 ? [] : read.rows) {
    if (problems.length > 0) continue;
    for (const each of action.newKeys?.(parameters) ?? (key === null ? [] : [key])) addKey(keys, each);
  }
  return action.target === 'new'
    ? findTaken(keys, ports.directory, { ...ports, userFields: action.userFields })
    : findUsers(keys, ports.directory, { ...ports, userFields: [...action.userFields, ...notedFields] });
}

/** Looks at one user to tell whether lost responses can be settled on this server without a person. */
async function unsettledWarning(ports: PlanPorts, action: Action, rows: readonly NewIntent[]): Promise<string[]> {
  const first = rows.find(({ state, user }) => state === 'planned' && (user !== null || action.target === 'new'));
  if (first === undefined || first.parameters === null) return [];
  const target = { user: first.user, parameters: first.parameters, token: newToken() };
  const warning = action.unsettled(await action.look(ports.client, target, ports.signal));
  return warning === null ? [] : [warning];
}

function unconfirmedWarning(unconfirmed: number, { target }: Action, directory: UserDirectory | null): string[] {
  if (unconfirmed === 0) return [];
  if (target === 'new') {
    return [
      `whether anybody has them already was not checked on the server for ${counted(unconfirmed, 'email or user name', 'emails and user names')}: ` +
        'each is looked for just before its row is sent',
    ];
  }
  const since = directory?.freshAsOf ?? 'a time that is not known';
  return [
    `${counted(unconfirmed, 'user was', 'users were')} not checked on the server: shown as the mirror has them, as of ${since}. ` +
      'Each is read again just before its row is sent.',
  ];
}

/** `20260311-102030-k7qa`: sorts by time, and is easy to type. */
export function newBatchId(clock: Clock): string {
  const time = timestampOf(clock.now()).slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
  const letters = 'abcdefghijkmnpqrstuvwxyz23456789';
  const end = [...randomBytes(4)].map((byte) => letters[byte & 31] ?? '').join('');
  return `${time}-${end}`;
}
