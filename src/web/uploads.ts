/** Sheets that people hand in: kept in a private folder beside the journal until they are planned, or until somebody answers a question. */
import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Action } from '../bulk/action.ts';
import type { DecimalMark } from '../bulk/sheet/amount.ts';
import type { Batch } from '../journal/port.ts';
import type { Actor } from '../model/actor.ts';
import { OperatorError, UsageError } from '../model/errors.ts';
import { explainFileError, makeFolder } from '../model/files.ts';
import { hourMs } from '../model/time.ts';
import type { Surroundings } from '../settings/settings.ts';
import type { Planning, PlanQuestion, SheetJob } from './planning.ts';

/** What the person chose in the form of the sheet. */
export interface SheetChoices extends Pick<SheetJob, 'sheet' | 'again' | 'allowForce'> {
  readonly action: Action;
}

/** A sheet that waits for the answer to a question. */
export interface KeptSheet extends SheetChoices {
  readonly id: string;
  /** The name of the file that the person chose. */
  readonly name: string;
  /** The account that sent it. */
  readonly account: string;
  readonly question: PlanQuestion;
}

const uploadLimits = {
  /** Kept sheets of all people. The oldest makes room for the next. */
  kept: 20,
  keptMs: hourMs,
  nameLength: 120,
} as const;

type Kept = KeptSheet & { readonly file: string; readonly at: number };

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

  /** Creates the folder, and removes the files that a killed console left behind. */
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

  /** Writes the bytes into a file, which the caller must remove. */
  async #keep(bytes: AsyncIterable<Uint8Array>, name: string): Promise<{ readonly id: string; readonly file: string }> {
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

  /** Plans the sheet. Returns the batch, or the kept sheet if amounts can be read in two ways. Throws a UsageError. */
  async take(
    bytes: AsyncIterable<Uint8Array>,
    name: string,
    choices: SheetChoices,
    actor: Actor,
    signal: AbortSignal,
  ): Promise<Batch | KeptSheet> {
    const { id, file } = await this.#keep(bytes, name);
    const sheet = { ...choices, id, file, name: name.slice(0, uploadLimits.nameLength) };
    let isKept = false;
    try {
      const planned = await this.#plan(sheet, null, actor, signal);
      isKept = 'question' in planned;
      return planned;
    } finally {
      if (!isKept) await rm(file, { force: true });
    }
  }

  /** Returns the kept sheet; undefined if it is gone or another account sent it. */
  kept(id: string, account: string): KeptSheet | undefined {
    const found = this.#kept.get(id);
    return found?.account === account ? found : undefined;
  }

  /** Plans a kept sheet with that decimal mark; forgets it without a mark. Returns null if nothing was planned. */
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
    sheet: SheetChoices & Pick<Kept, 'id' | 'file' | 'name'>,
    mark: DecimalMark,
    actor: Actor,
    signal: AbortSignal,
  ): Promise<Batch | KeptSheet> {
    const { action, file, name, again, allowForce } = sheet;
    const choices = { action: action.name, sheet: sheet.sheet, mark, again, allowForce };
    const job = { kind: 'sheet', file, name, ...choices } as const;
    const planned = await this.#planning.plan(job, actor, signal).catch((error: unknown) => {
      // The person knows the sheet by its own name, not by that of our file.
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
    const oldestFirst = [...this.#kept.values()];
    const keptSince = this.#surroundings.clock.now() - uploadLimits.keptMs;
    const tooMany = Math.max(0, oldestFirst.length + 1 - uploadLimits.kept);
    const dropped = oldestFirst.filter(({ at }, index) => at < keptSince || index < tooMany);
    for (const { id } of dropped) await this.#forget(id);
  }
}
