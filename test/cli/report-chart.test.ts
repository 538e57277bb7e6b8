import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { invoke } from '../support/invoke.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { sample } from '../support/part.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function folderWith(reports: Readonly<Record<string, string>> = {}) {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config/reports'), { recursive: true });
  for (const [name, text] of Object.entries(reports)) writeFileSync(join(folder, 'config/reports', name), text);
  const file = mirrorFile((database) => insertRows(database, 'users', madeUpUsers(200)));
  return { folder, run: (...args: string[]) => invoke(['export', ...args, '--db', file], { folder }) };
}

const languages = `-- title: Languages & <people>
-- description: Users of each language.
-- parameter: least | integer | 0 | languages of at least so many
-- column: language | text | the language
-- column: users | integer | how many
-- needs: users
-- chart: bar language users
SELECT language, count(*) AS users FROM users GROUP BY language HAVING count(*) >= :least ORDER BY language;`;

describe('a chart of a report', () => {
  test('is drawn instead of rows, with title and parameters', async () => {
    const { folder, run } = folderWith({ 'languages.sql': languages });
    const result = await run('report:languages', '--chart', 'out.svg', '--param', 'least=67');
    expect(result).toEqual({ code: 0, stdout: '', stderr: 'drawn to out.svg\n' });
    const svg = readFileSync(join(folder, 'out.svg'), 'utf8');
    expect(svg).toContain('>Languages &amp; &lt;people&gt;</text>');
    expect([...svg.matchAll(/<text [^>]*text-anchor="end"[^>]*>(..)<\/text>/g)].map(([, text]) => text)).toEqual([
      'de',
      'en',
    ]);
  });

  const refused = [
    [['report:top-balances', '--chart', 'out.svg'], 'report top-balances has no picture'],
    [['users', '--chart', 'out.svg'], '--chart is for reports'],
    [['report:signups-by-month', '--chart', 'out.png'], '"out.png" does not end in .svg'],
    [['report:signups-by-month', '--chart', 'out.svg', '-o', 'out.csv'], 'cannot be used with option'],
    [['report:packages-by-status', '--chart', 'out.svg'], 'the result has no rows'],
  ] as const;
  test.each(sample(refused, 2))('is refused for %j, and no file is written', async (args, message) => {
    const { folder, run } = folderWith();
    expect(await run(...args)).toMatchObject({ code: 2, stderr: expect.stringContaining(message) });
    expect(readdirSync(folder)).toEqual(['config']);
  });
});
