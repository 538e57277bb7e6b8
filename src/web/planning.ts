/**
 * Sheets that people hand in, kept in a private folder beside the journal until they are planned, and the plans made of them. What
 * takes long is planned in a process of its own, which can change nothing: the console stores its rows in the name of the account.
 * Section "The console" of docs/architecture.md.
 */
import { Buffer } from 'node:buffer';
import { stat, readdir, rm } from 'node:fs/promises';
import { extname, dirname, join } from 'node:path';
import pLimit from 'p-limit';
import { actionOf } from '../bulk/actions.ts';
import type { Again } from '../bulk/approval.ts';
import { openPlanPorts } from '../bulk/open.ts';
import { type Plannable, preparePlan, storePlan, undoOf } from '../bulk/plan.ts';
import { readRows } from '../bulk/read-rows.ts';
import type { DecimalMark, MarkQuestion } from '../bulk/sheet/amount.ts';
import { readSheet } from '../bulk/sheet/sheet.ts';
import { JobProcess } from '../data/reading-process.ts';
import { openJournal, openJournalForReading } from '../journal/open.ts';
import type { Batch, NewBatch, NewIntent } from '../journal/port.ts';
import type { Actor } from '../model/actor.ts';
import { counted, grouped } from '../model/text.ts';
import { FileError, IncompleteError, UsageError, OperatorError } from '../model/errors.ts';
import { moduleBeside } from '../model/program.ts';
import { moneyText } from '../model/money.ts';
import { withReleases, Releases } from '../model/releases.ts';
import { type PassedSettings, passedSettings } from '../settings/passed.ts';
import type { Surroundings } from '../settings/settings.ts';
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Action } from '../bulk/action.ts';
import { explainFileError, makeFolder } from '../model/files.ts';
import { hourMs, systemClock } from '../model/time.ts';

type PlanJob = SheetJob | { readonly kind: 'undo'; readonly batch: string; readonly rows: number };

interface SheetJob {
  readonly kind: 'sheet';
  readonly file: string;
  /** As it was called where it came from. */
  readonly name: string;
  readonly action: string;
  /** Of an .xlsx; null for the first that can be seen. */
  readonly sheet: string | null;
  readonly mark: DecimalMark;
  readonly again: Again;
  readonly allowForce: boolean;
}

/** What somebody must say before the sheet can be planned. */
type PlanQuestion = Pick<MarkQuestion, 'row' | 'text' | 'count'> & {
  readonly readings: readonly { readonly mark: Exclude<DecimalMark, null>; readonly amount: string }[];
};

/** What the process is sent, once. */
export interface PlanTask {
  readonly job: PlanJob;
  readonly settings: PassedSettings;
  /** By how much the clock of the console is ahead of that of the machine, ms. */
  readonly aheadMs: number;
}

/** The first part is a question, or the batch; then its rows follow. */
type PlanPart =
  | { readonly question: PlanQuestion }
  | { readonly batch: NewBatch }
  | { readonly rows: readonly NewIntent[] };

export const planLimits = {
  rows: 100_000,
  /** What is planned at once in the process of the console: starting another one would take longer. */
  hereBytes: 16 * 1024,
  hereRows: 500,
  /** Rows that go from one process to the other at once. */
  partRows: 200,
} as const;

/** Does the job, and stores nothing. Throws an OperatorError for what cannot be planned. */
export async function* planParts(surroundings: Surroundings, job: PlanJob): AsyncGenerator<PlanPart> {
  const releases = new Releases();
  try {
    const journal = await openJournalForReading(surroundings.settings, surroundings.clock, releases);
    // The console has made it.
    if (journal === undefined) throw new FileError('the journal is gone', { advice: 'Put it back as it was.' });
    const found = job.kind === 'undo' ? await undoOf(journal, job.batch) : await ofSheet(surroundings, job);
    if ('question' in found) {
      yield found;
      return;
    }
    const plan = await preparePlan(openPlanPorts(surroundings, journal, releases), found);
    yield { batch: plan.batch };
    let waiting: NewIntent[] = [];
    for (const row of plan.rows) {
      if (waiting.push(row) < planLimits.partRows) continue;
      yield { rows: waiting };
      waiting = [];
    }
    yield { rows: waiting };
  } finally {
    await releases.close();
  }
}

async function ofSheet(
  { settings, signal }: Surroundings,
  job: SheetJob,
): Promise<Plannable | { readonly question: PlanQuestion }> {
  const { file, name, mark, again, allowForce } = job;
  const read = await readSheet(file, { signal, ...(job.sheet !== null && { sheet: job.sheet }) });
  if (read.rows.length > planLimits.rows) {
    throw new UsageError(`${name} has ${counted(read.rows.length, 'row')}, more than ${grouped(planLimits.rows)}`, {
      advice: 'Split the sheet into smaller files.',
    });
  }
  const action = actionOf(job.action);
  const rows = readRows(read, action, { decimals: settings.bulk.decimals, mark, allowForce });
  if (mark === null && rows.question !== undefined) {
    const { row, text, count, readings } = rows.question;
    const shown = readings.map((each) => ({ mark: each.mark, amount: moneyText(each.amount) }));
    return { question: { row, text, count, readings: shown } };
  }
  return { action, rows, source: { file: { name, bytes: read.bytes, hash: read.hash }, undoOf: null, again } };
}

/** Plans what people hand in, one large sheet after the other: each takes its memory meanwhile. */
export class Planning {
  readonly #surroundings: Surroundings;
  readonly #one = pLimit(1);

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
  }

  /** Plans it, and stores the batch as the actor; or gives what has to be said first. Throws where it cannot be planned. */
  async plan(job: PlanJob, actor: Actor, signal: AbortSignal): Promise<Batch | { readonly question: PlanQuestion }> {
    if (await isSmall(job)) return this.#store(planParts({ ...this.#surroundings, signal }, job), actor);
    return this.#one(() => this.#store(this.#aside(job, signal), actor));
  }

  /** The parts as a process gives them. */
  async *#aside(job: PlanJob, signal: AbortSignal): AsyncGenerator<PlanPart> {
    signal.throwIfAborted();
    const { settings, clock, log } = this.#surroundings;
    const child = new JobProcess<PlanTask>(moduleBeside('./planning-child', import.meta.url), lostProcess);
    const task = {
      job,
      settings: passedSettings(settings),
      aheadMs: clock === systemClock ? 0 : clock.now() - Date.now(),
    };
    yield* partsIn(child.result(task, { signal, log }));
  }

  async #store(parts: AsyncGenerator<PlanPart>, actor: Actor): Promise<Batch | { readonly question: PlanQuestion }> {
    try {
      const { value: first } = (await parts.next()) as IteratorResult<PlanPart, undefined>;
      if (first !== undefined && 'question' in first) return first;
      if (first === undefined || !('batch' in first)) throw new Error('a plan began with no batch');
      const { batch } = first;
      const { settings, clock } = this.#surroundings;
      return await withReleases(async (releases) =>
        // Over a connection of its own: others wait for one that stores many rows.
        storePlan(await openJournal(settings, actor, clock, releases), { batch, rows: rowsIn(parts) }),
      );
    } finally {
      await parts.return(undefined);
    }
  }
}

async function isSmall(job: PlanJob): Promise<boolean> {
  if (job.kind === 'undo') return job.rows <= planLimits.hereRows;
  // How much a packed one holds shows only once it is read.
  return extname(job.file) !== '.xlsx' && (await stat(job.file)).size <= planLimits.hereBytes;
}

function lostProcess(how: string): IncompleteError {
  return new IncompleteError(`the process that checked the sheet ended before it was done (${how})`, {
    advice:
      'Nothing was planned. If it was the system that ended it, memory was short: split the sheet into smaller files.',
  });
}

async function* rowsIn(parts: AsyncIterable<PlanPart>): AsyncGenerator<NewIntent> {
  for await (const part of parts) if ('rows' in part) yield* part.rows;
}

const lineFeed = 0x0a;

async function* partsIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<PlanPart> {
  let begun: Uint8Array[] = [];
  for await (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, from)) {
      const line = Buffer.concat([...begun, chunk.subarray(from, end)]);
      yield JSON.parse(line.toString()) as PlanPart;
      begun = [];
      from = end + 1;
    }
    if (from < chunk.length) begun.push(chunk.subarray(from));
  }
}

/** What somebody has said of a sheet. */
export interface SheetWords extends Pick<SheetJob, 'sheet' | 'again' | 'allowForce'> {
  readonly action: Action;
}

export interface KeptSheet extends SheetWords {
  readonly id: string;
  /** As it was called where it came from. */
  readonly name: string;
  /** The account that sent it. */
  readonly account: string;
  readonly question: PlanQuestion;
}

const uploadLimits = {
  /** Sheets that wait for a word, of all people; the oldest makes room. */
  kept: 20,
  keptMs: hourMs,
} as const;

type Kept = KeptSheet & { readonly file: string; readonly at: number };

const shownName = 120;

export class Uploads {
  readonly #surroundings: Surroundings;
  readonly #folder: string;
  readonly #kept = new Map<string, Kept>();
  readonly #planning: Planning;

  constructor(surroundings: Surroundings, planning: Planning) {
    this.#surroundings = surroundings;
    this.#planning = planning;
    this.#folder = join(dirname(surroundings.settings.store.journal), 'uploads');
  }

  /** Removes what a console that was killed has left. */
  async open(): Promise<this> {
    makeFolder(this.#folder);
    for (const name of await readdir(this.#folder)) {
      const file = join(this.#folder, name);
      const found = await stat(file).catch(() => null);
      if (found !== null && found.mtimeMs < Date.now() - uploadLimits.keptMs) await rm(file, { force: true });
    }
    return this;
  }

  async close(): Promise<void> {
    for (const { id } of this.#kept.values()) await this.#forget(id);
  }

  /** Writes the bytes into a file, which whoever wanted it removes. */
  async keep(bytes: AsyncIterable<Uint8Array>, name: string): Promise<{ readonly id: string; readonly file: string }> {
    const ending = extname(name).toLowerCase();
    const id = randomBytes(12).toString('hex');
    const file = join(this.#folder, `${id}${/^\.[a-z]{1,8}$/.test(ending) ? ending : ''}`);
    const { signal } = this.#surroundings;
    try {
      await pipeline(Readable.from(bytes), createWriteStream(file, { flags: 'wx', mode: 0o600 }), { signal });
    } catch (error) {
      await rm(file, { force: true });
      throw explainFileError(error, 'keep the sheet in', this.#folder) ?? error;
    }
    return { id, file };
  }

  /** Plans the sheet: gives the batch, or the kept sheet where amounts can be read in two ways. Throws a UsageError. */
  async take(
    bytes: AsyncIterable<Uint8Array>,
    name: string,
    words: SheetWords,
    actor: Actor,
    signal: AbortSignal,
  ): Promise<Batch | KeptSheet> {
    const { id, file } = await this.keep(bytes, name);
    let keeps = false;
    try {
      const planned = await this.#plan({ ...words, id, file, name: name.slice(0, shownName) }, null, actor, signal);
      keeps = 'question' in planned;
      return planned;
    } finally {
      if (!keeps) await rm(file, { force: true });
    }
  }

  /** The sheet of that account which waits; undefined where there is none any more. */
  kept(id: string, account: string): KeptSheet | undefined {
    const found = this.#kept.get(id);
    return found?.account === account ? found : undefined;
  }

  /** Plans the sheet that waits, with that mark; with none it is forgotten. */
  async decide({ id }: KeptSheet, mark: DecimalMark, actor: Actor, signal: AbortSignal): Promise<Batch | null> {
    const found = this.#kept.get(id);
    if (found === undefined) return null;
    try {
      const planned = mark === null ? null : await this.#plan(found, mark, actor, signal);
      return planned === null || 'question' in planned ? null : planned;
    } finally {
      await this.#forget(id);
    }
  }

  async #forget(id: string): Promise<void> {
    const found = this.#kept.get(id);
    this.#kept.delete(id);
    if (found !== undefined) await rm(found.file, { force: true });
  }

  async #plan(
    sheet: SheetWords & Pick<Kept, 'id' | 'file' | 'name'>,
    mark: DecimalMark,
    actor: Actor,
    signal: AbortSignal,
  ): Promise<Batch | KeptSheet> {
    const { action, file, name, again, allowForce } = sheet;
    const choices = { action: action.name, sheet: sheet.sheet, mark, again, allowForce };
    const job = { kind: 'sheet', file, name, ...choices } as const;
    const planned = await this.#planning.plan(job, actor, signal).catch((error: unknown) => {
      // Whoever sent it knows it by its own name.
      if (!(error instanceof OperatorError) || !error.message.includes(file)) throw error;
      throw new UsageError(error.message.replaceAll(file, name), { advice: error.advice, cause: error });
    });
    if (!('question' in planned)) return planned;
    const { question } = planned;
    const kept = { ...sheet, question, account: actor.account ?? '', at: this.#surroundings.clock.now() };
    await this.#makeRoom();
    this.#kept.set(sheet.id, kept);
    return kept;
  }

  async #makeRoom(): Promise<void> {
    const oldest = [...this.#kept.values()];
    const late = this.#surroundings.clock.now() - uploadLimits.keptMs;
    const tooMany = Math.max(0, oldest.length + 1 - uploadLimits.kept);
    const gone = oldest.filter(({ at }, place) => at < late || place < tooMany);
    for (const { id } of gone) await this.#forget(id);
  }
}
