/** How the columns of a layout were read the last time: a file beside the journal, by action and names of the columns. */
import { Readable } from 'node:stream';
import type { ColumnsQuestion } from '../bulk/sheet/columns.ts';
import { explainFileError, readRegularFile } from '../model/files.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';

/** The newest are kept. */
const mostLayouts = 200;

type Known = Readonly<Record<string, readonly string[]>>;

export class Layouts {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  find(action: string, question: ColumnsQuestion): readonly string[] | undefined {
    return this.#read()[keyOf(action, question)];
  }

  async keep(action: string, question: ColumnsQuestion, columns: readonly string[]): Promise<void> {
    const { [keyOf(action, question)]: _, ...others } = this.#read();
    const all = [...Object.entries(others), [keyOf(action, question), columns]].slice(-mostLayouts);
    const text = JSON.stringify(Object.fromEntries(all), undefined, 2);
    await writeDurableFile(this.#file, Readable.from([Buffer.from(`${text}\n`)]), AbortSignal.timeout(10_000));
  }

  /** A file that cannot be read is as none: the person is asked again. */
  #read(): Known {
    try {
      return JSON.parse(readRegularFile(this.#file).bytes.toString('utf8')) as Known;
    } catch (error) {
      if (error instanceof SyntaxError || explainFileError(error, 'read', this.#file) !== undefined) return {};
      throw error;
    }
  }
}

function keyOf(action: string, { theirs }: ColumnsQuestion): string {
  return JSON.stringify([action, ...theirs.map(({ name }) => name)]);
}
