/**
 * `bulk reconcile`: compares the journal's changes of balances with what the server shows. Only reads, either pages of users with
 * their transactions or user by user, whichever takes fewer requests. Keeps each step in a file beside the journal, so that a run
 * that was stopped can continue. Section "Reconciling" of docs/architecture.md.
 */
import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ApiRecord } from '../api/body.ts';
import type { Page } from '../api/lists.ts';
import { Reach, describeUnreadable } from '../api/narrow.ts';
import type { Head } from '../journal/chain.ts';
import type { IntentState, Journal } from '../journal/port.ts';
import { counted } from '../model/text.ts';
import { explainFileError, readRegularFile, refusePlanted } from '../model/files.ts';
import { recordId } from '../model/records.ts';
import { dayMs } from '../model/time.ts';
import { ownerAlone } from '../store/files/durable-file.ts';
import { type BalanceParameters, changesOf } from './actions/balance-judge.ts';
import { balance } from './actions/balance.ts';
import { readUser, withoutCache } from './actions/user-with.ts';
import {
  type Finding,
  findingsOf,
  isInSpan,
  type JournalRows,
  type KnownRow,
  rowName,
  type SeenChanges,
  type Span,
} from './differences.ts';
import { pageOfUsers } from './live-users.ts';
import type { PlanPorts } from './plan.ts';
import type { UserDirectory } from './find-users.ts';

export interface ReconcilePorts extends Pick<PlanPorts, 'journal' | 'client' | 'clock' | 'signal' | 'pageSize'> {
  readonly directory: Pick<UserDirectory, 'ids'> | null;
  /** Keeps the steps until the comparison is done. */
  readonly progressFile: string;
  /** Called before the requests. @param done users that an earlier run has compared */
  readonly announce: (requests: number, done: number) => void;
}

interface Question {
  /** Null for all batches. */
  readonly batch: string | null;
  readonly span: Span;
  /** The span as the person wrote it: a later run continues this one only if it is the same. */
  readonly words: string;
  /** How many requests this run may send; null for as many as it needs. */
  readonly mostRequests: number | null;
}

export type Reconciliation = Readonly<Awaited<ReturnType<typeof reconcile>>>;

/** Compares and changes nothing. Throws what the client throws; the next run continues from there. */
export async function reconcile(ports: ReconcilePorts, question: Question) {
  const { journal, client } = ports;
  const key = JSON.stringify([journal.id, client.address, question.batch, question.words]);
  const progress = await openProgress(ports, key, question.span);
  const rows = await journalRows(journal, question.batch, progress.span);
  const comparison = new Comparison(ports, question, rows, progress);
  const users = [...rows.compared.keys()].sort((a, b) => a - b);
  if (question.batch === null || (await comparison.isCheaperByPages(users))) await comparison.allPages(users);
  else await comparison.eachOf(users);
  const { requests, findings, problems, stopped } = comparison;
  if (stopped === null) progress.remove();
  const now = await statesNow(journal, new Set(findings.map(({ token }) => token)));
  return {
    requests,
    users: comparison.users,
    rows: [...rows.compared.values()].reduce((sum, each) => sum + each.length, 0),
    // A row whose state has changed since its user was read is left out: the finding no longer applies.
    findings: findings.filter(({ token, state }) => (now.get(token) ?? null) === state),
    /** Why the comparison is incomplete; empty if it is complete. */
    problems: stopped === null ? problems : [...problems, stopped],
    /** The same command continues from here. */
    isStopped: stopped !== null,
  };
}

/** The rows of all balance batches. Those of the wanted batch, in the span, are to be compared. */
async function journalRows(journal: Journal, wanted: string | null, span: Span): Promise<JournalRows> {
  const byToken = new Map<string, KnownRow>();
  const compared = new Map<number, KnownRow[]>();
  const takenBack = new Map<string, KnownRow>();
  for await (const { intent, user, token, undoOf } of balanceRows(journal)) {
    const { batch, row, state, evidence, undoOfRow, sentAt, claimedAt } = intent;
    const { type, amount } = intent.parameters as BalanceParameters;
    const known = { batch, row, user, token, type, amount, state, evidence };
    byToken.set(token, known);
    if (undoOf !== null && undoOfRow !== null && state === 'applied') takenBack.set(rowName(undoOf, undoOfRow), known);
    if ((wanted !== null && wanted !== batch) || !isInSpan(span, sentAt ?? claimedAt)) continue;
    const own = compared.get(user);
    if (own === undefined) compared.set(user, [known]);
    else own.push(known);
  }
  return { byToken, compared, takenBack };
}

/** The states of the rows with these tokens, by token. */
async function statesNow(journal: Journal, tokens: ReadonlySet<string>): Promise<ReadonlyMap<string, IntentState>> {
  const states = new Map<string, IntentState>();
  if (tokens.size === 0) return states;
  for await (const { intent, token } of balanceRows(journal)) if (tokens.has(token)) states.set(token, intent.state);
  return states;
}

async function* balanceRows(journal: Journal) {
  for (const { batch, action, undoOf } of await journal.batches()) {
    if (action !== balance.name) continue;
    for await (const intent of journal.intents(batch)) {
      const { user, token, parameters } = intent;
      if (user !== null && token !== null && parameters !== null) yield { intent, user, token, undoOf };
    }
  }
}

/** So few users are read one by one, without asking how many pages there are. */
const fewUsers = 15;
/** The list is not trusted if it leaves out more of the known users than this number and this share of them. */
const maxUnlisted = 50;
const maxUnlistedShare = 0.2;
/** How often the list may become shorter while it is read. */
const maxStepsBack = 20;

class Comparison {
  readonly #ports: ReconcilePorts;
  readonly #question: Question;
  readonly #rows: JournalRows;
  readonly #progress: Progress;
  readonly #reach = new Reach();
  readonly #done = new Set<number>();
  #next = 1;
  #total: number | undefined;
  #stepsBack = 0;
  #isAnnounced = false;
  /** Whether the list shows transactions; undefined while unknown. */
  #listed: boolean | undefined;
  requests = 0;
  readonly findings: Finding[] = [];
  readonly problems: string[] = [];
  /** Why this run stopped early; null if it did not. */
  stopped: string | null = null;

  constructor(ports: ReconcilePorts, question: Question, rows: JournalRows, progress: Progress) {
    this.#ports = { ...ports, client: withoutCache(ports.client) };
    this.#question = question;
    this.#rows = rows;
    this.#progress = progress;
    for (const step of progress.steps) {
      [this.#next, this.#total] = [step.next, step.total ?? this.#total];
      this.#take(step);
    }
  }

  #take({ users, findings, problems }: Progress['steps'][number]): void {
    for (const user of users) this.#done.add(user);
    this.findings.push(...findings);
    this.problems.push(...problems);
  }

  get users(): number {
    return this.#done.size;
  }

  get #isBatch(): boolean {
    return this.#question.batch !== null;
  }

  get #isSpent(): boolean {
    const { mostRequests } = this.#question;
    if (mostRequests === null || this.requests < mostRequests) return false;
    this.stopped = `stopped after ${counted(this.requests, 'request')}, as --max-requests says; the same command continues`;
    return true;
  }

  async isCheaperByPages(users: readonly number[]): Promise<boolean> {
    if (users.length <= fewUsers || this.#progress.steps.length > 0) return this.#next > 1;
    this.requests += 1;
    const { lastPage, records } = await this.#page(1);
    return lastPage < users.length && records.some((record) => changesOf(record) !== undefined);
  }

  /** Compares every user of the list, then the known users whom the list left out. */
  async allPages(users: readonly number[]): Promise<void> {
    let last = Infinity;
    while (this.#next <= last) {
      this.#ports.signal.throwIfAborted();
      if (this.#isSpent) return;
      const number = this.#next;
      const page = await this.#page(number);
      this.requests += 1;
      last = page.lastPage;
      this.#listed ??= page.records.length === 0 ? undefined : await this.#isListed(page.records);
      if (this.#listed === undefined && this.problems.length > 0) return;
      this.#announce(last - number + (this.#listed === false ? page.total : 0));
      // If users were deleted, those behind them have moved forward, onto pages that were read already.
      const gone = Math.max(0, (this.#total ?? 0) - page.total);
      if (gone > 0 && (this.#stepsBack += 1) > maxStepsBack) {
        this.problems.push('the list of users became shorter again and again while it was read');
        return;
      }
      const next = gone === 0 ? number + 1 : Math.max(1, number - Math.ceil(gone / page.perPage));
      if (!(await this.#comparePage(page, next))) return;
      [this.#next, this.#total] = [next, page.total];
    }
    await this.#compareUnlisted(users);
  }

  async eachOf(users: readonly number[]): Promise<void> {
    const left = users.filter((user) => !this.#done.has(user));
    this.#announce(left.length);
    for (const user of left) {
      this.#ports.signal.throwIfAborted();
      if (this.#isSpent) return;
      this.#record(1, undefined, [[user, await this.#readChanges(user)]]);
    }
  }

  #page(number: number) {
    return pageOfUsers(this.#ports, this.#reach, number, ['balance_transactions']);
  }

  #announce(requests: number): void {
    if (!this.#isAnnounced) this.#ports.announce(requests, this.#done.size);
    this.#isAnnounced = true;
  }

  /** Whether the list shows transactions (true) or only the record of a single user (false); undefined if neither does. */
  async #isListed(records: readonly ApiRecord[]): Promise<boolean | undefined> {
    if (records.some((record) => changesOf(record) !== undefined)) return true;
    const first = records.map((record) => recordId(record)).find((id) => id !== undefined);
    if (first !== undefined && Array.isArray(await this.#readChanges(first))) return false;
    this.problems.push('the server shows no balance transactions: nothing can be compared');
    return undefined;
  }

  /** Compares the users of a page. Returns false if the run stopped before its end. */
  async #comparePage({ records, unreadable = [], total }: Page, next: number): Promise<boolean> {
    const seen: [number, SeenChanges][] = [];
    const problems = unreadable.length > 0 ? [describeUnreadable(unreadable)] : [];
    for (const record of records) {
      const id = recordId(record);
      if (id === undefined) problems.push('a user is shown whose id cannot be read');
      // If a batch is compared, only its users count.
      if (id === undefined || this.#done.has(id) || (this.#isBatch && !this.#rows.compared.has(id))) continue;
      const changes = changesOf(record);
      if (changes !== undefined) seen.push([id, changes]);
      else if (this.#isSpent) return false;
      else {
        this.#ports.signal.throwIfAborted();
        // Recorded one by one: a page of such users takes many requests.
        this.#record(this.#next, this.#total, [[id, await this.#readChanges(id)]]);
      }
    }
    this.#record(next, total, seen, problems);
    return true;
  }

  /** Compares the users of the journal and of the mirror whom the list did not show. */
  async #compareUnlisted(users: readonly number[]): Promise<void> {
    if (this.#done.size === 0 && !this.#isBatch) {
      this.problems.push('the list of users is empty, which proves nothing');
      return;
    }
    const mirrored = this.#isBatch ? [] : (this.#ports.directory?.ids() ?? []);
    const known = new Set([...users, ...mirrored]);
    const left = [...known].filter((user) => !this.#done.has(user));
    if (left.length > Math.max(maxUnlisted, known.size * maxUnlistedShare)) {
      this.problems.push(`the list of users leaves out ${left.length} of ${known.size} that are known`);
      return;
    }
    await this.eachOf(left);
  }

  async #readChanges(user: number): Promise<SeenChanges> {
    this.requests += 1;
    const { client, signal } = this.#ports;
    const record = await readUser(client, { user }, 'balance_transactions', signal);
    return record === null ? 'gone' : (changesOf(record) ?? 'hidden');
  }

  /** Compares what was seen and adds it to the progress file. */
  #record(
    next: number,
    total: number | undefined,
    seen: readonly (readonly [number, SeenChanges])[],
    problems: readonly string[] = [],
  ): void {
    const findings = seen.flatMap(([user, changes]) => findingsOf(user, changes, this.#rows, this.#progress.span));
    const step = { next, total, users: seen.map(([user]) => user), findings, problems };
    this.#take(step);
    this.#progress.add(step);
  }
}

interface Step {
  /** The next page of the list to read. */
  readonly next: number;
  readonly total: number | undefined;
  readonly users: readonly number[];
  readonly findings: readonly Finding[];
  readonly problems: readonly string[];
}

type Progress = Awaited<ReturnType<typeof openProgress>>;

interface Header {
  readonly key: string;
  readonly at: number;
  readonly span: Span;
  readonly head: Head | null;
}

/**
 * Opens the progress file: a header line, then one line for each step. Starts again if the progress is older than a day, belongs to
 * another question, or comes from a journal with steps that this one lacks.
 */
async function openProgress({ journal, progressFile: file, clock }: ReconcilePorts, key: string, span: Span) {
  const [first, ...steps] = linesOf(file);
  const header = first as Header | undefined;
  const isContinued =
    header?.key === key &&
    clock.now() - header.at < dayMs &&
    (header.head === null || (await journal.hasStep(header.head)));
  const explained = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      throw explainFileError(error, 'write to', file) ?? error;
    }
  };
  // Rewritten even if it is continued: the last line may have been cut off.
  const kept = isContinued
    ? [header, ...steps]
    : [{ key, at: clock.now(), span, head: (await journal.head()) ?? null } satisfies Header];
  const text = kept.map((line) => `${JSON.stringify(line)}\n`).join('');
  explained(() => {
    refusePlanted(file);
    writeFileSync(file, text, { mode: ownerAlone });
  });
  return {
    steps: isContinued ? (steps as Step[]) : [],
    /** The span as of the first of these runs. */
    span: isContinued ? header.span : span,
    add: (step: Step) => explained(() => appendFileSync(file, `${JSON.stringify(step)}\n`)),
    remove: () => explained(() => rmSync(file, { force: true })),
  };
}

/** Bytes. The file has one line for each page or user, so no shop comes near this. */
const maxProgressBytes = 2 ** 30;

/** The parsed lines of the file, up to the first incomplete one. */
function linesOf(file: string): unknown[] {
  let text: string;
  try {
    text = readRegularFile(file, maxProgressBytes).bytes.toString('utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw explainFileError(error, 'read', file) ?? error;
  }
  const lines: unknown[] = [];
  for (const line of text.split('\n')) {
    try {
      lines.push(JSON.parse(line));
    } catch {
      return lines;
    }
  }
  return lines;
}
