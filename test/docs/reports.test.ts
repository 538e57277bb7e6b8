import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { columnTypes, parameterTypes, type Report } from '../../src/data/reports/reports.ts';
import { blankSnapshot, checkReport } from '../../src/data/reports/run.ts';
import { blocksOf, projectFolder, sectionOf, tableRows, textOf } from '../support/documents.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { reportsIn, runReport } from '../support/reports.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const { reports } = reportsIn();
const document = 'docs/reports.md';

function rowOf({ name, title, parameters, needs }: Report): string {
  const asked = parameters.map((each) => `\`${each.name}\``).join(', ');
  const read = needs.map(({ table }) => `\`${table}\``).join(', ');
  return `| \`${name}\` | ${title} | ${asked} | ${read} |\n`;
}

describe('docs/reports.md', () => {
  test('lists the shipped reports like their headers (UPDATE_DOCS=1 writes them again)', () => {
    const shown = () => /^\|[^]*?(?=^(?!\|))/m.exec(sectionOf(document, 'The reports'))?.[0] ?? '';
    const head = '| report | what it tells | parameters | reads |\n| --- | --- | --- | --- |\n';
    const wanted = head + reports.map(rowOf).join('');
    if (process.env['UPDATE_DOCS'] === '1') {
      writeFileSync(join(projectFolder, document), textOf(document).replace(shown(), wanted));
    }
    expect(shown()).toBe(wanted);
  });

  test('shows a custom report that runs unchanged', () => {
    const folder = temporaryFolder();
    const [block] = blocksOf(document).filter(({ language }) => language === 'text');
    writeFileSync(join(folder, 'users-by-language.sql'), block?.lines.join('\n') ?? '');
    const file = mirrorFile((database) => insertRows(database, 'users', madeUpUsers(7)));
    const own = reportsIn(folder);
    expect(own.broken).toEqual([]);
    const given = { since: '2020-01-01' };
    const { rows } = runReport(file, own, { name: 'users-by-language', given, now: Date.now() });
    expect(rows.map((row) => [row['language'], row['users']])).toEqual([
      ['en', 3],
      ['de', 2],
      ['fr', 2],
    ]);
    const blank = blankSnapshot();
    expect(own.reports.flatMap((report) => checkReport(report, undefined, blank).problems)).toEqual([]);
    blank.release();
  });

  test('names every type of a parameter and a column', () => {
    const rows = tableRows(sectionOf(document, 'Your own'));
    const typesOf = (key: string) => {
      const words = rows.find(([cell]) => cell === `\`${key}\``)?.[1] ?? '';
      return [...(/Types: ([^.]*)/.exec(words)?.[1] ?? '').matchAll(/`(\w+)`/g)].map(([, type]) => type);
    };
    expect(typesOf('parameter')).toEqual(parameterTypes);
    expect(typesOf('column')).toEqual(columnTypes);
  });
});
