/** Reads the parts of a workbook, chooses a sheet, and reads its rows as a stream. */
import { columnLetters, emptyCell, shown } from '../rows.ts';
import { Budget, limits, refusal } from '../limits.ts';
import type { SheetCell } from '../sheet.ts';
import type { Archive } from './archive.ts';
import { CellFault, type CellSource, extended, type RawCell, resolveCell, TextRuns, unescaped } from './cells.ts';
import { suggestion, UsageError } from '../../../model/errors.ts';

interface WorkbookSheet {
  readonly name: string;
  readonly part: string;
  readonly hidden: boolean;
}

const truth = (text: string | undefined): boolean => text === '1' || text === 'true';

/** Throws a UsageError if the archive is not a workbook. */
export async function readWorkbook(archive: Archive) {
  const roots = [...(await archive.relationsOf('')).values()];
  const root = roots.find(({ kind }) => kind === 'officeDocument');
  if (root === undefined) throw refusal(archive.file, 'it is a zip archive, but no workbook');
  const relations = await archive.relationsOf(root.target);
  const sheets: WorkbookSheet[] = [];
  let from1904 = false;
  let uncalculated = false;
  await archive.scan(root.target, {
    open: (tag, attributes) => {
      if (tag === 'workbookPr') from1904 ||= truth(attributes()['date1904']);
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
  return { sheets, styles: partOf('styles'), sharedTexts: partOf('sharedStrings'), from1904, uncalculated };
}

const names = (sheets: readonly WorkbookSheet[]): string => sheets.map(({ name }) => shown(name)).join(', ');

/** The sheet of the wanted name, or the first visible one, with notes on the choice. */
export function chooseSheet(file: string, sheets: readonly WorkbookSheet[], wanted: string | undefined) {
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
    const advice = sheets.length === 0 ? undefined : `Name one with --sheet, if it is meant: ${names(sheets)}.`;
    throw refusal(file, 'it has no visible sheet', advice);
  }
  const notes: string[] = [];
  const before = sheets.slice(0, sheets.indexOf(sheet));
  const after = sheets.slice(sheets.indexOf(sheet) + 1);
  if (before.length > 0) notes.push(`hidden sheets before it were skipped: ${names(before)}`);
  if (after.length > 0) notes.push(`other sheets were not read: ${names(after)}; --sheet names the one to read`);
  return { sheet, notes };
}

const reference = /^([A-Z]{1,3})([1-9]\d{0,6})$/;

function columnOf(letters: string): number {
  let column = 0;
  for (let at = 0; at < letters.length; at += 1) column = column * 26 + (letters.charCodeAt(at) - 64);
  return column - 1;
}

/** Each of these elements must be inside the one before it, and nowhere else in the data. */
const levels = ['sheetData', 'row', 'c'];
/** How many of them are open at each place. */
const [outside, inRow, inCell] = [0, 2, 3];

/** Throws a UsageError if rows or cells are out of order: which of them counts would be a guess. */
export async function readWorksheet(
  archive: Archive,
  sheet: WorkbookSheet,
  source: CellSource,
  give: (row: number, cells: readonly SheetCell[]) => void,
) {
  let level = outside;
  let row = 0;
  let column = -1;
  let cells: SheetCell[] = [];
  let raw: RawCell = { type: undefined, style: undefined, value: undefined, formula: undefined, inline: undefined };
  let taking: 'value' | 'formula' | undefined;
  let inline = false;
  let hiddenRows = 0;
  let hiddenColumns = false;
  const runs = new TextRuns();
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
    if (isHidden(attributes, 'ht')) hiddenRows += 1;
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
  const checkFirst = (before: unknown, tag: string): void => {
    if (before !== undefined) damaged(`the cell ${columnLetters(column)}${row} has more than one <${tag}>`);
  };
  const take = (part: 'value' | 'formula', tag: string): void => {
    checkFirst(raw[part], tag);
    taking = part;
    raw[part] = '';
  };
  const closeCell = (): void => {
    try {
      const cell = resolveCell(raw, source);
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
        const opened = levels.indexOf(tag);
        if (opened === level) level += 1;
        else if (opened !== -1 && level !== outside) damaged(`a <${tag}> is out of place behind row ${row}`);
        if (tag === 'col') hiddenColumns ||= isHidden(attributes(), 'width');
        else if (tag === 'row' && level === inRow) openRow(attributes());
        else if (tag === 'c' && level === inCell) openCell(attributes());
        else if (level !== inCell) return;
        else if (tag === 'v') take('value', tag);
        else if (tag === 'f') take('formula', tag);
        else if (tag === 'is') {
          checkFirst(raw.inline, tag);
          inline = true;
          runs.begin();
        } else if (inline) runs.open(tag);
      },
      close: (tag) => {
        if (level === outside) return;
        if (levels.includes(tag)) level -= 1;
        if (tag === 'row' && cells.length > 0) {
          budget.spendRow(row, cells.length);
          give(row, cells);
        } else if (tag === 'c') closeCell();
        else if (tag === 'v' || tag === 'f') taking = undefined;
        else if (tag === 'is') {
          inline = false;
          raw.inline = runs.end();
        } else if (inline) runs.close(tag);
      },
      text: (text) => {
        if (taking !== undefined) raw[taking] = extended(raw[taking] ?? '', text);
        else if (inline) runs.add(text);
      },
    },
    'large',
  );
  return { hiddenRows, hiddenColumns };
}

/** Whether the row or column cannot be seen: marked as hidden, or dragged to a size of zero, which does not mark it. */
function isHidden(attributes: Readonly<Record<string, string>>, size: 'ht' | 'width'): boolean {
  const { hidden = '', [size]: shown = '1' } = attributes;
  return ['1', 'true'].includes(hidden) || Number(shown) === 0;
}
