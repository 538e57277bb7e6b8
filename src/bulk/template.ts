/** `bulk template`: an example file for an action, which it would take as it stands if its users were there. */
import type { Action } from './action.ts';
import { sheetText, type WrittenFormat } from './sheet-text.ts';

export function templateText({ examples }: Action, format: WrittenFormat): string {
  const columns = [...new Set(examples.flatMap((row) => Object.keys(row)))];
  const rows = examples.map((row) => columns.map((name) => row[name] ?? ''));
  return [...sheetText(columns, rows, format)].join('');
}
