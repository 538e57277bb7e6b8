/** Excel: sheets as XML in a ZIP. Written here, because libraries for workbooks hold every row in memory. */
import { Buffer } from 'node:buffer';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { ZipFile } from 'yazl';
import type { ColumnType } from './column-type.ts';
import type { FileRun } from './export.ts';
import type { RowSource } from './source.ts';
import { microseconds, wholeSeconds } from '../model/time.ts';
import { columnLetters } from '../model/spreadsheet.ts';
import { counted } from '../model/text.ts';
import { plainText } from './csv.ts';
import type { Cell, ResultColumn, Row } from './reading-types.ts';

const declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';
const mainNamespace = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main';

const office = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
const packaging = 'http://schemas.openxmlformats.org/package/2006';
const typesPrefix = 'application/vnd.openxmlformats-officedocument.spreadsheetml';

function sheetPath(number: number): string {
  return `xl/worksheets/sheet${number}.xml`;
}

/** Makes a valid name of a sheet: at most 31 characters, none of these, and no apostrophe at either end. */
function sheetName(name: string, number: number): string {
  const end = number === 1 ? '' : ` (${number})`;
  const clean = name.toWellFormed().replaceAll(/[[\]:*?/\\\p{Cc}]/gu, '_');
  const whole = clean
    .slice(0, 31 - end.length)
    .toWellFormed()
    .replaceAll(/^'|'$/g, '_');
  return `${whole === '' ? 'rows' : whole}${end}`;
}

const plainFont = '<sz val="11"/><name val="Calibri"/><family val="2"/>';

/** Three styles of a cell: plain, a time, a heading. */
const stylesPart = [
  `<styleSheet xmlns="${mainNamespace}">`,
  '<numFmts count="1"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/></numFmts>',
  `<fonts count="2"><font>${plainFont}</font><font><b/>${plainFont}</font></fonts>`,
  '<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>',
  '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>',
  '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>',
  '<cellXfs count="3"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>',
  '<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>',
  '<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/></cellXfs>',
  '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>',
].join('');

const timeStyle = 1;
const headingStyle = 2;

/** Returns every part of the workbook except for the sheets, by path. */
function workbookParts(name: string, sheets: number): Readonly<Record<string, string>> {
  const numbers = Array.from({ length: sheets }, (_, index) => index + 1);
  const sheetList = numbers.map(
    (number) =>
      `<sheet name="${escaped(sheetName(name, number)).replaceAll('"', '&quot;')}" sheetId="${number}" r:id="rId${number}"/>`,
  );
  const related = numbers.map((number) => relationship(`rId${number}`, 'worksheet', `worksheets/sheet${number}.xml`));
  const typed = numbers.map((number) => override(`/${sheetPath(number)}`, 'worksheet'));
  return {
    'xl/workbook.xml': `<workbook xmlns="${mainNamespace}" xmlns:r="${office}"><bookViews><workbookView/></bookViews><sheets>${sheetList.join('')}</sheets></workbook>`,
    'xl/_rels/workbook.xml.rels': relationships([...related, relationship(`rId${sheets + 1}`, 'styles', 'styles.xml')]),
    '_rels/.rels': relationships([relationship('rId1', 'officeDocument', 'xl/workbook.xml')]),
    '[Content_Types].xml': `<Types xmlns="${packaging}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>${override('/xl/workbook.xml', 'sheet.main')}${typed.join('')}${override('/xl/styles.xml', 'styles')}</Types>`,
    'xl/styles.xml': stylesPart,
  };
}

function override(path: string, type: string): string {
  return `<Override PartName="${path}" ContentType="${typesPrefix}.${type}+xml"/>`;
}

function relationship(id: string, type: string, target: string): string {
  return `<Relationship Id="${id}" Type="${office}/${type}" Target="${target}"/>`;
}

function relationships(entries: readonly string[]): string {
  return `<Relationships xmlns="${packaging}/relationships">${entries.join('')}</Relationships>`;
}

/** The first day of ZIP's calendar: a fixed one, so that the same rows always give the same bytes. */
const mtime = new Date(1980, 0, 1);

/** The fastest compression already shrinks the XML of a million users, 850 MB, to a seventh. */
const options = { mtime, forceDosTimestamp: true, compressionLevel: 1 };

/** What Excel allows, without the heading. */
const mostSheetRows = 1_048_575;

/** @param sheetRows the most rows of a sheet; the others go to further sheets */
export async function* xlsxChunks(
  source: RowSource,
  run: FileRun,
  sheetRows = mostSheetRows,
): AsyncGenerator<Uint8Array> {
  const zip = new ZipFile();
  const output = zip.outputStream as Readable;
  const stop = new AbortController();
  const feeding = feed(zip, source, run, sheetRows, stop.signal);
  // Makes the loop below throw the error.
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
  const { columns, types } = source;
  let read = 0;
  let cut = 0;
  const xmlOf = rowWriter(source, () => void (cut += 1));
  let widths: readonly number[] | undefined;
  const make = (rows: readonly Row[]): Uint8Array => {
    widths ??= widthsOf(columns, types, rows);
    // Rows are numbered from 1, and the heading is the first.
    const xml = xmlOf(rows, (read % sheetRows) + 2);
    read += rows.length;
    run.onRows(rows.length);
    return Buffer.from(xml);
  };
  const pieces = source.pieces(make, () => sheetRows - (read % sheetRows));
  try {
    let next = await pieces.next();
    const begin = sheetBegin(columns, widths ?? widthsOf(columns, types, []));
    async function* sheet(): AsyncGenerator<Uint8Array> {
      yield Buffer.from(begin);
      while (next.done !== true) {
        run.signal.throwIfAborted();
        yield next.value;
        const isFull = read % sheetRows === 0;
        next = await pieces.next();
        if (isFull) break;
      }
      yield Buffer.from(sheetEnd);
    }
    let sheets = 0;
    do {
      sheets += 1;
      const xml = Readable.from(sheet());
      zip.addReadStream(xml, sheetPath(sheets), options);
      // Both sheets read from `pieces`, so the next must wait for the end of this one.
      await finished(xml, { signal });
    } while (next.done !== true);
    for (const [path, xml] of Object.entries(workbookParts(source.name, sheets))) {
      zip.addBuffer(Buffer.from(declaration + xml), path, options);
    }
    zip.end();
  } finally {
    await pieces.return(undefined);
  }
  if (cut === 0) return;
  const most = longestText.toLocaleString('en');
  run.onWarning(
    `${counted(cut, 'cell')} of ${source.name} held more than the ${most} characters that fit into a cell; the rest was cut off`,
  );
}

/** The XML before the rows, with the heading, which is frozen, and the widths of the columns. */
function sheetBegin(columns: readonly ResultColumn[], widths: readonly number[]): string {
  const cols = widths.map(
    (width, index) => `<col min="${index + 1}" max="${index + 1}" width="${width}" customWidth="1"/>`,
  );
  const heading = columns.map(({ name }, index) =>
    textCell(`${columnLetters(index)}1`, fitting(name), ` s="${headingStyle}"`),
  );
  return [
    `${declaration}<worksheet xmlns="${mainNamespace}">`,
    '<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>',
    `<cols>${cols.join('')}</cols><sheetData><row r="1">${heading.join('')}</row>`,
  ].join('');
}

const sheetEnd = '</sheetData></worksheet>';

/** Excel's limit for a cell, in UTF-16 units. */
const longestText = 32_767;

// Characters that XML cannot hold or would change (a carriage return), and text that looks like their escape.
// oxlint-disable-next-line no-control-regex -- control characters are what it searches for
const unwritable = /[\0-\x08\v\f\r\x0E-\x1F\uFFFE\uFFFF]|_(?=x[0-9A-Fa-f]{4}_)/;
const everyUnwritable = new RegExp(unwritable, 'g');
const special = new RegExp(`[&<>]|${unwritable.source}`);

/** The escape of the format: `_x000D_`. */
function hexEscape(character: string): string {
  return `_x${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}_`;
}

function escaped(text: string): string {
  if (!special.test(text)) return text;
  return text
    .replaceAll(everyUnwritable, hexEscape)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;');
}

/** Cuts the text if it is too long, never between the two halves of a surrogate pair. */
function fitting(text: string): string {
  if (text.length <= longestText) return text;
  const isHalf = text.codePointAt(longestText - 1) !== text.charCodeAt(longestText - 1);
  return text.slice(0, isHalf ? longestText - 1 : longestText);
}

// Readers collapse this white space unless xml:space says otherwise.
const collapsible = /^\s|\s$|\s\s|[\t\n]/;

/** Whole numbers with more than 15 digits become text: a spreadsheet replaces the other digits by zeros. */
const endOfDigits = 10n ** 15n;

const daySeconds = 86_400;
/** 1970-01-01 as a day of a spreadsheet. */
const epochDay = 25_569;
/** 1900-03-01. Spreadsheets disagree about earlier days, because some have a February 29th in 1900. */
const firstDay = 61;

/** Returns the time as a spreadsheet's day, with the time of day as the fraction; undefined if it is no time, or too early. */
function serialOf(text: string): number | undefined {
  const seconds = wholeSeconds(text);
  if (Number.isNaN(seconds)) return undefined;
  // The number has digits enough for milliseconds only, and rounding up could give the next day.
  const serial = (seconds + Math.floor(microseconds(text) / 1000) / 1000) / daySeconds + epochDay;
  return serial >= firstDay ? serial : undefined;
}

function textCell(at: string, text: string, style = ''): string {
  const space = collapsible.test(text) ? ' xml:space="preserve"' : '';
  return `<c r="${at}"${style} t="inlineStr"><is><t${space}>${escaped(text)}</t></is></c>`;
}

/** Returns the cell as XML; nothing for null. @param mayBeTime writes text that is a time as such @param onCut called for text that was cut */
function cellElement(at: string, cell: Cell, mayBeTime: boolean, onCut: () => void): string {
  if (cell === null) return '';
  if (typeof cell === 'bigint' && cell < endOfDigits && cell > -endOfDigits) return `<c r="${at}"><v>${cell}</v></c>`;
  if (typeof cell === 'number' && Number.isFinite(cell)) {
    return `<c r="${at}"><v>${Object.is(cell, -0) ? '-0' : cell}</v></c>`;
  }
  const whole = typeof cell === 'string' ? cell : plainText(cell);
  const serial = mayBeTime && typeof cell === 'string' ? serialOf(cell) : undefined;
  if (serial !== undefined) return `<c r="${at}" s="${timeStyle}"><v>${serial}</v></c>`;
  const text = fitting(whole);
  if (text !== whole) onCut();
  return textCell(at, text);
}

/** The widths of the columns come from the first rows. */
const measuredRows = 100;
const widest = 60;
const narrowest = 8;
/** `2026-03-11 10:00:00`, whatever the API writes. */
const timeWidth = 19;

function widthsOf(
  columns: readonly ResultColumn[],
  types: readonly (ColumnType | undefined)[],
  rows: readonly Row[],
): readonly number[] {
  return columns.map(({ name }, index) => {
    const lengths = rows.slice(0, measuredRows).map((row) => {
      const cell = row[index] ?? null;
      if (cell === null) return 0;
      if (types[index] === 'time') return timeWidth;
      return (typeof cell === 'string' ? cell : plainText(cell)).length;
    });
    return Math.min(widest, Math.max(narrowest, name.length, ...lengths) + 2);
  });
}

/** Returns a function that writes rows as XML; `first` is the number of the first one in its sheet. */
function rowWriter({ columns, types }: RowSource, onCut: () => void): (rows: readonly Row[], first: number) => string {
  const letters = columns.map((_, index) => columnLetters(index));
  // Text of a declared column is what its type says. A computed one, such as a value taken out of JSON, may be a time.
  const mayBeTime = columns.map(({ table }, index) => types[index] === 'time' || table === null);
  return (rows, first) => {
    let text = '';
    let number = first;
    for (const row of rows) {
      text += `<row r="${number}">`;
      for (const [index, cell] of row.entries()) {
        if (cell !== null) text += cellElement(`${letters[index]}${number}`, cell, mayBeTime[index] === true, onCut);
      }
      text += '</row>';
      number += 1;
    }
    return text;
  };
}
