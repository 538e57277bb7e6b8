/** Sheets that people hand in: kept in a private folder beside the journal until they are planned, or until somebody answers a question. */
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { DecimalMark } from '../bulk/sheet/amount.ts';
import type { Actor } from '../model/actor.ts';
import { OperatorError, UsageError } from '../model/errors.ts';
import { explainFileError, makeFolder } from '../model/files.ts';
import { hourMs } from '../model/time.ts';
import type { Surroundings } from '../settings/settings.ts';
import { Layouts } from './layouts.ts';
import type { Planning, SheetQuestion } from './planning.ts';

/** What the person chose in the form of the sheet. */
export interface SheetChoices {
  readonly action: string;
  /** What to call the batch; null for the name of the file. */
  readonly title: string | null;
  /** The sheet of an .xlsx file; null for the first visible one. */
  readonly sheet: string | null;
  /** Why it is sent a second time; null if it is not. */
  readonly again: string | null;
  readonly allowForce: boolean;
}

/** What the person has answered: which of the sheet's columns is which, and how amounts are written. */
interface Answers {
  readonly columns: readonly string[];
  readonly mark: DecimalMark;
}

/** A sheet that waits for the answer to a question. */
export interface KeptSheet extends SheetChoices {
  readonly id: string;
  /** The name of the file that the person chose. */
  readonly name: string;
  /** The account that sent it. */
  readonly account: string;
  readonly question: SheetQuestion;
  /** Why the answers to earlier questions are not known any more; null if they are. */
  readonly forgotten: string | null;
}

const uploadLimits = {
  /** Kept sheets of all people. The oldest makes room for the next. */
  kept: 20,
  keptMs: hourMs,
  nameLength: 120,
} as const;

type Kept = KeptSheet & { readonly at: number; readonly answers: Answers };

const noAnswers: Answers = { columns: [], mark: null };

export class Uploads {
  readonly #surroundings: Surroundings;
  readonly #folder: string;
  readonly #kept = new Map<string, Kept>();
  readonly #planning: Planning;
  readonly #layouts: Layouts;

  constructor(surroundings: Surroundings, planning: Planning) {
    this.#surroundings = surroundings;
    this.#planning = planning;
    const beside = dirname(surroundings.settings.store.journal);
    this.#folder = join(beside, 'uploads');
    this.#layouts = new Layouts(join(beside, 'sheet-layouts.json'));
  }

  /** Creates the folder, and removes the files that a killed console left behind. */
  async open(): Promise<this> {
    makeFolder(this.#folder);
    for (const name of await readdir(this.#folder)) {
      const found = await stat(join(this.#folder, name)).catch(() => null);
      if (found !== null && found.mtimeMs < Date.now() - uploadLimits.keptMs) await this.#remove(name);
    }
    return this;
  }

  async close(): Promise<void> {
    for (const { id } of this.#kept.values()) await this.#forget(id);
  }

  /** Writes the bytes into a file of that name in a folder of its own, which the caller must remove. */
  async #keep(bytes: AsyncIterable<Uint8Array>, id: string, name: string): Promise<void> {
    const folder = join(this.#folder, id);
    const { signal } = this.#surroundings;
    try {
      makeFolder(folder);
      const file = createWriteStream(join(folder, name), { flags: 'wx', mode: 0o600 });
      await pipeline(Readable.from(bytes), file, { signal });
    } catch (error) {
      // Removing may fail for the same reason; the first error says why.
      await this.#remove(id).catch(() => {});
      throw explainFileError(error, 'keep the sheet in', this.#folder) ?? error;
    }
  }

  async #remove(id: string): Promise<void> {
    await rm(join(this.#folder, id), { recursive: true, force: true });
  }

  /** Plans the sheet. Returns the batch's name, or the kept sheet if amounts can be read in two ways. Throws a UsageError. */
  async take(
    bytes: AsyncIterable<Uint8Array>,
    chosenName: string,
    choices: SheetChoices,
    actor: Actor,
    signal: AbortSignal,
  ): Promise<string | KeptSheet> {
    const id = randomBytes(12).toString('hex');
    const name = fileName(chosenName);
    await this.#keep(bytes, id, name);
    let isKept = false;
    try {
      const planned = await this.#plan({ ...choices, id, name }, noAnswers, actor, signal);
      isKept = typeof planned !== 'string';
      return planned;
    } finally {
      if (!isKept) await this.#remove(id);
    }
  }

  /** Returns the kept sheet; undefined if it is gone or another account sent it. */
  kept(id: string, account: string): KeptSheet | undefined {
    const found = this.#kept.get(id);
    return found?.account === account ? found : undefined;
  }

  /** Plans a kept sheet with that answer; forgets it without one. Returns another question if there is one, or null if nothing was planned. */
  async decide(
    { id, question }: KeptSheet,
    answer: Partial<Answers> | null,
    actor: Actor,
    signal: AbortSignal,
  ): Promise<string | KeptSheet | null> {
    const found = this.#kept.get(id);
    if (found === undefined) return null;
    let next: string | KeptSheet | null = null;
    try {
      if (answer === null) return null;
      const answers = { ...found.answers, ...answer };
      next = await this.#plan(found, answers, actor, signal);
      if ('columns' in question) await this.#layouts.keep(found.action, question.columns, answers.columns);
      return next;
    } finally {
      if (next === null || typeof next === 'string') await this.#forget(id);
    }
  }

  async #forget(id: string): Promise<void> {
    if (this.#kept.delete(id)) await this.#remove(id);
  }

  async #plan(
    sheet: SheetChoices & Pick<Kept, 'id' | 'name'>,
    answers: Answers,
    actor: Actor,
    signal: AbortSignal,
  ): Promise<string | KeptSheet> {
    const { id, name, action, again, allowForce } = sheet;
    const { columns, mark } = answers;
    const folder = join(this.#folder, id);
    const options = {
      ...(sheet.title !== null && { name: sheet.title }),
      ...(sheet.sheet !== null && { sheet: sheet.sheet }),
      ...(columns.length > 0 && { column: columns }),
      ...(mark !== null && { decimal: mark }),
      ...(again !== null && { again: true as const, reason: again }),
      ...(allowForce && { 'allow-force': true as const }),
    };
    const call = { path: ['bulk', 'plan'], operands: [action, name], options };
    const planned = await this.#planning.plan(call, actor, signal, folder).catch((error: unknown) => {
      // The person knows the sheet by its own name, not by the path of our file.
      const path = join(folder, name);
      if (!(error instanceof OperatorError) || !error.message.includes(path)) throw error;
      throw new UsageError(error.message.replaceAll(path, name), { advice: error.advice, cause: error });
    });
    if ('batch' in planned) return planned.batch;
    const remembered = 'columns' in planned ? this.#layouts.find(action, planned.columns) : null;
    if (remembered?.columns !== undefined && columns.length === 0) {
      return this.#plan(sheet, { ...answers, columns: remembered.columns }, actor, signal);
    }
    await this.#makeRoom();
    const at = this.#surroundings.clock.now();
    const kept = {
      ...sheet,
      question: planned,
      forgotten: remembered?.problem ?? null,
      answers,
      account: actor.account ?? '',
      at,
    };
    this.#kept.set(id, kept);
    return kept;
  }

  async #makeRoom(): Promise<void> {
    const oldestFirst = [...this.#kept.values()];
    const keptSince = this.#surroundings.clock.now() - uploadLimits.keptMs;
    const tooMany = Math.max(0, oldestFirst.length + 1 - uploadLimits.kept);
    const dropped = oldestFirst.filter(({ at }, index) => at < keptSince || index < tooMany);
    for (const { id } of dropped) await this.#forget(id);
  }
}

/** A name that is no path. Its end, which says what kind of sheet it is, is kept. */
function fileName(chosen: string): string {
  const name = chosen
    .replaceAll(/[/\\\0]/g, '_')
    .slice(-uploadLimits.nameLength)
    .toWellFormed();
  return name === '.' || name === '..' ? '_' : name;
}
