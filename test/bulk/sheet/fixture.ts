/** Sheets of test/fixtures/sheets, made and read. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { OperatorError } from '../../../src/model/errors.ts';
import { readSheet, type Sheet } from '../../../src/bulk/sheet/sheet.ts';
import { sheets } from '../../fixtures/sheets/make.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** The path of a sheet: one that the code makes, for the running test, or one of `others/`. */
export function fixture(name: string): string {
  const content = sheets.get(name);
  if (content === undefined) return join(import.meta.dirname, '../../fixtures/sheets', name);
  const path = join(temporaryFolder(), name);
  writeFileSync(path, content);
  return path;
}

export const readFixture = (name: string, sheet?: string): Promise<Sheet> =>
  readSheet(fixture(name), { ...(sheet !== undefined && { sheet }), signal: new AbortController().signal });

/** Each row as its number and texts. */
export const grid = (sheet: Sheet): (string | number)[][] =>
  [...sheet.rows].map(({ row, cells }) => [row, ...cells.map(({ text }) => text)]);

/** The kinds and texts of a column, row by row. */
export const column = (sheet: Sheet, header: string): string[] =>
  [...sheet.rows].map(({ cells }) => {
    const cell = cells[sheet.columns.indexOf(header)];
    return `${cell?.kind} ${cell?.text}`;
  });

/** The error of a refused file, which must be an `OperatorError` with exit code 2 and advice. */
export async function refusalOf(reading: Promise<Sheet>): Promise<OperatorError> {
  const error: unknown = await reading.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof OperatorError)) throw new Error('it was not refused', { cause: error });
  expect(error.exitCode).toBe(2);
  expect(error.advice).toBeTruthy();
  return error;
}
