/** Receipts: pages about a batch. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, type BulkWorld, csv } from '../support/bulk-cli.ts';

const hostile = '</script><script>alert(1)</script> & "Tom"';

/** Three rows that are applied, one whose user is deleted after the plan, and one whose response is lost. */
async function sentBatch() {
  const world = await bulkWorld({ late_commit_ms: 60_000 });
  const { sandbox, bulk, file } = world;
  const users = Array.from({ length: 5 }, () => newUser(sandbox, 10));
  const texts = ['Credit', `"${hostile.replaceAll('"', '""')}"`, 'Refund', 'Gone', 'Lost'];
  const name = file(
    csv + users.map((user, at) => `${user},${at === 2 ? 'remove' : 'add'},5.25,${texts[at]}\n`).join(''),
  );
  const { batch, hash } = (await bulk(['plan', 'balance', name, '--json'])).report();
  sandbox.control.remove('users', users[3] ?? 0);
  sandbox.control.faultNext({ fault: 'commit_late', match: { method: 'PUT', path: `/users/${users[4]}/` } });
  expect((await bulk(['apply', batch, '--approve', hash])).code).toBe(8);
  const receipt = async (output: string): Promise<string> => {
    const done = await bulk(['receipt', batch, '-o', output, '--force']);
    expect([done.code, done.stdout]).toEqual([8, expect.stringContaining(`${output}  `)]);
    return join(world.folder, output);
  };
  return { ...world, users, batch, hash, receipt };
}

/** The cells of each table of the page, by its rows. */
function tablesIn(page: string): string[][][] {
  return [...page.matchAll(/<table[^>]*>([^]*?)<\/table>/g)].map(([, table = '']) =>
    [...table.matchAll(/<tr>([^]*?)<\/tr>/g)].map(([, line = '']) =>
      [...line.matchAll(/<t[dh][^>]*>([^]*?)<\/t[dh]>/g)].map(([, cell = '']) => cell.replace(/<[^>]+>/g, '')),
    ),
  );
}

describe('A receipt', () => {
  test('records who did what, the outcome and proof of each row, and the sums, and has its hash beside it', async () => {
    const { folder, batch, hash, users, sandbox, receipt } = await sentBatch();
    const path = await receipt('r.html');
    const page = readFileSync(path, 'utf8');
    const [facts = [], outcomes, steps = [], rows = []] = tablesIn(page);
    const about = new Map(facts.map(([name = '', value = '']) => [name, value]));
    const hashOf = (name: string): string =>
      createHash('sha256')
        .update(readFileSync(join(folder, name)))
        .digest('hex');
    expect([about.get('Server'), about.get('File'), about.get('SHA-256 of the file')]).toEqual([
      sandbox.url,
      'credit.csv',
      hashOf('credit.csv'),
    ]);
    expect([about.get('Batch'), about.get('State')]).toEqual([`${batch}, 5 rows, plan ${hash}`, 'stopped']);
    expect(page).toContain('3 rows applied, net 5.25; 1 row unknown, net 5.25; 1 row skipped, net 5.25');
    expect(outcomes).toEqual([
      ['Outcome', 'Rows', 'Net', 'Moved up and down'],
      ['applied', '3', '5.25', '15.75'],
      ['unknown', '1', '5.25', '5.25'],
      ['skipped', '1', '5.25', '5.25'],
    ]);
    expect(steps.slice(1).map((cells) => cells[3])).toEqual(['planned', 'confirmed', 'sending began', 'stopped']);
    expect(steps[2]).toContain('by the hash of the plan');
    expect(
      rows
        .slice(1)
        .map(([row, user = '', , , , state = '']) => [
          Number(row),
          parseInt(user, 10),
          /^(?:applied|skipped|unknown)/.exec(state)?.[0],
        ]),
    ).toEqual(['applied', 'applied', 'applied', 'skipped', 'unknown'].map((state, at) => [at + 2, users[at], state]));
    expect(rows[1]?.slice(2, 5)).toEqual(['add, 5.25, Credit', '10.00', '15.25']);
    expect(rows[1]?.[5]).toMatch(/^applied *its mark is on the server *am:/);
    // To the minute.
    expect(rows[1]?.[6]).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d UTC$/);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(`${path}.manifest.json`, 'utf8'))).toMatchObject({
      batch,
      complete: false,
      journal_head: { step: Number(steps.at(-1)?.[0]) },
      files: [{ file: 'r.html', rows: 5, sha256: hashOf('r.html') }],
    });
  });

  // proves: receipt-scripts
  test('has no scripts and no external content, and escapes text from others', async () => {
    const { receipt } = await sentBatch();
    const page = readFileSync(await receipt('r.html'), 'utf8');
    expect(page).not.toContain('<script');
    const [, style = ''] = /<style>([^]*?)<\/style>/.exec(page) ?? [];
    const styleHash = createHash('sha256').update(style).digest('base64');
    const policy = `default-src &#39;none&#39;; style-src &#39;sha256-${styleHash}&#39;`;
    expect(page).toContain(`<meta http-equiv="Content-Security-Policy" content="${policy}" />`);
    expect(style).toMatch(/@page .*size: A4[^]*@media print/);
    expect(page).not.toMatch(/\b(?:src|href|on\w+)\s*=|url\(|@import/);
    expect(page).toContain(`<h1>Receipt: credit</h1>`);
    expect(page).toContain('This batch is not done (stopped): 1 unknown.');
    // No other person had to approve it.
    expect(page).toMatch(/<th scope="row">Confirmed by<[^]*?<td>\w+@/);
    expect(page).not.toContain('Approved by');
    expect(page).toContain('&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;Tom&quot;');
  });

  test('names what a person decided about a row, and is settled afterwards', { tags: 'full' }, async () => {
    const { folder, bulk, batch } = await sentBatch();
    const told = ['--not-applied', '--reason', 'seen in the panel'];
    const resolved = await bulk(['resolve', batch, '--row', '6', ...told]);
    expect([resolved.code, resolved.stderr]).toEqual([0, '']);
    const done = await bulk(['receipt', batch, '-o', 'after.html']);
    expect(done.code).toBe(0);
    const page = readFileSync(join(folder, 'after.html'), 'utf8');
    expect(page).not.toContain('This batch is not done');
    const [, , steps, rows] = tablesIn(page);
    expect(rows?.[5]).toEqual(expect.arrayContaining([expect.stringMatching(/^not applied *a person said so/)]));
    expect(steps).toContainEqual(
      expect.arrayContaining(['not applied row 6', 'decided by a person: seen in the panel']),
    );
  });
});

describe('bulk receipt', () => {
  async function planned(): Promise<BulkWorld & { readonly batch: string }> {
    const world = await bulkWorld();
    const name = world.file(`${csv}${newUser(world.sandbox, 10)},add,5,Credit\n`);
    const { batch } = (await world.bulk(['plan', 'balance', name, '--json'])).report();
    return { ...world, batch };
  }

  test('says that a batch is not done', async () => {
    const { folder, bulk, batch } = await planned();
    const first = await bulk(['receipt', 'last']);
    expect([first.code, first.stderr]).toEqual([0, '']);
    expect(first.stdout).toContain('the batch is not done');
    expect(readFileSync(join(folder, `receipt-${batch}.html`), 'utf8')).toContain('This batch is not done (planned)');
  });

  test('replaces a file only with --force, and never a file of the program', async () => {
    const { folder, bulk, batch } = await planned();
    writeFileSync(join(folder, 'r.html'), 'mine');
    const refused = await bulk(['receipt', batch, '-o', 'r.html']);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('r.html already exists')]);
    expect(readFileSync(join(folder, 'r.html'), 'utf8')).toBe('mine');
    expect((await bulk(['receipt', batch, '-o', 'r.html', '--force'])).code).toBe(0);
    const own = await bulk(['receipt', batch, '-o', 'data/journal.db', '--force']);
    expect([own.code, own.stderr]).toEqual([2, expect.stringContaining("is one of admin-mirror's own files")]);
    expect((await bulk(['receipt', 'nothing'])).stderr).toMatch(/there is no batch nothing/);
  });
});
