import { parse } from 'csv-parse/sync';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { csvLines, type CsvStyle } from '../../src/data/csv.ts';
import type { Cell } from '../../src/data/reading-types.ts';

const comma: CsvStyle = { delimiter: ',', guard: true };
const tab: CsvStyle = { delimiter: '\t', guard: true };

const nastyText = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '"',
        '""',
        ',',
        ';',
        '\n',
        '\r',
        '\r\n',
        '\t',
        '=',
        '+',
        '-',
        '@',
        "'",
        ' ',
        '\\',
        '＝',
        '\u0000',
      ),
      fc.constantFrom('{"a":[1,"x,y"]}', 'é', '李', '👩‍👩‍👧', '\uFEFF', '0', 'null'),
      fc.string({ maxLength: 4 }),
    ),
    { maxLength: 6 },
  )
  .map((parts) => parts.join(''));

const cell: fc.Arbitrary<Cell> = fc.oneof(
  nastyText,
  fc.constant(null),
  fc.constant(''),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.double({ noNaN: true }),
  fc.constantFrom(0.1, -0.1, 1e21, -0, 100, 12.5, 5e-324, 1.7976931348623157e308, Infinity),
  fc.uint8Array({ maxLength: 4 }),
);

const table = fc
  .integer({ min: 1, max: 5 })
  .chain((width) => fc.array(fc.array(cell, { minLength: width, maxLength: width }), { maxLength: 6 }));

describe('rows of CSV', () => {
  test('are read back unchanged, with null and empty text distinct', () => {
    fc.assert(
      fc.property(table, fc.constantFrom(',' as const, '\t' as const), (rows, delimiter) => {
        const text = csvLines({ delimiter, guard: false })(rows);
        const read = parse(text, {
          delimiter,
          record_delimiter: '\n',
          cast: (value, { quoting }) => (value === '' && !quoting ? null : value),
        });
        const written = rows.map((row) =>
          row.map((each) => (each instanceof Uint8Array ? Buffer.from(each).toString('hex') : each)),
        );
        expect(read).toEqual(written.map((row) => row.map((each) => (each === null ? null : String(each)))));
      }),
      { numRuns: 500 },
    );
  });
});

describe('a line of CSV', () => {
  // proves: formulas
  test.each<[string, Cell[], string]>([
    ['null is nothing, empty text is ""', [null, '', null], ',"",\n'],
    ['quotes are doubled', ['Mary "Mae"'], '"Mary ""Mae"""\n'],
    [
      'whatever may split a line is quoted',
      ['a,b', 'c\nd', 'e\rf', 'g\th', 'i;j'],
      '"a,b","c\nd","e\rf","g\th","i;j"\n',
    ],
    ['JSON is text', ['{"a":1,"b":[]}'], '"{""a"":1,""b"":[]}"\n'],
    [
      'whole numbers keep every digit',
      [9223372036854775807n, -9007199254740993n],
      '9223372036854775807,-9007199254740993\n',
    ],
    [
      'floating-point numbers are as short as they can be',
      [0.1, 12.5, 100, 1e21, 0.1 + 0.2],
      '0.1,12.5,100,1e+21,0.30000000000000004\n',
    ],
    [
      'text that a spreadsheet would run gets an apostrophe',
      ['=1+1', '+1', '-1', '@x', '\tx', '\rx'],
      `'=1+1,'+1,'-1,'@x,"'\tx","'\rx"\n`,
    ],
    [
      'so does a formula after a space, a line break or an invisible character, or in wide letters',
      [' =1', '\n=1', '\uFEFF=1', '\u0000-1', '＝1', '＋1', '－1', '＠x'],
      `' =1,"'\n'=1",'\uFEFF=1,'\u0000-1,'＝1,'＋1,'－1,'＠x\n`,
    ],
    [
      'so does each part that a spreadsheet of another country would split off',
      ['x;=1+41', 'a\n=1+41', 'a;"=1"', 'a\t -1', 'a\r\n＝1;+2', 'a; b'],
      `"x;'=1+41","a\n'=1+41","a;'""=1""","a\t' -1","a\r\n'＝1;'+2","a; b"\n`,
    ],
    ['numbers get no apostrophe', [-1n, -0.5], '-1,-0.5\n'],
    [
      'text after a negative number is quoted, because the line is one cell if only ; splits it',
      [-5n, '*2', 7, "*cmd|'/C calc'!A0", null, ''],
      `-5,"*2",7,"*cmd|'/C calc'!A0",,""\n`,
    ],
    ['text after a negative number that is not first is not quoted', [5, -5, '*2'], '5,-5,*2\n'],
    ['the apostrophe comes before the quotes', ['=HYPERLINK("http://x","y")'], `"'=HYPERLINK(""http://x"",""y"")"\n`],
    ['a sign elsewhere is left alone', ['a=b', "'x"], `a=b,'x\n`],
    ['a text that looks guarded gets another guard, so that one can be taken off', ["'=x"], `''=x\n`],
  ])('%s', (_name, row, line) => {
    expect(csvLines(comma)([row])).toBe(line);
  });

  test('without the guard, text stays as it is', () => {
    expect(csvLines({ delimiter: ',', guard: false })([['=1+1', '-x']])).toBe('=1+1,-x\n');
  });

  test('in TSV, whatever may split a line is quoted as well', () => {
    expect(csvLines(tab)([['a\tb', 'c,d', null, '']])).toBe('"a\tb"\t"c,d"\t\t""\n');
  });
});
