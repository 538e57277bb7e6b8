/** What a workbook is made of, and which of its sheets to read. */
import { UsageError } from '../../../model/errors.ts';
import { suggestion } from '../../../model/nearest.ts';
import { shown } from '../cell.ts';
import { refusal } from '../limits.ts';
import type { Archive } from './archive.ts';
import { unescaped } from './shared-texts.ts';

export interface WorkbookSheet {
  readonly name: string;
  readonly part: string;
  readonly hidden: boolean;
}

const truth = (text: string | undefined): boolean => text === '1' || text === 'true';

/** @throws UsageError where it is not a workbook */
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

/** The sheet of that name, else the first one that can be seen; and what to report of the choice. */
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
    throw refusal(file, 'it has no sheet that can be seen', advice);
  }
  const notes: string[] = [];
  const before = sheets.slice(0, sheets.indexOf(sheet));
  const after = sheets.slice(sheets.indexOf(sheet) + 1);
  if (before.length > 0) notes.push(`hidden sheets before it were skipped: ${names(before)}`);
  if (after.length > 0) notes.push(`other sheets were not read: ${names(after)}; --sheet names the one to read`);
  return { sheet, notes };
}
