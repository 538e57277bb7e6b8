/** Rows into a table of PostgreSQL by COPY, none of them lost for what one of them holds. */
import { type Database, isRefusedValue } from './database.ts';
import { columnList, type PublishedTable } from './layout.ts';
import type { LineReader } from './rows.ts';

/** What is copied where. */
export interface Copying {
  readonly database: Database;
  readonly table: PublishedTable;
  /** As it stands in a statement. */
  readonly name: string;
  readonly signal: AbortSignal;
  /** Called with rows that were written. */
  readonly wrote: (rows: number) => void;
}

/** Below every number that SQLite has. */
export const firstPlace = -(2n ** 63n);

/** Copies up to so many rows behind the place, in the transaction at hand; gives the place behind them, if any. */
export async function copyRows(
  copying: Copying,
  reader: LineReader,
  after = firstPlace,
  most = Number.POSITIVE_INFINITY,
): Promise<bigint | undefined> {
  try {
    return await copying.database.part(() => copyLines(copying, reader, after, most));
  } catch (error) {
    if (!isRefusedValue(error)) throw error;
    return copyCarefully(copying, reader, after, most);
  }
}

const copySql = ({ table, name }: Copying) => `COPY ${name} (${columnList(table)}) FROM STDIN`;

async function copyLines(
  copying: Copying,
  reader: LineReader,
  after: bigint,
  most: number,
): Promise<bigint | undefined> {
  let rows = 0;
  let at: bigint | undefined = after;
  await copying.database.copyIn(copySql(copying), async (write) => {
    while (rows < most) {
      copying.signal.throwIfAborted();
      const lines = reader.next(at ?? after);
      at = lines?.last;
      if (lines === undefined || at === undefined) break;
      await write(lines.bytes);
      rows += lines.rows;
    }
  });
  copying.wrote(rows);
  return at;
}

/** Where PostgreSQL refused a row: some hundreds at a time, those among them one by one, and the row itself as text. */
async function copyCarefully(
  copying: Copying,
  reader: LineReader,
  after: bigint,
  most: number,
): Promise<bigint | undefined> {
  const { database, signal, wrote } = copying;
  const put = (text: Uint8Array) => database.part(() => database.copyIn(copySql(copying), (write) => write(text)));
  const fits = async (text: Uint8Array) => {
    try {
      await put(text);
      return true;
    } catch (error) {
      if (!isRefusedValue(error)) throw error;
      return false;
    }
  };
  let at = after;
  for (let rows = 0; rows < most;) {
    signal.throwIfAborted();
    const lines = reader.next(at);
    if (lines === undefined) return undefined;
    if (!(await fits(lines.bytes))) {
      const bare = reader.single(at, lines.last, 'bare');
      for (const [index, line] of reader.single(at, lines.last, 'careful').entries()) {
        if (!(await fits(Buffer.from(line)))) await put(Buffer.from(bare[index] ?? ''));
      }
    }
    wrote(lines.rows);
    rows += lines.rows;
    at = lines.last;
  }
  return at;
}
