/** How the columns of a layout were read the last time: a file beside the journal, by action and names of the columns. */
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { ColumnsQuestion } from '../bulk/sheet/columns.ts';
import { explainFileError } from '../model/files.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';

/** The newest are kept. */
const mostLayouts = 200;

type Known = Readonly<Record<string, readonly string[]>>;

export class Layouts {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  async find(action: string, question: ColumnsQuestion): Promise<readonly string[] | undefined> {
    return (await this.#read())[keyOf(action, question)];
  }

  async keep(action: string, question: ColumnsQuestion, columns: readonly string[]): Promise<void> {
    const { [keyOf(action, question)]: _, ...others } = await this.#read();
    const all = [...Object.entries(others), [keyOf(action, question), columns]].slice(-mostLayouts);
    const text = JSON.stringify(Object.fromEntries(all), undefined, 2);
    await writeDurableFile(this.#file, Readable.from([Buffer.from(`${text}\n`)]), AbortSignal.timeout(10_000));
  }

  /** A file that cannot be read is as none: the person is asked again. */
  async #read(): Promise<Known> {
    try {
      return JSON.parse(await readFile(this.#file, 'utf8')) as Known;
    } catch (error) {
      if (error instanceof SyntaxError || explainFileError(error, 'read', this.#file) !== undefined) return {};
      throw error;
    }
  }
}

function keyOf(action: string, { theirs }: ColumnsQuestion): string {
  return JSON.stringify([action, ...theirs.map(({ name }) => name)]);
}
