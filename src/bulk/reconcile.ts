/**
 * `bulk reconcile`: compares the journal's changes of balances with what the server shows. Only reads, either pages of users with
 * their transactions or user by user, whichever takes fewer requests. Section "Reconciling" of docs/architecture.md.
 */
import type { ApiRecord } from '../api/body.ts';
import type { Page } from '../api/body.ts';
import { Reach, describeUnreadable } from '../api/narrow.ts';
import type { Journal } from '../journal/port.ts';
import { recordId } from '../model/records.ts';
import { type BalanceParameters, changesOf } from './actions/balance-judge.ts';
import { balance } from './actions/balance.ts';
import { readUser, withoutCache } from './actions/user-with.ts';
import {
  type Finding,
  findingsOf,
  isInSpan,
  type JournalRows,
  type KnownRow,
  type SeenChanges,
  type Span,
} from './differences.ts';
import { pageOfUsers } from './live-users.ts';
import type { PlanPorts } from './plan.ts';
import type { UserDirectory } from './find-users.ts';

export interface ReconcilePorts extends Pick<PlanPorts, 'journal' | 'client' | 'clock' | 'signal' | 'pageSize'> {
  readonly directory: Pick<UserDirectory, 'ids'> | null;
  /** Called before most of the requests. */
  readonly announce: (requests: number) => void;
}

interface Question {
  /** Null for all batches. */
  readonly batch: string | null;
  readonly span: Span;
}

export interface Reconciliation {
  readonly requests: number;
  readonly users: number;
  readonly rows: number;
  readonly findings: readonly Finding[];
  /** Why the comparison is incomplete; empty if it is complete. */
  readonly problems: readonly string[];
}

/** Compares and changes nothing. Throws what the client throws. */
export async function reconcile(ports: ReconcilePorts, question: Question): Promise<Reconciliation> {
  const { journal } = ports;
  const rows = await journalRows(journal, question);
  const comparison = new Comparison(ports, question, rows);
  const users = [...rows.compared.keys()].sort((a, b) => a - b);
  if (question.batch === null || (await comparison.isCheaperByPages(users))) await comparison.allPages(users);
  else await comparison.eachOf(users);
  const { requests, findings, problems } = comparison;
  const { byToken: now } = findings.length === 0 ? rows : await journalRows(journal, question);
  return {
    requests,
    users: comparison.users,
    rows: [...rows.compared.values()].reduce((sum, each) => sum + each.length, 0),
    // A row whose state has changed since its user was read is left out: the finding no longer applies.
    findings: findings.filter(({ token, state }) => (now.get(token)?.state ?? null) === state),
    problems,
  };
}

/** The rows of all balance batches. Those of the wanted batch, in the span, are to be compared. */
async function journalRows(journal: Journal, { batch: wanted, span }: Question): Promise<JournalRows> {
  const byToken = new Map<string, KnownRow>();
  const compared = new Map<number, KnownRow[]>();
  for (const { batch, action } of await journal.batches()) {
    if (action !== balance.name) continue;
    for await (const { row, user, token, parameters, state, evidence, sentAt, claimedAt } of journal.intents(batch)) {
      if (user === null || token === null || parameters === null) continue;
      const { type, amount } = parameters as BalanceParameters;
      const known = { batch, row, user, token, type, amount, state, evidence };
      byToken.set(token, known);
      if ((wanted !== null && wanted !== batch) || !isInSpan(span, sentAt ?? claimedAt)) continue;
      const own = compared.get(user);
      if (own === undefined) compared.set(user, [known]);
      else own.push(known);
    }
  }
  return { byToken, compared };
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
  readonly #reach = new Reach();
  readonly #done = new Set<number>();
  #isAnnounced = false;
  /** Whether the list shows transactions; undefined while unknown. */
  #listed: boolean | undefined;
  requests = 0;
  readonly findings: Finding[] = [];
  readonly problems: string[] = [];

  constructor(ports: ReconcilePorts, question: Question, rows: JournalRows) {
    this.#ports = { ...ports, client: withoutCache(ports.client) };
    this.#question = question;
    this.#rows = rows;
  }

  get users(): number {
    return this.#done.size;
  }

  /** If a batch is compared, only its users count. */
  get #isBatch(): boolean {
    return this.#question.batch !== null;
  }

  async isCheaperByPages(users: readonly number[]): Promise<boolean> {
    if (users.length <= fewUsers) return false;
    this.requests += 1;
    const { lastPage, records } = await this.#page(1);
    return lastPage < users.length && records.some((record) => changesOf(record) !== undefined);
  }

  /** Compares every user of the list, then the known users whom the list left out. */
  async allPages(users: readonly number[]): Promise<void> {
    let total = 0;
    let stepsBack = 0;
    for (let [number, last] = [1, 1]; number <= last;) {
      this.#ports.signal.throwIfAborted();
      const page = await this.#page(number);
      this.requests += 1;
      last = page.lastPage;
      this.#listed ??= page.records.length === 0 ? undefined : await this.#isListed(page.records);
      if (this.#listed === undefined && this.problems.length > 0) return;
      this.#announce(last - number + (this.#listed === false ? page.total : 0));
      // If users were deleted, those behind them have moved forward, onto pages that were read already.
      const gone = Math.max(0, total - page.total);
      if (gone > 0 && (stepsBack += 1) > maxStepsBack) {
        this.problems.push('the list of users became shorter again and again while it was read');
        return;
      }
      await this.#comparePage(page);
      number = gone === 0 ? number + 1 : Math.max(1, number - Math.ceil(gone / page.perPage));
      total = page.total;
    }
    await this.#compareUnlisted(users);
  }

  async eachOf(users: readonly number[]): Promise<void> {
    const left = users.filter((user) => !this.#done.has(user));
    this.#announce(left.length);
    for (const user of left) await this.#compareOne(user);
  }

  #page(number: number) {
    return pageOfUsers(this.#ports, this.#reach, number, ['balance_transactions']);
  }

  #announce(requests: number): void {
    if (!this.#isAnnounced) this.#ports.announce(requests);
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

  async #comparePage({ records, unreadable = [] }: Page): Promise<void> {
    if (unreadable.length > 0) this.problems.push(describeUnreadable(unreadable));
    for (const record of records) {
      const id = recordId(record);
      if (id === undefined) this.problems.push('a user is shown whose id cannot be read');
      if (id === undefined || this.#done.has(id) || (this.#isBatch && !this.#rows.compared.has(id))) continue;
      const changes = changesOf(record);
      if (changes === undefined) await this.#compareOne(id);
      else this.#compare(id, changes);
    }
  }

  async #compareOne(user: number): Promise<void> {
    this.#ports.signal.throwIfAborted();
    this.#compare(user, await this.#readChanges(user));
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

  #compare(user: number, seen: SeenChanges): void {
    this.#done.add(user);
    this.findings.push(...findingsOf(user, seen, this.#rows, this.#question.span));
  }
}
