/** How the columns of a layout were read the last time: a file beside the journal, by action and names of the columns. */
import { Readable } from 'node:stream';
import * as z from 'zod';
import type { ColumnsQuestion } from '../bulk/sheet/columns.ts';
import { explainFileError, readRegularFile } from '../model/files.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';

/** The newest are kept. */
const mostLayouts = 200;

const knownLayouts = z.record(z.string(), z.array(z.string()));

/** What is remembered; nothing if the file cannot be read, and why. */
interface Remembered {
  readonly known: z.infer<typeof knownLayouts>;
  readonly problem: string | null;
}

export class Layouts {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  /** The columns as they were read, if they are remembered; and why nothing can be remembered, for the person who is asked again. */
  find(action: string, question: ColumnsQuestion) {
    const { known, problem } = this.#read();
    return { columns: known[keyOf(action, question)], problem };
  }

  /** Remembers it. A file that cannot be read is replaced. */
  async keep(action: string, question: ColumnsQuestion, columns: readonly string[]): Promise<void> {
    const { [keyOf(action, question)]: _, ...others } = this.#read().known;
    const all = [...Object.entries(others), [keyOf(action, question), columns]].slice(-mostLayouts);
    const text = JSON.stringify(Object.fromEntries(all), undefined, 2);
    await writeDurableFile(this.#file, Readable.from([Buffer.from(`${text}\n`)]), AbortSignal.timeout(10_000));
  }

  #read(): Remembered {
    try {
      const text = readRegularFile(this.#file).bytes.toString('utf8');
      return { known: knownLayouts.parse(JSON.parse(text)), problem: null };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { known: {}, problem: null };
      const isDamaged = error instanceof SyntaxError || error instanceof z.ZodError;
      const problem = isDamaged ? `${this.#file} is damaged` : explainFileError(error, 'read', this.#file)?.message;
      if (problem === undefined) throw error;
      return { known: {}, problem };
    }
  }
}

function keyOf(action: string, { theirs }: ColumnsQuestion): string {
  return JSON.stringify([action, ...theirs.map(({ name }) => name)]);
}
