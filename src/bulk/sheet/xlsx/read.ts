/** Reads an .xlsx: the parts of the workbook, one of its sheets, and the rows of that as a stream. */
import { Buffer } from 'node:buffer';
import { suggestion, UsageError } from '../../../model/errors.ts';
import { columnLetters } from '../../../model/spreadsheet.ts';
import { counted } from '../../../model/text.ts';
import { Budget, limits, refusal } from '../limits.ts';
import { emptyCell, headersOf, type SheetContent, SheetRows, shown } from '../rows.ts';
import type { SheetCell } from '../sheet.ts';
import { type Archive, openArchive } from './archive.ts';
import {
  CellFault,
  type CellSource,
  extended,
  type RawCell,
  readSharedTexts,
  readStyles,
  resolveCell,
  TextRuns,
  unescaped,
} from './cells.ts';

/** Throws a UsageError if no sheet of the file can be read. */
export async function readXlsx(
  file: string,
  bytes: Buffer,
  wanted: string | undefined,
  signal: AbortSignal,
): Promise<SheetContent> {
  refuseOldFormats(file, bytes);
  const archive = await openArchive(file, bytes, signal);
  const { sheets, sharedTexts, styles, uncalculated } = await readWorkbook(archive);
  const { sheet, notes } = chooseSheet(file, sheets, wanted);
  const source = {
    // Some programs name the part and leave it out where no cell refers to it.
    sharedTexts:
      sharedTexts === undefined || !archive.has(sharedTexts) ? [] : await readSharedTexts(archive, sharedTexts),
    styles: styles === undefined ? [] : await readStyles(archive, styles),
    uncalculated,
  };
  let rows: SheetRows | undefined;
  const { hidden, merged } = await readWorksheet(archive, sheet, source, (row, cells) => {
    if (rows !== undefined) rows.add(row, cells);
    else if (row === 1) {
      rows = new SheetRows(headersOf(cells), new Budget(file));
    } else {
      const reason = `its first row is empty; the first with cells is row ${row}`;
      throw refusal(file, reason, 'Move the headers to row 1.');
    }
  });
  if (rows === undefined)
    throw refusal(file, `its sheet ${shown(sheet.name)} is empty`, 'Name another with `--sheet`.');
  if (merged !== undefined) {
    throw refusal(
      file,
      `it has merged cells (${merged}), and nobody can see what lies under them or whom they are for`,
      'Unmerge them in the spreadsheet program, and fill each cell.',
    );
  }
  // A person who filters a sheet may think that only the visible rows count.
  if (hidden.rows > 0) {
    const which = `${counted(hidden.rows, 'row is', 'rows are')} hidden in the sheet`;
    notes.push(`${which}, and read like the others; the first is row ${hidden.firstRow}`);
  }
  return rows.finish({ delimiter: null, sheet: sheet.name, notes });
}

/** First bytes of old .xls files, and of newer files that are protected with a password. */
const oldContainer = 'd0cf11e0a1b11ae1';
const encryptedPackage = Buffer.from('EncryptedPackage', 'utf16le');

const isOld = (bytes: Buffer): boolean => bytes.subarray(0, 8).toString('hex') === oldContainer;
const isZip = (bytes: Buffer): boolean => bytes.subarray(0, 4).toString('latin1') === 'PK\u0003\u0004';

function refuseOldFormats(file: string, bytes: Buffer): void {
  if (isOld(bytes) && bytes.includes(encryptedPackage)) {
    throw refusal(file, 'it is protected by a password', 'Save it without a password, and try that file.');
  }
  if (isOld(bytes)) throw refusal(file, 'it is in the format of Excel before 2007 (.xls)', 'Save it as .xlsx.');
  if (!isZip(bytes)) throw refusal(file, 'its content is not that of an .xlsx');
}

interface WorkbookSheet {
  readonly name: string;
  readonly part: string;
  readonly hidden: boolean;
}

const truth = (text: string | undefined): boolean => text === '1' || text === 'true';

/** Throws a UsageError if the archive is not a workbook. */
async function readWorkbook(archive: Archive) {
  const roots = [...(await archive.relationsOf('')).values()];
  const root = roots.find(({ kind }) => kind === 'officeDocument');
  if (root === undefined) throw refusal(archive.file, 'it is a zip archive, but no workbook');
  const relations = await archive.relationsOf(root.target);
  const sheets: WorkbookSheet[] = [];
  let uncalculated = false;
  await archive.scan(root.target, {
    open: (tag, attributes) => {
      if (tag === 'calcPr') uncalculated ||= truth(attributes()['fullCalcOnLoad']);
      if (tag !== 'sheet') return;
      const { name, id, state } = attributes();
      const relation = id === undefined ? undefined : relations.get(id);
      if (name === undefined || relation === undefined) throw refusal(archive.file, 'its list of sheets is broken');
      if (relation.kind !== 'worksheet') return;
      sheets.push({ name: unescaped(name), part: relation.target, hidden: state !== undefined && state !== 'visible' });
    },
  });
  const partOf = (kind: string): string | undefined =>
    [...relations.values()].find((each) => each.kind === kind)?.target;
  return { sheets, styles: partOf('styles'), sharedTexts: partOf('sharedStrings'), uncalculated };
}

const names = (sheets: readonly WorkbookSheet[]): string => sheets.map(({ name }) => shown(name)).join(', ');

/** The sheet of the wanted name, or the first visible one, with notes on the choice. */
function chooseSheet(file: string, sheets: readonly WorkbookSheet[], wanted: string | undefined) {
  if (wanted !== undefined) {
    const sheet =
      sheets.find(({ name }) => name === wanted) ??
      // No two sheets of a workbook differ in case alone.
      sheets.find(({ name }) => name.toLowerCase() === wanted.toLowerCase());
    if (sheet === undefined) {
      const known = sheets.map(({ name }) => name);
      throw new UsageError(`${file} has no sheet ${shown(wanted)}`, { advice: suggestion(wanted, known) });
    }
    return { sheet, notes: sheet.hidden ? [`the sheet ${shown(sheet.name)} is hidden`] : [] };
  }
  const sheet = sheets.find(({ hidden }) => !hidden);
  if (sheet === undefined) {
    const advice = sheets.length === 0 ? undefined : `Name one with \`--sheet\`, if it is meant: ${names(sheets)}.`;
    throw refusal(file, 'it has no visible sheet', advice);
  }
  const notes: string[] = [];
  const before = sheets.slice(0, sheets.indexOf(sheet));
  const after = sheets.slice(sheets.indexOf(sheet) + 1);
  if (before.length > 0) notes.push(`hidden sheets before it were skipped: ${names(before)}`);
  if (after.length > 0) notes.push(`other sheets were not read: ${names(after)}; \`--sheet\` names the one to read`);
  return { sheet, notes };
}

const reference = /^([A-Z]{1,3})([1-9]\d{0,6})$/;

function columnOf(letters: string): number {
  let column = 0;
  for (let at = 0; at < letters.length; at += 1) column = column * 26 + (letters.charCodeAt(at) - 64);
  return column - 1;
}

/** Throws a UsageError if rows or cells are out of order: which of them counts would be a guess. */
async function readWorksheet(
  archive: Archive,
  sheet: WorkbookSheet,
  source: CellSource,
  give: (row: number, cells: readonly SheetCell[]) => void,
) {
  let row = 0;
  let column = -1;
  let cells: SheetCell[] = [];
  /** The cell that is open, and the part of it whose text follows. */
  let raw: RawCell | undefined;
  let taking: 'value' | 'formula' | undefined;
  let runs: TextRuns | undefined;
  const hidden = { rows: 0, firstRow: 0 };
  /** The first range of merged cells. */
  let merged: string | undefined;
  const budget = new Budget(archive.file);
  const damaged = (detail: string): never => {
    throw refusal(archive.file, `it is damaged: in the sheet ${shown(sheet.name)}, ${detail}`);
  };

  const openRow = (attributes: Readonly<Record<string, string>>): void => {
    const next = attributes['r'] === undefined ? row + 1 : Number(attributes['r']);
    if (!(Number.isInteger(next) && next > row && next <= limits.rows))
      damaged(`row ${attributes['r'] ?? next} follows row ${row}`);
    row = next;
    column = -1;
    cells = [];
    if (!truth(attributes['hidden'])) return;
    hidden.rows += 1;
    if (hidden.rows === 1) hidden.firstRow = row;
  };
  const openCell = ({ r: place, t: type, s: style }: Readonly<Record<string, string>>): void => {
    const [, letters, digits] = place === undefined ? [] : (reference.exec(place) ?? ['', '', '']);
    const next = letters === undefined ? column + 1 : columnOf(letters);
    const inOrder = next > column && (digits === undefined || Number(digits) === row);
    if (!(inOrder && next < limits.columns))
      damaged(`the cell ${place ?? columnLetters(next)} is out of place in row ${row}`);
    column = next;
    raw = { type, style, value: undefined, formula: undefined, inline: undefined };
  };
  const openInCell = (cell: RawCell, tag: string): void => {
    if (runs !== undefined) runs.open(tag);
    else if (tag === 'is') runs = new TextRuns();
    else if (tag === 'v' || tag === 'f') cell[(taking = tag === 'v' ? 'value' : 'formula')] = '';
  };
  const closeInCell = (cell: RawCell, tag: string): void => {
    if (tag === 'v' || tag === 'f') taking = undefined;
    else if (tag === 'is') {
      cell.inline = runs?.end();
      runs = undefined;
    } else if (tag === 'c') {
      closeCell(cell);
      raw = undefined;
    } else runs?.close(tag);
  };
  const closeCell = (whole: RawCell): void => {
    try {
      const cell = resolveCell(whole, source);
      budget.spendText(cell.raw, row);
      if (cell.kind === 'empty' && cell.raw === '') return;
      while (cells.length < column) cells.push(emptyCell);
      cells.push(cell);
    } catch (error) {
      if (error instanceof CellFault) damaged(`the cell ${columnLetters(column)}${row} ${error.message}`);
      throw error;
    }
  };

  await archive.scan(
    sheet.part,
    {
      open: (tag, attributes) => {
        if (raw !== undefined) openInCell(raw, tag);
        else if (tag === 'c') openCell(attributes());
        else if (tag === 'row') openRow(attributes());
        else if (tag === 'mergeCell') merged ??= attributes()['ref'] ?? '';
      },
      close: (tag) => {
        if (raw !== undefined) closeInCell(raw, tag);
        else if (tag === 'row' && cells.length > 0) {
          budget.spendRow(row, cells.length);
          give(row, cells);
        }
      },
      text: (text) => {
        if (raw !== undefined && taking !== undefined) raw[taking] = extended(raw[taking] ?? '', text);
        else runs?.add(text);
      },
    },
    'large',
  );
  return { hidden, merged };
}
