import { expect, test } from 'vitest';
import { textCell } from '../../../src/bulk/sheet/cell.ts';
import type { SheetCell } from '../../../src/bulk/sheet/sheet.ts';
import { shown } from '../../../src/bulk/sheet/shown.ts';
import { textOf } from '../../../src/bulk/sheet/text.ts';

const cell = (kind: SheetCell['kind'], text: string): SheetCell => ({ kind, text, raw: text });

test('The text of a cell is taken where nothing of it can be lost', () => {
  expect(textOf(textCell(' anna '))).toEqual({ text: 'anna' });
  expect(textOf(textCell(''))).toEqual({ text: '' });
  expect(textOf(cell('number', '42'))).toEqual({ text: '42' });
  expect(textOf(cell('date', '2026-03-11'))).toEqual({ text: '2026-03-11' });
  expect(textOf(cell('boolean', 'true'))).toEqual({ text: 'true' });
});

test.each([
  ['number', '1E+20', 'the number "1E+20" may have lost digits'],
  ['number', '12345678901234567', 'may have lost digits'],
  ['percent', '0.25', '"0.25" is formatted as a percentage'],
  ['error', '#N/A', 'the cell holds the error "#N/A"'],
] as const)('The text of a cell is refused where it can: %s %s', (kind, text, problem) => {
  expect(textOf(cell(kind, text))).toEqual({ problem: expect.stringContaining(problem) as string });
});

test('A cell is shown in quotes, cut, and with what nobody sees written out', () => {
  expect(shown('a\u200bb\u001b[31m\u00a0')).toBe('"a\\u{200b}b\\u{1b}[31m\\u{a0}"');
  expect(shown('😀'.repeat(61))).toBe(`"${'😀'.repeat(60)}…"`);
  expect(shown('é'.repeat(60))).toBe(`"${'é'.repeat(60)}"`);
});
