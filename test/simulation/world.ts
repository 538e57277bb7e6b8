/**
 * The whole system on one simulated machine: its moves, all drawn from a seed, and what must hold whenever it is quiet.
 */
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { openClient, type Client } from '../../src/api/operations.ts';
import { checkSendable } from '../../src/bulk/send-batch.ts';
import { MirrorsJournalMemory } from '../../src/store/journal-memory.ts';
import { exportSet, manifestProgram } from '../../src/data/export-set.ts';
import type { Actor } from '../../src/model/actor.ts';
import type { Journal } from '../../src/journal/port.ts';
import { openJournal, openPeopleIn } from '../support/journal-file.ts';
import { forgetUser, openForgetStore } from '../../src/mirror/forget.ts';
import { openSyncEngine } from '../../src/mirror/open.ts';
import type { SyncRequest, SyncResult } from '../../src/mirror/sync.ts';
import { InterruptedError, OperatorError } from '../../src/model/errors.ts';
import { silentLog } from '../../src/model/log.ts';
import { type ResourceName, resourceNames, resourceOf } from '../../src/model/resources.ts';
import { dayMs, hourMs, minuteMs, parseInstant, secondMs, type Timestamp, timestampOf } from '../../src/model/time.ts';
import { defaultBehaviour } from '../support/bent/sandbox.ts';
import type { Behaviour, Fault, LedgerEntry, Sandbox } from '../support/bent/sandbox.ts';
import type { Row } from '../../src/data/reading-types.ts';
import { openReadingStore } from '../../src/data/reading.ts';
import { openWorkerStore } from '../../src/worker/store/sqlite.ts';
import { Worker } from '../../src/worker/worker.ts';
import { randomFrom, rowsOf, textOf } from '../property/server-history.ts';
import { intentsOf, newUser, openRules, plan, send, sheetOf } from '../support/bulk.ts';
import { columnsOf, tableRows, withSnapshot } from '../support/history.ts';
import { jobOf } from '../support/jobs.ts';
import { anna, policyOf } from '../support/journal.ts';
import { newAccount, operator } from '../support/people.ts';
import { openSmall, sandboxNow } from '../support/sandbox.ts';
import { temporaryFolderNow } from '../support/temporary-folder.ts';
import { Disk, Machine, Process } from './machine.ts';

const kinds = {
  sync: 6,
  'two syncs and a forget': 2,
  plan: 9,
  approve: 4,
  send: 14,
  export: 2,
  change: 7,
  'read faults': 2,
  lie: 5,
  'write fault': 4,
  'disk full': 2,
  'slow journal': 1,
  'mirror copied': 1,
  'mirror put back': 1,
  'journal copied': 1,
  'journal put back': 1,
  'clock set back': 1,
  'server saved': 1,
  'server put back': 2,
  'ids used again': 2,
  quiet: 1,
} as const;
type Kind = keyof typeof kinds;

export interface Move {
  readonly kind: Kind;
  /** The seed of its other random choices. */
  readonly seed: number;
  /** The time since the previous move. */
  readonly gapMs: number;
}

/** Half of the seeds are about money, so that two prompts for the same payment meet. */
const aboutMoney: ReadonlySet<Kind> = new Set(['plan', 'approve', 'send', 'write fault']);

/** The moves of a seed. */
export function movesOf(seed: number): Move[] {
  const random = randomFrom(seed);
  const times = pick(random, [1, 5]);
  const all = (Object.keys(kinds) as Kind[]).flatMap((kind) =>
    Array.from({ length: kinds[kind] * (aboutMoney.has(kind) ? times : 1) }, () => kind),
  );
  const short = [0, 0, 300, 2 * secondMs, 10 * secondMs, 5 * minuteMs];
  const gaps = times > 1 ? short : [...short, 40 * minuteMs, 7 * hourMs, 20 * hourMs];
  return Array.from({ length: 10 + Math.floor(random() * 10) }, () => ({
    kind: pick(random, all),
    seed: Math.floor(random() * 1e9),
    gapMs: pick(random, gaps),
  }));
}

function pick<T>(random: () => number, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T;
}

const changing = ['users', 'emails'] as const;
type Changing = (typeof changing)[number];
const fieldsOf = (resource: ResourceName): string[] => resourceOf(resource).fields.map(({ name }) => name);

const lies: readonly Partial<Behaviour>[] = [
  { empty_lists: 'users,emails' },
  { empty_lists: 'users,emails', missing_users: true },
  { missing_users: true },
  { totals_more: 3 },
  { totals_cap: 20 },
  { totals_cached: 20 },
];
const readFaults = ['error_500', 'html', 'reset_before', 'reset_middle', 'truncated', 'empty_body'] as const;
const failing = Object.fromEntries(readFaults.map((fault) => [`read_${fault}`, 0.04])) as Partial<Behaviour>;
const writeFaults: readonly Fault[] = [
  'commit_reset',
  'reset_before',
  'commit_429',
  'commit_500',
  'lost',
  'commit_late',
];
/** A write whose connection was cut is made within this time, or never. */
const settleAfterMs = 10 * minuteMs;

type TemporaryFolder = ReturnType<typeof temporaryFolderNow>;
type Records = ReadonlyMap<number, string>;

interface ServerCopy {
  readonly records: Readonly<Record<Changing, readonly Readonly<Record<string, unknown>>[]>>;
  readonly transactions: ReadonlyMap<number, readonly Readonly<Record<string, unknown>>[]>;
  readonly ledger: number;
}

export class World {
  readonly machine: Machine;
  readonly problems: string[] = [];
  readonly #folder: TemporaryFolder;
  readonly #mirror: string;
  readonly #journal: string;
  readonly #exports: string;
  readonly #sandbox: Sandbox;
  readonly #disk: Disk;
  readonly #random: () => number;
  readonly #payees: readonly number[];
  #worker: { readonly process: Process; readonly stop: AbortController } | undefined;
  #names = 0;
  // The test's own model of the state.
  readonly #server = new Map<Changing, Records>();
  /** Every state that a record has ever had. */
  readonly #ever = new Map<Changing, Map<number, Set<string>>>(changing.map((name) => [name, new Map()]));
  readonly #touched = new Map<string, number>();
  readonly #forgotten = new Set<number>();
  readonly #moods = new Set<Partial<Behaviour>>();
  readonly #batches: { readonly batch: string; readonly plan: string }[] = [];
  /** The plan that each token belongs to; two batches with the same effect have one plan. */
  readonly #tokens = new Map<string, string>();
  /** The plans that were approved. */
  readonly #approved = new Set<string>();
  /** Payments that a restored server has lost. */
  readonly #undone = new Set<number>();
  #copy: ServerCopy | undefined;
  #then: { readonly at: Timestamp; readonly rows: Readonly<Record<Changing, readonly Row[]>> } | undefined;

  static async open(seed: number): Promise<World> {
    const random = randomFrom(seed + 77);
    const behaviour: Partial<Behaviour> = {
      page_max: pick(random, [0, 7, 30]),
      sort_ties: pick(random, ['stable', 'random']),
    };
    const [users, emails] = pick(random, [
      [12, 20],
      [40, 25],
    ] as const);
    const sandbox = await openSmall({ users, emails, packages: 3, coupons: 3, now: () => sandboxNow, behaviour });
    const folder = temporaryFolderNow();
    const world = new World(seed, sandbox, folder, await Disk.open(folder.path), random, behaviour);
    await world.#begin();
    return world;
  }

  private constructor(
    seed: number,
    sandbox: Sandbox,
    folder: TemporaryFolder,
    disk: Disk,
    random: () => number,
    behaviour: Partial<Behaviour>,
  ) {
    [this.#sandbox, this.#folder, this.#disk] = [sandbox, folder, disk];
    [this.#mirror, this.#journal, this.#exports] = ['mirror.db', 'journal.db', 'exports'].map(
      (name) => `${folder.path}/${name}`,
    ) as [string, string, string];
    this.#random = random;
    this.#moods.add({ ...defaultBehaviour, ...behaviour, late_commit_ms: 3_600_000, retry_after_seconds: 1 });
    this.machine = new Machine(seed, sandboxNow);
    this.machine.onTime = (time) => sandbox.control.setClock(time);
    this.machine.onTime(sandboxNow);
    this.#payees = [0, 1, 2].map(() => newUser(sandbox, 100));
  }

  async #begin(): Promise<void> {
    this.#observe();
    const people = await openPeopleIn(this.#journal, operator, this.machine.clock);
    await people.add(newAccount('carla', { roles: ['approver'], osUsers: [], password: 'hash' }));
    await people.close();
    await this.#alone('first sync', async (process) => this.#judged(await this.#sync(process, {})));
    this.#startWorker();
  }

  async close(): Promise<void> {
    this.#disk.close();
    await this.#sandbox.close();
    this.#folder.remove();
  }

  /** The number of payments that the server has made. */
  payments(): number {
    return this.#sandbox.control.ledger().length;
  }

  async do(move: Move): Promise<void> {
    const { machine } = this;
    let isTime = false;
    machine.after(move.gapMs, () => (isTime = true));
    await machine.run(() => isTime);
    const random = randomFrom(move.seed);
    machine.note(`-- ${move.kind}`);
    const { control } = this.#sandbox;
    switch (move.kind) {
      case 'sync':
        return this.#start('sync', random, (process) => this.#syncAtRandom(process, random));
      case 'two syncs and a forget': {
        for (let count = 0; count < 2; count += 1) {
          this.#start('sync', random, (process) => this.#syncAtRandom(process, random));
        }
        const user = pick(random, [...(this.#server.get('users') ?? new Map<number, string>()).keys()]);
        return this.#start('forget', random, (process) => this.#forget(process, user));
      }
      case 'plan':
        return this.#start('plan', random, (process) => this.#plan(process, random));
      case 'approve':
        return this.#start('console', random, (process) => this.#approve(process, random));
      case 'send':
        return this.#start('send', random, (process) => this.#send(process, random));
      case 'export':
        return this.#start('export', random, (process) => this.#export(process));
      case 'change':
        return this.#change(random);
      case 'read faults':
        return this.#inMood(failing, pick(random, [2 * secondMs, minuteMs, hourMs]));
      case 'lie':
        this.#inMood(pick(random, lies), pick(random, [2 * secondMs, hourMs, 9 * hourMs]));
        // Otherwise most of them would end before a run reads.
        if (random() < 0.7) this.#start('sync', random, (process) => this.#syncAtRandom(process, random));
        return;
      case 'write fault': {
        const fault = pick(random, writeFaults);
        control.faultNext({ fault, match: { method: 'PUT' } });
        return;
      }
      case 'disk full':
        this.#disk.fill(Math.floor(random() * 12), Math.floor(random() * 12));
        return machine.after(pick(random, [secondMs, minuteMs, 3 * hourMs]), () => this.#disk.empty());
      case 'slow journal':
        machine.journalStepMs = pick(random, [100, 5 * secondMs]);
        return machine.after(hourMs, () => (machine.journalStepMs = 0));
      case 'mirror copied':
      case 'mirror put back':
      case 'journal copied':
      case 'journal put back':
        return this.#moveFile(move.kind);
      case 'clock set back':
        machine.skewMs -= pick(random, [minuteMs, hourMs, 2 * dayMs]);
        this.#then = undefined;
        return;
      case 'server saved':
        this.#copy = this.#copyOfServer();
        return;
      case 'server put back':
        return this.#putServerBack();
      case 'ids used again': {
        const users = [...(this.#server.get('users') ?? new Map<number, string>()).keys()];
        const id = pick(random, users.filter((each) => !this.#payees.includes(each)).slice(1));
        control.remove('users', id);
        control.insert('users', { id });
        return this.#observe();
      }
      case 'quiet':
        return this.quiet();
    }
  }

  /** Ends everything that runs, then checks everything. */
  async quiet(): Promise<void> {
    const { control } = this.#sandbox;
    await this.#ended();
    const [usual] = this.#moods;
    for (const mood of this.#moods) if (mood !== usual) this.#moods.delete(mood);
    this.#setBehaviour();
    control.clearFaults();
    control.commitLate();
    this.#observe();
    this.#disk.empty();
    this.machine.journalStepMs = 0;
    await this.#alone('quiet sync', async (process) => {
      const result = await this.#sync(process, { allowDeletions: true });
      this.#judged(result);
      if (result.error !== null) this.problems.push(`the quiet sync ended with: ${result.error.message}`);
    });
    this.#checkMirror();
    this.#checkHistory();
    await this.#checkMoney();
    this.#checkExport();
    this.#startWorker();
  }

  /** Waits until every process has ended, including the worker. */
  async #ended(): Promise<void> {
    this.#worker?.stop.abort(new InterruptedError('SIGTERM'));
    this.#worker = undefined;
    await this.machine.run(() => this.machine.running.size === 0);
  }

  async #alone(name: string, work: (process: Process) => Promise<void>): Promise<void> {
    this.#startProcess(new Process(name, Infinity), work);
    await this.machine.run(() => this.machine.running.size === 0);
  }

  /** One process of five is killed at some step. */
  #start(name: string, random: () => number, work: (process: Process) => Promise<void>): void {
    const steps = random() < 0.2 ? 1 + Math.floor(random() * random() * 60) : Infinity;
    this.#names += 1;
    this.#startProcess(new Process(`${name}-${this.#names}`, steps), work);
  }

  #startProcess(process: Process, work: (process: Process) => Promise<void>): void {
    const { machine } = this;
    machine.start(
      process,
      async () => {
        await work(process);
        machine.note(`${process.name} ends`);
      },
      (error) => {
        const isExpected = error instanceof OperatorError;
        machine.note(
          `${process.name} ends with ${isExpected ? `${error.constructor.name} ${error.exitCode}` : 'a bug'}`,
        );
        if (!isExpected)
          this.problems.push(`${process.name}: ${error instanceof Error ? (error.stack ?? '') : String(error)}`);
      },
    );
  }

  #client(process: Process): Client {
    const { machine } = this;
    const client = openClient({
      baseUrl: this.#sandbox.url,
      key: this.#sandbox.key,
      timeoutMs: 20_000,
      concurrency: 1,
      attempts: 4,
      pageSize: 20,
      userAgent: 'admin-mirror tests',
      log: silentLog,
      clock: machine.clock,
      random: this.#random,
      sleep: machine.sleep(process, true),
    });
    process.closes(() => client.close());
    const gated = machine.inTurn(process, 'client', client, atOnce.client);
    return new Proxy(gated, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (name !== 'sendExactly' || typeof value !== 'function') return value;
        return async (...given: unknown[]): Promise<unknown> => {
          try {
            return await (Reflect.apply(value, target, given) as Promise<unknown>);
          } finally {
            this.#observe();
            // A write whose connection was cut is made within its time, or never.
            machine.after(1 + Math.floor(this.#random() * 0.9 * settleAfterMs), () => {
              if (this.#sandbox.control.commitLate() > 0) this.#observe();
            });
          }
        };
      },
    });
  }

  // ── The mirror ──

  async #sync(
    process: Process,
    request: Partial<SyncRequest>,
    signal = new AbortController().signal,
  ): Promise<SyncResult> {
    const { machine } = this;
    const client = this.#client(process);
    const engine = openSyncEngine({
      client,
      file: this.#mirror,
      clock: machine.clock,
      pageSize: 20,
      signal,
      progress: () => {},
      historyIgnore: [],
      overStore: (store) => this.machine.mortal(process, store),
    });
    process.closes(() => engine.close());
    return engine.run({
      resources: resourceNames,
      mode: 'default',
      only: null,
      allowDeletions: false,
      requestsPerRun: 1_000,
      windowPages: 3,
      concurrency: 1,
      ...request,
    });
  }

  async #syncAtRandom(process: Process, random: () => number): Promise<void> {
    const mode = pick(random, ['default', 'default', 'quick', 'full'] as const);
    const stop = new AbortController();
    const stopped = random() < 0.2;
    if (stopped) this.machine.after(Math.floor(random() * 4_000), () => stop.abort(new InterruptedError('SIGINT')));
    const requestsPerRun = pick(random, [3, 1_000]);
    // Never with allowDeletions, by which a person confirms an empty list: the list may be a lie at that time.
    this.#judged(await this.#sync(process, { mode, requestsPerRun }, stop.signal));
  }

  /** What must hold after every run, whatever happened in it. */
  #judged({ report, error }: SyncResult): void {
    this.machine.note(`run is ${report.status}, ${error?.exitCode ?? 0}, ${JSON.stringify(report.answers)}`);
    this.#observe();
    for (const resource of changing) {
      const ended = report.resources[resource];
      if (ended === undefined) continue;
      const rows = rowsOf(this.#mirror, resource, fieldsOf(resource));
      const server = this.#server.get(resource) ?? new Map<number, string>();
      const kept = this.#keptOut(resource);
      const fresh = parseInstant(ended.fresh_as_of);
      this.machine.note(`${resource}: ${ended.status}, ${rows.size} rows, fresh as of ${ended.fresh_as_of}`);
      if (ended.status === 'complete' && fresh === undefined)
        this.problems.push(`${resource} is complete and never fresh`);
      if (fresh === undefined) continue;
      const isOlder = (id: number) => (this.#touched.get(`${resource} ${id}`) ?? 0) < fresh;
      for (const [id, text] of server) {
        if (isOlder(id) && !kept.has(id) && rows.get(id) !== text) {
          this.problems.push(`${resource} ${id} is not as it was on ${ended.fresh_as_of}: ${rows.get(id)} for ${text}`);
        }
      }
      for (const id of rows.keys()) {
        if (!server.has(id) && isOlder(id))
          this.problems.push(`${resource} ${id} was gone before ${ended.fresh_as_of}`);
      }
    }
  }

  async #forget(process: Process, user: number): Promise<void> {
    const { clock } = this.machine;
    await this.machine.turn(process, 'forget');
    const journal = await this.#openJournal(process, anna);
    const store = openForgetStore(this.#mirror, clock, 0);
    process.closes(() => store.close());
    const guarded = this.machine.mortal(process, store);
    const forget: typeof store.forget = (person, at) => {
      const forgotten = guarded.forget(person, at);
      this.#forgotten.add(user);
      return forgotten;
    };
    const watched = new Proxy(guarded, {
      get: (target, name) => (name === 'forget' ? forget : Reflect.get(target, name)) as unknown,
    });
    await forgetUser({ store: watched, journal, clock }, user);
  }

  /** The ids that are kept out of the mirror because their person was forgotten. */
  #keptOut(resource: Changing): ReadonlySet<number> {
    return withSnapshot(this.#mirror, (snapshot) => {
      const select = { relation: 'mirror_suppressions', columns: ['resource', 'id', 'user_id'] } as const;
      const rows = [...snapshot.select(select).batches(() => 1_000)].flat();
      for (const [, , user] of rows) {
        if (!this.#forgotten.has(Number(user)))
          this.problems.push(`user ${String(user)} is kept out, and nobody said so`);
      }
      return new Set(rows.filter(([name]) => name === resource).map(([, id]) => Number(id)));
    });
  }

  /** After a quiet sync the mirror must equal the server, except for forgotten people. */
  #checkMirror(): void {
    for (const resource of changing) {
      const kept = this.#keptOut(resource);
      const rows = rowsOf(this.#mirror, resource, fieldsOf(resource));
      const server = [...(this.#server.get(resource) ?? [])].filter(([id]) => !kept.has(id));
      for (const [id, text] of server) {
        if (rows.get(id) !== text)
          this.problems.push(`${resource} ${id} is ${rows.get(id)} in the mirror, and ${text}`);
      }
      const known = new Set(server.map(([id]) => id));
      for (const id of rows.keys())
        if (!known.has(id)) this.problems.push(`the mirror has ${resource} ${id}, which is gone`);
    }
  }

  /** Every version must have existed, and past tables must be as they were. */
  #checkHistory(): void {
    const all = { from: timestampOf(0), to: timestampOf(sandboxNow + 400 * dayMs) };
    for (const resource of changing) {
      const names = columnsOf(resource);
      const fields = fieldsOf(resource);
      const ever = this.#ever.get(resource);
      const plain = (cell: Row[number] | undefined) => (typeof cell === 'bigint' ? Number(cell) : cell);
      const text = (row: Row) => textOf(Object.fromEntries(names.map((name, at) => [name, plain(row[at])])), fields);
      for (const change of withSnapshot(this.#mirror, (snapshot) => [...snapshot.changes(resource, all)])) {
        for (const row of [change.before, change.after]) {
          if (row !== null && ever?.get(Number(change.id))?.has(text(row)) !== true) {
            this.problems.push(`${resource} ${String(change.id)} never was ${text(row)}`);
          }
        }
      }
      if (this.#then === undefined) continue;
      const kept = this.#keptOut(resource);
      const without = (rows: readonly Row[]) => rows.filter(([id]) => !kept.has(Number(id))).join('\n');
      const { at, rows } = this.#then;
      if (without(tableRows(this.#mirror, resource, at)) !== without(rows[resource])) {
        this.problems.push(`${resource} as of ${at} is another table than it was then`);
      }
    }
    const now = this.machine.clock.now();
    // If the clock was set back, versions with a later time show the current state.
    if (this.machine.latest() > now + 1) return;
    const at = timestampOf(now);
    this.#then = { at, rows: { users: tableRows(this.#mirror, 'users'), emails: tableRows(this.#mirror, 'emails') } };
  }

  async #export(process: Process, signal = new AbortController().signal): Promise<void> {
    await this.machine.turn(process, 'export');
    const store = openReadingStore(this.#mirror);
    process.closes(() => store.close());
    const form = { format: 'csv', raw: false, compression: null, bom: false } as const;
    const request = { folder: this.#exports, form, meta: false, check: () => {} };
    try {
      await this.machine.busy(
        exportSet(store, request, { signal, clock: this.machine.clock, onRows: () => {}, onWarning: () => {} }),
      );
    } finally {
      this.#checkExport();
    }
  }

  /** The export must be complete. */
  #checkExport(): void {
    const manifest = `${this.#exports}/manifest.json`;
    if (!existsSync(manifest)) {
      if (existsSync(this.#exports)) this.problems.push('the export has no manifest');
      return;
    }
    const { program, files } = JSON.parse(readFileSync(manifest, 'utf8')) as Awaited<ReturnType<typeof exportSet>>;
    if (program !== manifestProgram || files.length === 0) this.problems.push('the manifest is another');
    for (const { file, sha256 } of files) {
      const path = `${this.#exports}/${file}`;
      const found = existsSync(path) ? createHash('sha256').update(readFileSync(path)).digest('hex') : 'absent';
      if (found !== sha256) this.problems.push(`${file} of the export is not as its manifest says`);
    }
  }

  // ── The money ──

  async #openJournal(process: Process, actor: Actor): Promise<Journal> {
    const rules = { approval: { balance: policyOf() }, caps: null };
    const journal = await this.machine.busy(openJournal(this.#journal, actor, this.machine.clock, rules));
    process.closes(() => journal.close());
    return this.machine.inTurn(process, 'journal', journal, atOnce.journal);
  }

  async #plan(process: Process, random: () => number): Promise<void> {
    await this.machine.turn(process, 'plan');
    const journal = await this.#openJournal(process, { ...anna, name: pick(random, ['anna', 'ben']) });
    const rows = new Map<string, readonly (string | number)[]>();
    for (let count = 1 + Math.floor(random() * 3); count > 0; count -= 1) {
      const [user, amount] = [pick(random, this.#payees), pick(random, ['5', '7.50'])];
      rows.set(`${user} ${amount}`, [user, 'add', amount, 'Credit']);
    }
    const planned = await plan(journal, this.#client(process), sheetOf([...rows.values()]), {
      clock: this.machine.clock,
    });
    this.#batches.push({ batch: planned.batch, plan: planned.hash });
    for (const { token } of await intentsOf(journal, planned.batch)) {
      if (token !== null) this.#tokens.set(token, planned.hash);
    }
    await journal.submit(planned.batch, { note: null, again: null });
    if (random() < 0.8) this.#start('console', random, (console) => this.#approve(console, random, planned.batch));
  }

  /** Acts by a session, as a page of the console does. */
  async #approve(process: Process, random: () => number, batch = this.#anyBatch(random)): Promise<void> {
    await this.machine.turn(process, 'approve');
    const people = await this.machine.busy(openPeopleIn(this.#journal, operator, this.machine.clock));
    process.closes(() => people.close());
    const carla = await this.machine.busy(people.account('carla').then((found) => found ?? null));
    if (carla === null || batch === undefined) return;
    const from = { method: 'password', address: '127.0.0.1' } as const;
    const token = await this.machine.busy(people.sessions.begin(carla, from, { ...operator, account: 'carla' }));
    await this.machine.sleep(process)(pick(random, [secondMs, secondMs, 20 * minuteMs, 3 * hourMs]));
    const session = await this.machine.busy(people.sessions.find(token));
    // The session has expired: what is requested after that is not done.
    if (session === null) return;
    const journal = await this.#openJournal(process, { ...anna, name: 'web', account: session.account.name });
    const approval = await journal.approval(batch);
    if (random() < 0.1) return journal.deny(batch, 'no');
    const found = await journal.batch(batch);
    await journal.approve(batch, approval?.hash ?? '');
    if (found !== undefined) this.#approved.add(found.hash);
  }

  async #send(process: Process, random: () => number): Promise<void> {
    const { machine } = this;
    await machine.turn(process, 'send');
    const batch = this.#anyBatch(random);
    if (batch === undefined) return;
    const journal = await this.#openJournal(process, { ...anna, name: pick(random, ['anna', 'ben']) });
    const found = await journal.batch(batch);
    if (found === undefined) return;
    const memory = new MirrorsJournalMemory(this.#mirror);
    process.closes(() => memory.close());
    const client = this.#client(process);
    if (found.state === 'planned') {
      // A person sees the plan, and consents sooner or later.
      const { signal } = new AbortController();
      const whole = { journal, memory, client, clock: machine.clock, signal, rules: openRules };
      await checkSendable(whole, found, { file: null, again: { reason: null } });
      await machine.sleep(process)(pick(random, [secondMs, minuteMs, 2 * hourMs]));
    }
    const ports = { memory, clock: machine.clock, sleep: machine.sleep(process), settleAfterMs };
    const reconcile = random() < 0.15 ? ({ reconcile: true } as const) : {};
    const { error } = await send(journal, client, batch, { ...ports, ...reconcile });
    machine.note(`${process.name} ends with ${error?.exitCode ?? 0}`);
  }

  /** One of the newest batches, preferably one that is approved. */
  #anyBatch(random: () => number): string | undefined {
    const approved = this.#batches.filter(({ plan }) => this.#approved.has(plan));
    const latest = (approved.length > 0 && random() < 0.7 ? approved : this.#batches).slice(-3);
    return latest.length === 0 ? undefined : pick(random, latest).batch;
  }

  async #checkMoney(): Promise<void> {
    const journal = await openJournal(this.#journal, anna, this.machine.clock);
    try {
      const chain = await journal.verifyChain();
      if (chain.status !== 'whole') this.problems.push(`the chain is broken: ${chain.problems.join('; ')}`);
      const made = new Map<string, LedgerEntry[]>();
      const paid = new Map<string, number>();
      for (const entry of this.#sandbox.control.ledger()) {
        const token = /am:\w+/.exec(String(entry.body['description']))?.[0] ?? '';
        made.set(token, [...(made.get(token) ?? []), entry]);
        if (!this.#approved.has(this.#tokens.get(token) ?? ''))
          this.problems.push(`${token} was sent, and nobody approved it`);
        if (this.#undone.has(entry.id)) continue;
        const payment = `user ${entry.user_id}: ${String(entry.body['amount'])}`;
        paid.set(payment, (paid.get(payment) ?? 0) + 1);
      }
      for (const [payment, times] of paid) if (times > 1) this.problems.push(`paid ${times} times: ${payment}`);
      for (const { batch } of await journal.batches()) {
        for (const { row, token, state } of await intentsOf(journal, batch)) {
          const entries = made.get(token ?? '') ?? [];
          const live = entries.filter(({ id }) => !this.#undone.has(id));
          this.machine.note(`batch ${batch}, row ${row} is ${state}, made ${entries.length}`);
          if (state === 'applied' && entries.length === 0)
            this.problems.push(`row ${row} of ${batch} is applied and was never made`);
          if (state === 'not_applied' && live.length > 0)
            this.problems.push(`row ${row} of ${batch} is not applied and was made`);
        }
      }
    } finally {
      await journal.close();
    }
  }

  // ── The worker ──

  #startWorker(): void {
    const { machine } = this;
    const process = new Process('worker', Infinity);
    const stop = new AbortController();
    this.#worker = { process, stop };
    this.#startProcess(process, async () => {
      const store = openWorkerStore(`${this.#folder.path}/worker.db`, machine.clock);
      process.closes(() => store.close());
      const sleep = (ms: number, signal: AbortSignal) =>
        machine
          .sleep(process)(ms, signal)
          .catch(() => {});
      const jobs = [
        jobOf('sync'),
        jobOf('export', { run: 'export', call: { path: ['export'], operands: [], options: {} }, cron: '40 */8 * * *' }),
      ];
      const worker = new Worker(
        {
          store,
          clock: machine.clock,
          // It rests for longer than usual, so that simulated weeks are cheap.
          sleep: (ms, signal) => sleep(ms < minuteMs ? hourMs : ms, signal),
          signal: stop.signal,
          emit: (event) => {
            if (event.kind === 'run_ended')
              machine.note(`worker: ${event.run.job} is ${event.run.outcome ?? 'running'}`);
            else machine.note(`worker: ${event.kind}`);
          },
          runCommand: (_, { job }, signal) => this.#command(job, signal),
        },
        jobs,
      );
      await worker.run();
    });
  }

  /** A command as a child of the worker. */
  #command(job: string, signal: AbortSignal): Promise<{ exitCode: number; report: null; problem: string | null }> {
    return new Promise((resolve) => {
      this.#names += 1;
      const process = new Process(`worker-${job}-${this.#names}`, Infinity);
      const end = (error: OperatorError | null): void =>
        resolve({ exitCode: error?.exitCode ?? 0, report: null, problem: error?.message ?? null });
      this.#startProcess(process, async () => {
        try {
          if (job === 'export') await this.#export(process, signal);
          else {
            const result = await this.#sync(process, {}, signal);
            this.#judged(result);
            return end(result.error);
          }
          end(null);
        } catch (error) {
          end(error instanceof OperatorError ? error : null);
          throw error;
        }
      });
    });
  }

  // ── The server, and restored files ──

  #change(random: () => number): void {
    const { control } = this.#sandbox;
    for (let count = 1 + Math.floor(random() * 4); count > 0; count -= 1) {
      const resource = pick(random, changing);
      const ids = control.dump(resource).map(({ id }) => Number(id));
      const id = pick(random, ids.filter((each) => resource === 'emails' || !this.#payees.includes(each)).slice(1));
      const at = this.machine.time - (random() < 0.3 ? Math.floor(random() * 900) * dayMs : 0);
      const kind = pick(random, ['insert', 'update', 'update', 'remove'] as const);
      if (kind === 'insert')
        control.insert(resource, { created_at: `${new Date(at).toISOString().slice(0, 19)}.000000Z` });
      else if (kind === 'remove') control.remove(resource, id);
      else
        control.update(resource, id, {
          [resource === 'users' ? 'first_name' : 'sender']: `changed ${Math.floor(random() * 1e9)}`,
        });
    }
    this.#observe();
  }

  #inMood(mood: Partial<Behaviour>, ms: number): void {
    const ours = { ...mood };
    this.#moods.add(ours);
    this.#setBehaviour();
    this.machine.after(ms, () => {
      this.#moods.delete(ours);
      this.#setBehaviour();
    });
  }

  #setBehaviour(): void {
    this.#sandbox.control.setBehaviour(Object.assign({}, ...this.#moods) as Behaviour);
  }

  /** Reads the server, and notes what has changed since the last look. */
  #observe(): void {
    for (const resource of changing) {
      const fields = fieldsOf(resource);
      const dumped = this.#sandbox.control.dump(resource);
      const records = new Map(dumped.map((record) => [Number(record['id']), textOf(record, fields)]));
      const before = this.#server.get(resource) ?? new Map<number, string>();
      const ever = this.#ever.get(resource);
      for (const id of new Set([...before.keys(), ...records.keys()])) {
        const text = records.get(id);
        if (text === before.get(id)) continue;
        this.#touched.set(`${resource} ${id}`, this.machine.latest());
        if (text !== undefined) ever?.set(id, (ever.get(id) ?? new Set()).add(text));
      }
      this.#server.set(resource, records);
    }
  }

  #copyOfServer(): ServerCopy {
    const { control } = this.#sandbox;
    const records = { users: control.dump('users'), emails: control.dump('emails') };
    const transactions = new Map(this.#payees.map((id) => [id, control.related('users', id, 'balance_transactions')]));
    return { records, transactions, ledger: control.ledger().length };
  }

  /** The server loses what happened since its copy was saved. */
  #putServerBack(): void {
    const copy = this.#copy;
    if (copy === undefined) return;
    const { control } = this.#sandbox;
    for (const resource of changing) {
      const then = new Map(copy.records[resource].map((record) => [Number(record['id']), record]));
      for (const { id } of control.dump(resource)) if (!then.has(Number(id))) control.remove(resource, Number(id));
      for (const [id, record] of then) {
        if (control.get(resource, id) === undefined) control.insert(resource, { ...record });
        else control.update(resource, id, { ...record });
      }
    }
    for (const [id, all] of copy.transactions) control.setRelated('users', id, 'balance_transactions', all);
    for (const { id } of control.ledger().slice(copy.ledger)) this.#undone.add(id);
    this.#observe();
  }

  /** With nobody using the files, as a careful person would do it. */
  async #moveFile(kind: 'mirror copied' | 'mirror put back' | 'journal copied' | 'journal put back'): Promise<void> {
    await this.#ended();
    const file = kind.startsWith('mirror') ? this.#mirror : this.#journal;
    const copy = `${file}.copy`;
    if (kind.endsWith('copied')) copyFileSync(file, copy);
    else if (existsSync(copy)) {
      for (const end of ['-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
      copyFileSync(copy, file);
      if (file === this.#mirror) this.#then = undefined;
    }
    this.#startWorker();
  }
}

/** Methods that do not count as steps. */
const atOnce = {
  client: new Set(['redact', 'close', 'pages']),
  journal: new Set([
    'by',
    'audit',
    'atOneMoment',
    'intents',
    'resentRows',
    'changes',
    'views',
    'lockRemainingMs',
    'close',
  ]),
} as const;
