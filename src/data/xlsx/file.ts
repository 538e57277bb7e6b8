/**
 * Excel: sheets of rows as XML, one after the other, in a ZIP. The XML is written here, over a library for the ZIP alone:
 * those that write whole workbooks hold every row of it.
 */
import { Buffer } from 'node:buffer';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import { counted } from '../../model/counted.ts';
import type { ResultColumn } from '../../store/reading-types.ts';
import { columnKinds } from '../column-kind.ts';
import type { FileRun } from '../file-run.ts';
import type { RowSource } from '../source.ts';
import { headingCell } from './cells.ts';
import { declaration, mainNamespace, sheetPath, workbookParts } from './parts.ts';
import { columnLetters, rowsOfSheet, widthsOf } from './rows.ts';
import { longestText } from './text.ts';

/** Of a ZIP's members: the same rows give the same bytes, whenever. The first day that a ZIP can name. */
const mtime = new Date(1980, 0, 1);

/** The quickest compression: the XML of a million users, 850 MB, comes to a seventh by it. */
const options = { mtime, forceDosTimestamp: true, compressionLevel: 1 };

/** @param sheetRows rows of a sheet, at most; what is more goes on to another sheet */
export async function* xlsxChunks(
  source: RowSource,
  run: FileRun,
  sheetRows = rowsOfSheet,
): AsyncGenerator<Uint8Array> {
  const zip = new ZipFile();
  const output = zip.outputStream as Readable;
  const stop = new AbortController();
  const feeding = feed(zip, source, run, sheetRows, stop.signal);
  // A failure ends what is read below, which throws it.
  feeding.catch((error: unknown) => output.destroy(error instanceof Error ? error : new Error(String(error))));
  try {
    for await (const chunk of output) yield chunk as Uint8Array;
  } finally {
    stop.abort();
    await feeding.catch(() => {});
  }
}

async function feed(
  zip: ZipFile,
  source: RowSource,
  run: FileRun,
  sheetRows: number,
  signal: AbortSignal,
): Promise<void> {
  const kinds = source.columns.map(columnKinds());
  const pieces = source.pieces({ kind: 'xlsx', kinds, sheetRows }, (first) => sheetRows - (first % sheetRows));
  const reading = pieces[Symbol.asyncIterator]();
  let cut = 0;
  try {
    let next = await reading.next();
    const begin = sheetBegin(
      source.columns,
      next.done === true ? widthsOf(source.columns, kinds, []) : next.value.widths,
    );
    async function* sheet(): AsyncGenerator<Uint8Array> {
      yield Buffer.from(begin);
      for (let rows = 0; next.done !== true && rows < sheetRows; next = await reading.next()) {
        const piece = next.value;
        run.onRows(piece.rows);
        run.signal.throwIfAborted();
        rows += piece.rows;
        cut += piece.cut ?? 0;
        yield piece.bytes;
      }
      yield Buffer.from(sheetEnd);
    }
    let sheets = 0;
    do {
      sheets += 1;
      const xml = Readable.from(sheet());
      zip.addReadStream(xml, sheetPath(sheets), options);
      // The next begins where this one ended.
      await finished(xml, { signal });
    } while (next.done !== true);
    for (const [path, text] of workbookParts(source.name, sheets)) addPart(zip, path, text);
    zip.end();
  } finally {
    await reading.return?.();
  }
  if (cut > 0) {
    const cells = counted(cut, 'cell');
    run.onWarning(
      `${cells} of ${source.name} held more than the ${longestText.toLocaleString('en')} characters that a sheet takes; what is over was cut off`,
    );
  }
}

function addPart(zip: ZipFile, path: string, text: string): void {
  zip.addBuffer(Buffer.from(text), path, options);
}

/** What stands before the rows: the heading stays in sight, and the columns are as wide as what is in them. */
function sheetBegin(columns: readonly ResultColumn[], widths: readonly number[] = []): string {
  const cols = widths.map(
    (width, index) => `<col min="${index + 1}" max="${index + 1}" width="${width}" customWidth="1"/>`,
  );
  const heading = columns.map(({ name }, index) => headingCell(`${columnLetters(index)}1`, name));
  return [
    `${declaration}<worksheet xmlns="${mainNamespace}">`,
    '<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>',
    `<cols>${cols.join('')}</cols><sheetData><row r="1">${heading.join('')}</row>`,
  ].join('');
}

const sheetEnd = '</sheetData></worksheet>';
