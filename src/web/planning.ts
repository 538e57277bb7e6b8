/**
 * Plans the sheets that people hand in, and the undoing of batches, each in a process of its own that can change nothing; the console
 * stores the rows in the name of the account. Section "The console" of docs/architecture.md.
 */
import { Buffer } from 'node:buffer';
import pLimit, { type LimitFunction } from 'p-limit';
import { actionOf } from '../bulk/actions.ts';
import type { Again } from '../bulk/approval.ts';
import { openPlanPorts } from '../bulk/open.ts';
import { type Plannable, preparePlan, storePlan, undoOf } from '../bulk/plan.ts';
import { readRows } from '../bulk/read-rows.ts';
import type { DecimalMark, MarkQuestion } from '../bulk/sheet/amount.ts';
import { readSheet } from '../bulk/sheet/sheet.ts';
import { type JobErrors, JobProcess } from '../data/job-process.ts';
import { openJournal, openJournalForReading } from '../journal/open.ts';
import type { Batch, NewBatch, NewIntent } from '../journal/port.ts';
import type { Actor } from '../model/actor.ts';
import { counted, grouped } from '../model/text.ts';
import { FileError, IncompleteError, UsageError } from '../model/errors.ts';
import { moduleBeside } from '../model/program.ts';
import { moneyText } from '../model/money.ts';
import { withReleases, Releases } from '../model/releases.ts';
import { durationText, minuteMs, systemClock } from '../model/time.ts';
import { type PassedSettings, passedSettings } from '../settings/passed.ts';
import type { Surroundings } from '../settings/settings.ts';

type PlanJob = SheetJob | { readonly kind: 'undo'; readonly batch: string };

export interface SheetJob {
  readonly kind: 'sheet';
  readonly file: string;
  /** The name of the file that the person chose. */
  readonly name: string;
  readonly action: string;
  /** The sheet of an .xlsx file; null for the first visible one. */
  readonly sheet: string | null;
  readonly mark: DecimalMark;
  readonly again: Again;
  readonly allowForce: boolean;
}

/** What the person must answer before the sheet can be planned. */
export type PlanQuestion = Pick<MarkQuestion, 'row' | 'text' | 'count'> & {
  readonly readings: readonly { readonly mark: Exclude<DecimalMark, null>; readonly amount: string }[];
};

/** The one message to the planning process. */
export interface PlanTask {
  readonly job: PlanJob;
  readonly settings: PassedSettings;
  /** How far the clock of the console is ahead of the machine's, ms. */
  readonly aheadMs: number;
}

/** The first part is a question or the batch; the rows of the batch follow. */
type PlanPart =
  | { readonly question: PlanQuestion }
  | { readonly batch: NewBatch }
  | { readonly rows: readonly NewIntent[] };

export const planLimits = {
  rows: 100_000,
  /** Of one plan. Shorter than a browser's connection may be silent (`connectionTimeout`), so that the person sees the error. */
  timeoutMs: 4 * minuteMs,
  /** Plans of different accounts at once. */
  processes: 4,
  /** Rows in one message between the processes. */
  partRows: 200,
} as const;

/** Plans the job, and stores nothing. Throws an OperatorError if it cannot be planned. */
export async function* planParts(surroundings: Surroundings, job: PlanJob): AsyncGenerator<PlanPart> {
  const releases = new Releases();
  try {
    const journal = await openJournalForReading(surroundings.settings, surroundings.clock, releases);
    // The console created it when it started.
    if (journal === undefined) throw new FileError('the journal is gone', { advice: 'Put the file back.' });
    const found = job.kind === 'undo' ? await undoOf(journal, job.batch) : await plannableOf(surroundings, job);
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

async function plannableOf(
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

/** Plans one sheet of an account after the other, so that nobody's slow sheets take all turns. */
export class Planning {
  readonly #surroundings: Surroundings;
  readonly #timeoutMs: number;
  readonly #byAccount = new Map<string, LimitFunction>();
  readonly #all = pLimit(planLimits.processes);

  constructor(surroundings: Surroundings, timeoutMs: number = planLimits.timeoutMs) {
    this.#surroundings = surroundings;
    this.#timeoutMs = timeoutMs;
  }

  /** Plans the job and stores the batch as the actor, or returns a question. Throws an OperatorError if it cannot be planned. */
  async plan(job: PlanJob, actor: Actor, signal: AbortSignal): Promise<Batch | { readonly question: PlanQuestion }> {
    const account = actor.account ?? '';
    const own = this.#byAccount.get(account) ?? pLimit(1);
    this.#byAccount.set(account, own);
    return own(() => this.#all(() => this.#store(this.#planInChild(job, signal), actor)));
  }

  /** Yields the parts that the planning process sends. */
  async *#planInChild(job: PlanJob, signal: AbortSignal): AsyncGenerator<PlanPart> {
    signal.throwIfAborted();
    const { settings, clock, log } = this.#surroundings;
    const child = new JobProcess<PlanTask>(moduleBeside('./planning-child', import.meta.url), planErrors);
    const task = {
      job,
      settings: passedSettings(settings),
      aheadMs: clock === systemClock ? 0 : clock.now() - Date.now(),
    };
    yield* partsIn(child.result(task, { signal, log, timeoutMs: this.#timeoutMs }));
  }

  async #store(parts: AsyncGenerator<PlanPart>, actor: Actor): Promise<Batch | { readonly question: PlanQuestion }> {
    try {
      const { value: first } = (await parts.next()) as IteratorResult<PlanPart, undefined>;
      if (first !== undefined && 'question' in first) return first;
      if (first === undefined || !('batch' in first)) throw new Error('a plan began with no batch');
      const { batch } = first;
      const { settings, clock } = this.#surroundings;
      return await withReleases(async (releases) =>
        // Uses a separate connection, because storing many rows would block the shared one.
        storePlan(await openJournal(settings, actor, clock, releases), batch, rowsIn(parts)),
      );
    } finally {
      await parts.return(undefined);
    }
  }
}

const nothingPlanned = 'Nothing was planned. Split the sheet into smaller files.';

const planErrors: JobErrors = {
  late: (ms) =>
    new UsageError(`checking the sheet took ${durationText(ms)}, which is the limit`, { advice: nothingPlanned }),
  lost: (how) =>
    new IncompleteError(`the process that checked the sheet ended before it was done (${how})`, {
      advice: `${nothingPlanned} If the operating system ended the process, the machine was short of memory.`,
    }),
};

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
