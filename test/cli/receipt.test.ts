/** Receipts: documents about a batch. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { receiptFormats, type ReceiptHead, receiptOf, type ReceiptRow } from '../../src/bulk/receipt.ts';
import type { Journal } from '../../src/journal/port.ts';
import { systemClock } from '../../src/model/time.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, type BulkWorld, csv } from '../support/bulk-cli.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';

interface Receipt {
  readonly receipt: ReceiptHead;
  readonly rows: readonly ReceiptRow[];
}

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

const read = (path: string): Receipt => JSON.parse(readFileSync(path, 'utf8')) as Receipt;

describe('A receipt', () => {
  test('records who did what, the outcome and proof of each row, and the sums', async () => {
    const { folder, batch, hash, users, sandbox, receipt } = await sentBatch();
    const path = await receipt('r.json');
    const { receipt: head, rows } = read(path);
    const fileHash = createHash('sha256')
      .update(readFileSync(join(folder, 'credit.csv')))
      .digest('hex');
    expect(head).toMatchObject({
      receipt: 'admin-mirror receipt 1',
      batch,
      plan_hash: hash,
      server: sandbox.url,
      file: { name: 'credit.csv', sha256: fileHash },
      state: 'stopped',
      settled: false,
      rows: 5,
      counts: { applied: 3, skipped: 1, unknown: 1, planned: 0 },
      net: '15.75',
      outcomes: {
        applied: { rows: 3, net: '5.25', gross: '15.75' },
        skipped: { rows: 1, net: '5.25', gross: '5.25' },
        unknown: { rows: 1, net: '5.25', gross: '5.25' },
        planned: { rows: 0, net: '0.00', gross: '0.00' },
      },
    });
    for (const actors of [head.planned_by, head.approved_by, head.sent_by]) expect(actors).toHaveLength(1);
    expect(head.steps.map(({ kind }) => kind)).toEqual(['added', 'consented', 'claimed', 'stopped']);
    expect(head.steps[1]).toMatchObject({ actor: head.approved_by[0], note: 'by the hash of the plan', row: null });
    expect(head.head?.step).toBe(head.steps.at(-1)?.step);
    expect(rows.map(({ row, user, state }) => [row, user, state])).toEqual(
      ['applied', 'applied', 'applied', 'skipped', 'unknown'].map((state, at) => [at + 2, users[at], state]),
    );
    expect(rows[0]).toMatchObject({
      parameters: { type: 'add', amount: '5.25', description: 'Credit' },
      planned_before: '10.00',
      planned_after: '15.25',
      before: '10.00',
      after: '15.25',
      http_status: 200,
      evidence: 'token',
      record_id: expect.stringMatching(/^\d+$/),
      discrepancy: null,
    });
    expect(rows[4]).toMatchObject({ evidence: null, after: null, sent_at: expect.any(String) });
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test('agrees with its rows, and its page has the same document', async () => {
    const { receipt } = await sentBatch();
    const json = await receipt('r.json');
    const { receipt: head, rows } = read(json);
    const page = readFileSync(await receipt('r.html'), 'utf8');
    const [, data = ''] = page.split('<script type="application/json" id="receipt">\n');
    const shown = JSON.parse(data.slice(0, data.indexOf('\n</script>'))) as Receipt;
    expect(shown).toEqual({ receipt: { ...head, written_at: shown.receipt.written_at }, rows });
    expect(rows).toHaveLength(head.rows);
    const bytes = readFileSync(json);
    expect(JSON.parse(readFileSync(`${json}.manifest.json`, 'utf8'))).toMatchObject({
      complete: false,
      journal_head: head.head,
      files: [{ file: 'r.json', rows: 5, sha256: createHash('sha256').update(bytes).digest('hex') }],
    });
    for (const [name, sum] of Object.entries(head.outcomes)) {
      expect([name, rows.filter(({ state }) => state === name).length]).toEqual([name, sum.rows]);
    }
  });

  // proves: receipt-scripts
  test('as a page has no scripts and no external content, and escapes text from others', async () => {
    const { receipt, batch } = await sentBatch();
    const page = readFileSync(await receipt('r.html'), 'utf8');
    expect(page.match(/<script[^>]*>/g)).toEqual(['<script type="application/json" id="receipt">']);
    const [, style = ''] = /<style>([^]*?)<\/style>/.exec(page) ?? [];
    const styleHash = createHash('sha256').update(style).digest('base64');
    const policy = `default-src &#39;none&#39;; style-src &#39;sha256-${styleHash}&#39;`;
    expect(page).toContain(`<meta http-equiv="Content-Security-Policy" content="${policy}" />`);
    expect(style).toMatch(/@page .*size: A4[^]*@media print/);
    const [shown = '', data = ''] = page.split('<script type="application/json" id="receipt">\n');
    expect(shown).not.toMatch(/\b(?:src|href|on\w+)\s*=|url\(|@import/);
    expect(shown).toContain(`<h1>Receipt for batch ${batch}</h1>`);
    expect(shown).toContain('This batch is not done (stopped): 1 unknown.');
    // No other person had to approve it.
    expect(shown).toMatch(/<th scope="row">Confirmed by<[^]*?<td>\w+@/);
    expect(shown).not.toContain('Approved by');
    expect(shown).toContain('&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;Tom&quot;');
    // The page contains the same document.
    const document = data.slice(0, data.indexOf('\n</script>'));
    expect((JSON.parse(document) as Receipt).rows[1]?.parameters).toMatchObject({ description: hostile });
  });

  test('names what a person decided about a row, and is settled afterwards', { tags: 'full' }, async () => {
    const { folder, bulk, batch } = await sentBatch();
    const told = ['--not-applied', '--reason', 'seen in the panel'];
    const resolved = await bulk(['resolve', batch, '--row', '6', ...told]);
    expect([resolved.code, resolved.stderr]).toEqual([0, '']);
    const done = await bulk(['receipt', batch, '-o', 'after.json']);
    expect(done.code).toBe(0);
    const { receipt: head, rows } = read(join(folder, 'after.json'));
    expect(head.settled).toBe(true);
    expect(rows[4]).toMatchObject({ state: 'not_applied', evidence: 'person' });
    expect(head.steps.filter(({ row }) => row !== null)).toMatchObject([
      { row: 6, kind: 'not_applied', note: 'decided by a person: seen in the panel' },
    ]);
  });
});

describe('bulk receipt', () => {
  async function planned(): Promise<BulkWorld & { readonly batch: string }> {
    const world = await bulkWorld();
    const name = world.file(`${csv}${newUser(world.sandbox, 10)},add,5,Credit\n`);
    const { batch } = (await world.bulk(['plan', 'balance', name, '--json'])).report();
    return { ...world, batch };
  }

  test('says that a batch is not done, and takes the format from the name of the file or the flag', async () => {
    const { folder, bulk, batch } = await planned();
    const first = await bulk(['receipt', 'last']);
    expect([first.code, first.stderr]).toEqual([0, '']);
    expect(first.stdout).toContain('the batch is not done');
    const { receipt } = read(join(folder, `receipt-${batch}.json`));
    expect(receipt).toMatchObject({ state: 'planned', settled: false, counts: { planned: 1 }, sent_by: [] });
    const again = await bulk(['receipt', batch, '--format', 'html', '--json']);
    expect([again.code, again.stderr]).toEqual([0, '']);
    expect(JSON.parse(again.stdout)).toMatchObject({ file: `receipt-${batch}.html`, format: 'html', settled: false });
  });

  test('replaces a file only with --force, and never a file of the program', async () => {
    const { folder, bulk, batch } = await planned();
    writeFileSync(join(folder, 'r.json'), 'mine');
    const refused = await bulk(['receipt', batch, '-o', 'r.json']);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('r.json already exists')]);
    expect(readFileSync(join(folder, 'r.json'), 'utf8')).toBe('mine');
    expect((await bulk(['receipt', batch, '-o', 'r.json', '--force'])).code).toBe(0);
    const own = await bulk(['receipt', batch, '-o', 'data/journal.db', '--force']);
    expect([own.code, own.stderr]).toEqual([2, expect.stringContaining("is one of admin-mirror's own files")]);
    expect((await bulk(['receipt', 'nothing'])).stderr).toMatch(/there is no batch nothing/);
  });

  test.each(receiptFormats)(
    'reads rows of the %s only as its bytes are taken, so that no batch is held in memory',
    async (format) => {
      const rows = 3_000;
      const { journal } = await newJournal();
      await journal.addBatch(
        newBatch({ rows }),
        Array.from({ length: rows }, (_, at) => newIntent(at + 2, at + 2)),
      );
      let taken = 0;
      const counting: Journal = {
        ...journal,
        atOneMoment: (read) =>
          journal.atOneMoment((frozen) =>
            read({
              ...frozen,
              intents: async function* (...which) {
                for await (const each of frozen.intents(...which)) {
                  taken += 1;
                  yield each;
                }
                return undefined;
              },
            }),
          ),
      };
      const pieces = receiptOf(counting, { batch: 'one' }, { format, clock: systemClock });
      let bytes = 0;
      let atFirst = 0;
      for await (const piece of pieces) {
        if (bytes === 0) atFirst = taken;
        bytes += piece.length;
      }
      expect(atFirst).toBeLessThan(rows / 5);
      expect([taken, bytes > 200 * rows]).toEqual([format === 'json' ? rows : 2 * rows, true]);
    },
  );
});
