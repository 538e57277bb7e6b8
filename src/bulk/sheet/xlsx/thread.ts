/**
 * The thread that unpacks and scans an .xlsx, with bounds on its memory: whatever a file does to it, the process stays.
 * src/bulk/sheet/xlsx/read.ts is its other side.
 */
import { Buffer } from 'node:buffer';
import { parentPort, workerData } from 'node:worker_threads';
import { counted } from '../../../model/text.ts';
import { type Failure, failureOf } from '../../../model/errors.ts';
import { openArchive } from './archive.ts';
import { type PackedCell, packedCell } from '../rows.ts';
import { readSharedTexts, readStyles } from './cells.ts';
import { chooseSheet, readWorkbook, readWorksheet } from './worksheet.ts';

export interface ThreadTask {
  readonly file: string;
  readonly bytes: Uint8Array;
  readonly sheet: string | undefined;
}

export type FromThread =
  /** Rows as JSON: one long text crosses faster than hundreds of thousands of small objects. */
  | { readonly kind: 'rows'; readonly rows: string }
  | { readonly kind: 'end'; readonly sheet: string; readonly notes: readonly string[] }
  | { readonly kind: 'failed'; readonly failure: Failure };

/** A row with its cells in place, empty ones between. */
export type ThreadRow = readonly [row: number, cells: readonly PackedCell[]];

/** Cells and characters that are sent at once: few enough to be small, many enough that sending costs nothing a row. */
const sentCells = 10_000;
const sentCharacters = 1_000_000;

const port = parentPort;
if (port === null) throw new Error('the thread of an .xlsx runs as a thread only');
const say = (message: FromThread): void => port.postMessage(message);

async function read(task: ThreadTask): Promise<void> {
  const archive = await openArchive(task.file, Buffer.from(task.bytes.buffer));
  const workbook = await readWorkbook(archive);
  const { sheet, notes } = chooseSheet(task.file, workbook.sheets, task.sheet);
  const source = {
    sharedTexts: workbook.sharedTexts === undefined ? [] : await readSharedTexts(archive, workbook.sharedTexts),
    styles: workbook.styles === undefined ? [] : await readStyles(archive, workbook.styles),
    from1904: workbook.from1904,
    uncalculated: workbook.uncalculated,
  };
  let [rows, width, characters]: [ThreadRow[], number, number] = [[], 0, 0];
  const send = (): void => {
    say({ kind: 'rows', rows: JSON.stringify(rows) });
    [rows, width, characters] = [[], 0, 0];
  };
  const { hiddenRows, hiddenColumns } = await readWorksheet(archive, sheet, source, (row, cells) => {
    const placed: PackedCell[] = [];
    for (const { column, cell } of cells) {
      while (placed.length < column) placed.push('');
      placed.push(packedCell(cell));
      characters += cell.raw.length;
    }
    rows.push([row, placed]);
    width += placed.length;
    if (width >= sentCells || characters >= sentCharacters) send();
  });
  send();
  const reported = [...notes];
  // Who filters a sheet and hands it in may think that only what is shown counts.
  if (hiddenRows > 0)
    reported.push(`${counted(hiddenRows, 'row is', 'rows are')} hidden in the sheet, and read like the others`);
  if (hiddenColumns) reported.push('columns are hidden in the sheet, and read like the others');
  say({ kind: 'end', sheet: sheet.name, notes: reported });
}

try {
  await read(workerData as ThreadTask);
} catch (error) {
  say({ kind: 'failed', failure: failureOf(error) });
}
