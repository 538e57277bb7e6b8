import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readSheet } from '../../../src/bulk/sheet/sheet.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { fixture, readFixture, refusalOf } from './fixture.ts';

const signal = new AbortController().signal;

describe('A file is refused, with its name and the reason, if it', () => {
  // proves: zip-bomb
  test.for([
    ['is in two encodings', 'two-encodings.csv', 'the text of line 3 is not UTF-8: "jos\ufffd,add,5.00"'],
    ['is UTF-16 and does not say so', 'utf-16-without-mark.csv', 'it holds NUL characters'],
    ['is UTF-16 that is cut in a character', 'utf-16-cut.csv', 'it begins as UTF-16LE and then is not'],
    ['holds NUL', 'null-characters.csv', 'it holds NUL characters'],
    ['may have two delimiters', 'delimiter-unclear.csv', 'its cells may be separated by comma and semicolon'],
    ['names a delimiter of its own', 'sep-line-unknown.csv', '"sep=|", does not name a supported delimiter'],
    ['opens a quote that it never closes', 'quote-not-closed.csv', 'row 3, column B is not CSV: a quote opens a cell'],
    ['has a quote inside a cell', 'quote-inside.csv', 'row 2, column B is not CSV: a quote stands inside a cell'],
    ['has text after a quote', 'text-after-quote.csv', 'row 2, column B is not CSV: text follows the quote'],
    ['begins with a blank row', 'header-in-second-row.csv', 'its first row is empty'],
    ['is empty', 'empty.csv', 'its first row is empty'],
    ['is empty JSON lines', 'empty.jsonl', 'it is empty'],
    ['has a line that is not JSON', 'not-json.jsonl', 'row 2 is not JSON: "{"user_id": 2, amount: 5}"'],
    ['has a line that is no object', 'list.jsonl', 'row 1 is not a JSON object: "[1, "add", 5]"'],
    ['is a workbook with the name of a text file', 'workbook-inside.csv', 'the text of line 1 is not UTF-8'],
    ['is text with the name of a workbook', 'text-inside.xlsx', 'its content is not that of an .xlsx'],
    ['is an archive without a workbook', 'no-workbook.xlsx', 'it is a zip archive, but no workbook'],
    ['is an old .xls by another name', 'old-format.xlsx', 'it is in the format of Excel before 2007 (.xls)'],
    ['is encrypted', 'password.xlsx', 'it is protected by a password'],
    ['has no sheet that can be seen', 'all-sheets-hidden.xlsx', 'it has no visible sheet'],
    ['has an empty sheet', 'empty-sheet.xlsx', 'its sheet "Credits" is empty'],
    ['has its headers in row 3', 'header-in-third-row.xlsx', 'its first row is empty; the first with cells is row 3'],
    ['declares a document type', 'doctype.xlsx', 'xl/worksheets/sheet1.xml holds a document type (DOCTYPE)'],
    ['has entities that grow', 'entities-that-grow.xlsx', 'holds a document type (DOCTYPE)'],
    ['is XML in another encoding than it says', 'not-utf-8.xlsx', 'is not UTF-8 throughout'],
    ['is not well-formed', 'not-well-formed.xlsx', 'is not well-formed: closing tag mismatch'],
    ['would unpack to gigabytes', 'unpacks-to-gigabytes.xlsx', 'it unpacks to 3073 MiB, more than the 1024 MiB'],
    [
      'unpacks to more than it says',
      'unpacks-to-more-than-it-says.xlsx',
      'does not unpack: too many bytes in the stream',
    ],
    [
      'unpacks to less than it says',
      'unpacks-to-less-than-it-says.xlsx',
      'it is damaged: compressed/uncompressed size mismatch',
    ],
    ['has parts that share bytes', 'parts-that-share-bytes.xlsx', 'it unpacks to 1110 MiB, more than the 1024 MiB'],
    ['is not what was packed', 'wrong-checksum.xlsx', 'sheet1.xml is not what was packed'],
    ['does not unpack', 'does-not-unpack.xlsx', 'sheet1.xml does not unpack'],
    ['is packed in an unknown way', 'unknown-packing.xlsx', 'does not unpack: unsupported compression method: 12'],
    ['lacks a part', 'part-missing.xlsx', 'sheet1.xml is missing'],
    ['is cut off', 'cut-off.xlsx', 'it is damaged: '],
    ['has rows out of order', 'row-out-of-order.xlsx', 'in the sheet "Credits", row 2 follows row 3'],
    ['has a row twice', 'row-twice.xlsx', 'in the sheet "Credits", row 2 follows row 2'],
    ['has merged cells', 'others/values-under-merged-cells.xlsx', 'it has merged cells (A2:A3)'],
    ['has a cell twice', 'cell-twice.xlsx', 'in the sheet "Credits", the cell C2 is out of place in row 2'],
    ['has a cell in another row', 'cell-in-another-row.xlsx', 'the cell A3 is out of place in row 2'],
    ['has a cell without its format', 'format-missing.xlsx', 'the cell C2 has the format "7", which is not there'],
    ['has a cell without its text', 'shared-text-missing.xlsx', 'the cell A1 is of type "s" and has the value "0"'],
    ['has a number that is none', 'number-that-is-none.xlsx', 'the cell C2 has the number "five"'],
  ] as const)('%s', async ([, name, reason]) => {
    const { message } = await refusalOf(readFixture(name));
    expect(message).toContain(`${name} cannot be read: `);
    expect(message).toContain(reason);
  });

  test('does not exist', async () => {
    const parent = temporaryFolder();
    const missing = await refusalOf(readSheet(join(parent, 'none.csv'), { signal }));
    expect(missing.message).toContain('none.csv: it does not exist');
  });

  test('has another extension, or that of Excel before 2007', async () => {
    const parent = temporaryFolder();
    for (const name of ['credits.xls', 'credits']) {
      writeFileSync(join(parent, name), 'user_id\n1\n');
      const { message } = await refusalOf(readSheet(join(parent, name), { signal }));
      expect(message).toContain(`${name} cannot be read: its name does not end in .csv, .tsv, .xlsx or .jsonl`);
    }
  });

  test('was saved by LibreOffice as .xls and renamed', async () => {
    const renamed = join(temporaryFolder(), 'credits.xlsx');
    copyFileSync(fixture('others/libreoffice.xls'), renamed);
    const { message, advice } = await refusalOf(readSheet(renamed, { signal }));
    expect(message).toContain('it is in the format of Excel before 2007 (.xls)');
    expect(advice).toBe('Save it as .xlsx.');
  });
});

test('Reading stops when it is told to, with the reason given', async () => {
  const reason = new Error('stopped');
  for (const name of ['plain.csv', 'plain.jsonl', 'plain.xlsx']) {
    const stop = new AbortController();
    const reading = readSheet(fixture(name), { signal: stop.signal });
    stop.abort(reason);
    await expect(reading).rejects.toBe(reason);
  }
});
