/**
 * Sheets that somebody has sent: kept in a private folder beside the journal, read by the reader of the command line, planned,
 * and removed. One waits there where somebody has to say first how its amounts are meant.
 */
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
import { makeFolder } from '../model/folder.ts';
import { hourMs } from '../model/time.ts';
import type { Surroundings } from '../settings/settings.ts';
import type { Planning, PlanQuestion, SheetJob } from './planning.ts';

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
      throw error;
    }
    return { id, file };
  }

  /**
   * Takes the bytes and plans the sheet. Gives the batch; or the sheet, kept, where its amounts can be read in more than one way.
   * Throws a UsageError for what is no sheet, or too large.
   */
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
    const asked = { action: action.name, sheet: sheet.sheet, mark, again, allowForce };
    const job = { kind: 'sheet', file, name, ...asked } as const;
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
