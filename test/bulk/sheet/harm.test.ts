// @module-tag full
/** Files made to fill the memory or keep the machine busy. A process of its own reads them and is measured. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { deflateRawSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { credit, header, partsOf, row, text, workbookOf, worksheet } from '../../fixtures/sheets/make/workbook.ts';
import { zipOf } from '../../fixtures/sheets/make/zip.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { fixture } from './fixture.ts';
import { sample } from '../../support/part.ts';

const program = fileURLToPath(new URL('read-apart.ts', import.meta.url));

async function readApart(file: string): Promise<{ readonly outcome: string; readonly megabytes: number }> {
  const { stdout } = await promisify(execFile)(process.execPath, [program, file]);
  return JSON.parse(stdout) as { outcome: string; megabytes: number };
}

/** Writes a workbook with this content in one part, and returns its path. */
function packed(name: string, content: string): string {
  const parts = partsOf({ sheets: [{ name: 'Credits', rows: header }] });
  const file = join(temporaryFolder(), 'harm.xlsx');
  const replaced = parts.map((part) =>
    part.name === name ? { ...part, content, deflated: deflateRawSync(content, { level: 1 }) } : part,
  );
  writeFileSync(file, zipOf(replaced));
  return file;
}

const sheetPart = 'xl/worksheets/sheet1.xml';
const mebibyte = 1024 * 1024;

describe('A file is read or refused in bounded memory if it', () => {
  test.each(
    sample(
      [
        ['unpacks-to-gigabytes.xlsx', 'it unpacks to 3073 MiB'],
        ['unpacks-to-more-than-it-says.xlsx', 'too many bytes in the stream'],
        ['parts-that-share-bytes.xlsx', 'it unpacks to 1110 MiB'],
        ['entities-that-grow.xlsx', 'holds a document type'],
      ],
      1,
    ),
  )('is %s', async (name, reason) => {
    const { outcome, megabytes } = await readApart(fixture(name));
    expect(outcome).toContain(reason);
    expect(megabytes).toBeLessThan(250);
  });

  test.each(
    sample(
      [
        ['nests tags without end', sheetPart, () => '<a>'.repeat(20 * mebibyte), 'has tags nested more than 100 deep'],
        [
          'has a tag without end',
          sheetPart,
          () => `<a b="${' '.repeat(60 * mebibyte)}`,
          'holds a tag or a text that is too long',
        ],
        [
          'has a comment without end',
          sheetPart,
          () => `<a><!--${'<'.repeat(60 * mebibyte)}`,
          'a tag or a text that is too long',
        ],
        [
          'has a document type without end',
          sheetPart,
          () => `<!DOCTYPE a [${'>'.repeat(60 * mebibyte)}`,
          'a tag or a text that is too long',
        ],
        [
          'has a cell longer than cells can be',
          sheetPart,
          () => worksheet(header + row(2, text('A2', 'x'.repeat(32_768)))),
          'has a cell with more than 32767 characters',
        ],
        [
          'has shared texts without end',
          'xl/sharedStrings.xml',
          () => `<sst>${`<si><t>${'x'.repeat(32_000)}</t></si>`.repeat(7000)}</sst>`,
          'its cells have more than 100000000 characters',
        ],
        [
          'has empty shared texts without end',
          'xl/sharedStrings.xml',
          () => `<sst>${'<si/>'.repeat(9_000_000)}</sst>`,
          'it has more than 8000000 cells',
        ],
        [
          'has a text of many runs',
          'xl/sharedStrings.xml',
          () => `<sst><si>${`<t>${'x'.repeat(1000)}</t>`.repeat(60_000)}</si></sst>`,
          'has a cell with more than 32767 characters',
        ],
        [
          'has a comment for each of its texts',
          'xl/sharedStrings.xml',
          () => `<sst>${`<si><t>${'x'.repeat(20)}</t><!--${' '.repeat(60_000)}--></si>`.repeat(7000)}</sst>`,
          'read 0 rows',
        ],
        [
          'lists sheets without end',
          'xl/workbook.xml',
          () => `<workbook><sheets>${'<sheet name="x" id="rId1"/>'.repeat(2_000_000)}</sheets></workbook>`,
          'its part xl/workbook.xml has 52 MiB, more than it can need',
        ],
        [
          'lists as many sheets as fit',
          'xl/workbook.xml',
          () => `<workbook><sheets>${'<sheet name="x" id="rId1"/>'.repeat(1_200_000)}</sheets></workbook>`,
          'read 0 rows',
        ],
        [
          'has rows as wide as can be',
          sheetPart,
          () => {
            const wide = Array.from(
              { length: 1000 },
              (_, at) => `<row r="${at + 2}"><c r="XFD${at + 2}"><v>1</v></c></row>`,
            );
            return worksheet(header + wide.join(''));
          },
          'it has more than 8000000 cells',
        ],
      ] as const,
      3,
    ),
  )('%s', async (_, part, content, reason) => {
    const { outcome, megabytes } = await readApart(packed(part, content()));
    expect(outcome).toContain(reason);
    expect(megabytes).toBeLessThan(700);
  });

  test('has a large part that is not packed', async () => {
    const padding = `<!--${' '.repeat(60_000)}-->`.repeat(1_300);
    const file = join(temporaryFolder(), 'stored.xlsx');
    writeFileSync(file, workbookOf({ sheets: [{ name: 'Credits', rows: header + padding + credit(2, '5') }] }));
    const { outcome, megabytes } = await readApart(file);
    expect(outcome).toBe('read 1 rows');
    // 75 of them are the file.
    expect(megabytes).toBeLessThan(300);
  });
});
