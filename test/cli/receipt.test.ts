/** Receipts: signed documents about a batch that anybody with the public key can check. */
import { createHash, createPublicKey, sign, verify } from 'node:crypto';
import { chmodSync, copyFileSync, existsSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { assert, asyncProperty, constantFrom, integer, nat } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonical, type Json } from '../../src/journal/chain.ts';
import { receiptFormats, type ReceiptHead, receiptOf, type ReceiptRow } from '../../src/bulk/receipt.ts';
import type { Journal } from '../../src/journal/port.ts';
import { openSigningKey } from '../../src/journal/signing-key.ts';
import { systemClock } from '../../src/model/time.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, type BulkWorld, csv } from '../support/bulk-cli.ts';
import { invoke } from '../support/invoke.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';
import { isFull } from '../support/part.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Receipt {
  readonly receipt: ReceiptHead;
  readonly rows: readonly ReceiptRow[];
  readonly signature: { readonly algorithm: string; readonly value: string };
}

interface Check {
  readonly status: string;
  readonly problems: readonly string[];
  readonly journal: { readonly changed_since: number } | null;
  readonly not_compared: string | null;
  readonly settled?: boolean;
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
  const check = async (path: string, ...more: string[]): Promise<Check & { readonly code: number }> => {
    const { code, stdout } = await world.command(['audit', '--check-receipt', path, '--json', ...more]);
    return { code, ...(JSON.parse(stdout) as Check) };
  };
  return { ...world, users, batch, hash, receipt, check };
}

const read = (path: string): Receipt => JSON.parse(readFileSync(path, 'utf8')) as Receipt;

/** A folder of somebody who has only a receipt and the public key: no settings, no journal. */
function auditor(files: Readonly<Record<string, string>>) {
  const folder = temporaryFolder();
  for (const [name, path] of Object.entries(files)) copyFileSync(path, join(folder, name));
  const check = async (name: string): Promise<Check & { readonly code: number }> => {
    const argv = ['audit', '--check-receipt', name, '--key', 'receipt.pub', '--json'];
    const { code, stdout, stderr } = await invoke(argv, { folder });
    if (stdout === '') throw new Error(stderr);
    return { code, ...(JSON.parse(stdout) as Check) };
  };
  return { folder, check };
}

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

  test('is signed over its canonical JSON, which anybody can verify with the public key', async () => {
    const { folder, receipt } = await sentBatch();
    const text = readFileSync(await receipt('r.json'), 'utf8');
    const { signature, ...document } = JSON.parse(text) as Receipt;
    const key = createPublicKey(readFileSync(join(folder, 'data/receipt.pub')));
    const bytes = canonical(document as unknown as Json);
    const signed = JSON.stringify({ receipt: createHash('sha256').update(bytes).digest('hex') });
    expect(verify(null, Buffer.from(signed), key, Buffer.from(signature.value, 'hex'))).toBe(true);
    expect(text.replaceAll('\n', '')).toBe(canonical({ ...document, signature } as unknown as Json));
    const id = createHash('sha256')
      .update(key.export({ type: 'spki', format: 'der' }))
      .digest('hex');
    expect(document.receipt.key_id).toBe(id);
  });

  test('can be verified with only the public key, as JSON and as a page', async () => {
    const { folder, receipt } = await sentBatch();
    const files = { 'r.json': await receipt('r.json'), 'r.html': await receipt('r.html') };
    const { check, folder: elsewhere } = auditor({ ...files, 'receipt.pub': join(folder, 'data/receipt.pub') });
    for (const name of Object.keys(files)) {
      expect(await check(name)).toMatchObject({
        code: 0,
        status: 'genuine',
        problems: [],
        journal: null,
        not_compared: 'no journal',
        settled: false,
      });
    }
    const argv = ['audit', '--check-receipt', 'r.html', '--key', 'receipt.pub'];
    const { stdout } = await invoke(argv, { folder: elsewhere });
    expect(stdout).toMatch(
      /^genuine {3}r.html\nbatch .*, stopped, written .*\nrows {6}5: 3 applied, 1 unknown, 1 skipped\n/,
    );
    expect(stdout).toMatch(
      /\nopen .*not known yet\nhead {6}step \d+, [0-9a-f]{64}\nkey .*\njournal {3}not compared: no journal\n$/,
    );
    // The check created no files.
    expect(readdirSync(elsewhere).sort()).toEqual(['r.html', 'r.json', 'receipt.pub']);
  });

  test('as a page has no scripts and no external content, and escapes text from others', async () => {
    const { receipt, batch } = await sentBatch();
    const page = readFileSync(await receipt('r.html'), 'utf8');
    expect(page.match(/<script[^>]*>/g)).toEqual([
      '<script type="application/json" id="receipt">',
      '<script type="application/json" id="seal">',
    ]);
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
    // The page contains the same document, with the signature.
    const document = data.slice(0, data.indexOf('\n</script>'));
    expect((JSON.parse(document) as Receipt).rows[1]?.parameters).toMatchObject({ description: hostile });
  });

  test('names what a person decided about a row, and is settled afterwards', { tags: 'full' }, async () => {
    const { folder, bulk, batch, receipt, check } = await sentBatch();
    const before = await receipt('before.json');
    const told = ['--not-applied', '--reason', 'seen in the panel'];
    const resolved = await bulk(['resolve', batch, '--row', '6', ...told]);
    expect([resolved.code, resolved.stderr]).toEqual([0, '']);
    // Later steps do not contradict an earlier receipt.
    expect(await check(before)).toMatchObject({ code: 0, journal: { changed_since: 1 } });
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

/** A receipt in each format with its keys. It is made once, because no test below changes it. */
interface Originals {
  readonly bytes: Readonly<Record<'r.json' | 'r.html' | 'receipt.pub', Buffer>>;
  readonly key: string;
}

let originals: Promise<Originals> | undefined;

async function makeOriginals(): Promise<Originals> {
  const { folder, receipt } = await sentBatch();
  const [json, html] = [await receipt('r.json'), await receipt('r.html')].map((path) => readFileSync(path));
  const checking = readFileSync(join(folder, 'data/receipt.pub'));
  const key = readFileSync(join(folder, 'data/receipt.key'), 'utf8');
  return { bytes: { 'r.json': json ?? checking, 'r.html': html ?? checking, 'receipt.pub': checking }, key };
}

/** The originals, and a check of other bytes. */
async function forgery() {
  const { bytes, key } = await (originals ??= makeOriginals());
  const { folder, check } = auditor({});
  writeFileSync(join(folder, 'receipt.pub'), bytes['receipt.pub']);
  const checkOf = async (other: string | Uint8Array) => {
    writeFileSync(join(folder, 'other'), other);
    return check('other');
  };
  return { bytes, json: bytes['r.json'].toString(), html: bytes['r.html'].toString(), key, checkOf };
}

describe('A receipt with a change', () => {
  test.each(['r.json', 'r.html'] as const)('of any single byte is refused: %s', { timeout: 120_000 }, async (name) => {
    const { bytes: all, checkOf } = await forgery();
    const bytes = all[name];
    const places = nat(bytes.length - 1);
    const kinds = constantFrom('replaced', 'removed', 'inserted', 'swapped');
    await assert(
      asyncProperty(places, integer({ min: 1, max: 255 }), kinds, async (place, delta, kind) => {
        const byte = Buffer.of(((bytes[place] ?? 0) + delta) % 256);
        const rest = bytes.subarray(kind === 'inserted' ? place : place + 1);
        const added = kind === 'removed' ? Buffer.of() : byte;
        const altered = Buffer.concat([bytes.subarray(0, place), added, rest]);
        if (kind === 'swapped') altered.set(Buffer.from(bytes.subarray(place, place + 2)).reverse(), place);
        if (altered.equals(bytes)) return;
        const { code, status, problems } = await checkOf(altered);
        expect([code, status, problems.length > 0]).toEqual([6, 'refused', true]);
      }),
      { seed: 1, numRuns: isFull ? 1_000 : 25, endOnFailure: true },
    );
  });

  test(
    'of any field is refused even if it is written in the right form, and the difference is named',
    { timeout: 120_000 },
    async () => {
      const { json, checkOf } = await forgery();
      const lines = json.split('\n');
      const places = fieldsOf(JSON.parse(json) as Json);
      await assert(
        asyncProperty(constantFrom(...places), nat(), async (place, salt) => {
          const document = JSON.parse(json) as Receipt;
          alter(document, place, salt);
          const { code, status, problems } = await checkOf(writtenOf(document));
          expect([code, status, problems.length > 0]).toEqual([6, 'refused', true]);
        }),
        { seed: 1, numRuns: isFull ? 1_000 : 25, endOnFailure: true },
      );
      expect(writtenOf(JSON.parse(lines.join('')) as Receipt)).toBe(lines.join('\n'));
      const changed = json.replace('"amount":"5.25"', '"amount":"6.25"');
      expect((await checkOf(changed)).problems).toEqual([
        'the signature does not fit: something that it says was changed',
      ]);
      const state = json.replace('"state":"skipped"', '"state":"applied"');
      expect((await checkOf(state)).problems.slice(1)).toEqual([
        expect.stringMatching(/^its rows make counts \{"applied":4.*, and it says \{"applied":3/),
        expect.stringMatching(/^its rows make outcomes .*"net":"10.50","rows":4/),
      ]);
    },
  );

  test.each([
    ['a blank', '"rows":[\n{"after"', '"rows":[\n{ "after"'],
    ['a member twice, of which programs may read either', '"state":"skipped"', '"state":"applied","state":"skipped"'],
    ['a number in other words', '"row":2,', '"row":2.0,'],
  ])('that most JSON parsers would not notice is refused: %s', async (_, from, to) => {
    const { json, checkOf } = await forgery();
    expect(JSON.parse(json.replace(from, to))).toEqual(JSON.parse(json));
    const { code, problems } = await checkOf(json.replace(from, to));
    expect([code, problems]).toEqual([
      6,
      [expect.stringMatching(/^line \d+: this is not written as a receipt writes it$/)],
    ]);
  });

  test('of the page around the document is refused', async () => {
    const { html, checkOf } = await forgery();
    const page = html.replace('<td class="n">15.25</td>', '<td class="n">95.25</td>');
    expect(await checkOf(page)).toMatchObject({
      code: 6,
      problems: ['the signature does not fit: something that the page shows was changed'],
    });
  });

  test('and a signature with another key is refused by the original public key', async () => {
    const { json, checkOf } = await forgery();
    const other = await sentBatch();
    const theirs = await other.receipt('r.html');
    const key = readFileSync(join(other.folder, 'data/receipt.key'), 'utf8');
    const forged = resigned(JSON.parse(json) as Receipt, key);
    expect(await checkOf(forged)).toMatchObject({
      code: 6,
      problems: ['the signature does not fit: something that it says was changed'],
    });
    const { code, problems } = await checkOf(readFileSync(theirs));
    expect([code, problems]).toEqual([
      6,
      [expect.stringMatching(/^it is signed with the key [0-9a-f]{64}, and the public key here is [0-9a-f]{64}$/)],
    ]);
  });

  test('and a valid signature is refused if its sums contradict its rows', async () => {
    const { json, key, checkOf } = await forgery();
    const document = JSON.parse(json) as Receipt;
    expect(await checkOf(resigned(document, key))).toMatchObject({ code: 0, status: 'genuine' });
    const [first, ...rest] = document.rows;
    const rows = [{ ...first, planned_after: '1e999999999' } as ReceiptRow, ...rest];
    for (const forged of [
      { ...document, rows },
      { ...document, rows: rest },
    ]) {
      expect(await checkOf(resigned(forged, key))).toMatchObject({
        code: 6,
        problems: expect.arrayContaining([expect.stringMatching(/^its rows make outcomes/)]),
      });
    }
  });

  test.each([
    ['nothing', () => ''],
    ['half of it', ({ json }) => json.slice(0, 900)],
    ['half of a page', ({ html }) => html.slice(0, 900)],
    ['a sheet', () => csv],
    ['one byte of no text', () => Buffer.of(0xff, 0x0a)],
  ] satisfies readonly (readonly [string, (made: Awaited<ReturnType<typeof forgery>>) => string | Buffer])[])(
    'that leaves %s is refused',
    async (_, left) => {
      const made = await forgery();
      const { code, problems } = await made.checkOf(left(made));
      expect([code, problems]).toEqual([6, [expect.stringMatching(/^line \d+: /)]]);
    },
  );
});

describe('A receipt next to its journal', () => {
  test('is compared with it, and the first row that differs is named', async () => {
    const { folder, receipt, check, batch } = await sentBatch();
    const path = await receipt('r.json');
    expect(await check(path)).toMatchObject({ code: 0, journal: { changed_since: 0 }, not_compared: null });
    expect(await check(await receipt('r.html'))).toMatchObject({ code: 0, journal: { changed_since: 0 } });
    const key = readFileSync(join(folder, 'data/receipt.key'), 'utf8');
    const document = read(path);
    const other = document.rows.map((each) => (each.row === 4 ? { ...each, user: 1 } : each));
    writeFileSync(join(folder, 'other.json'), resigned({ ...document, rows: other }, key));
    expect(await check('other.json')).toMatchObject({
      code: 6,
      problems: [`row 4: user is 1 in it and ${document.rows[2]?.user} in the journal`],
    });
    // A change by other means is not a later step.
    const database = new SqliteDatabase(join(folder, 'data/journal.db'));
    database.exec("UPDATE journal_intents SET after = '99.00' WHERE row = 2");
    database.close();
    const { code, problems } = await check(path);
    expect([code, problems]).toEqual([
      6,
      [
        expect.stringMatching(/^the journal: .*row 2 of batch/),
        'row 2: after is "15.25" in it and "99.00" in the journal',
      ],
    ]);
    expect(batch).toBe(document.receipt.batch);
  });

  test('is refused if the journal is an older copy without its head', { tags: 'full' }, async () => {
    const { folder, bulk, file, receipt, check, users } = await sentBatch();
    const journal = join(folder, 'data/journal.db');
    copyFileSync(journal, join(folder, 'older.db'));
    const later = file(`${csv}${users[0]},add,1,Later\n`, 'later.csv');
    const { batch } = (await bulk(['plan', 'balance', later, '--json'])).report();
    expect((await bulk(['receipt', batch, '-o', 'later.json'])).code).toBe(0);
    const before = await receipt('before.json');
    const { code, problems } = await check('later.json', '--journal', 'older.db', '--key', 'data/receipt.pub');
    expect(code).toBe(6);
    expect(problems[0]).toMatch(/^the journal: no step has the hash [0-9a-f]{64}: steps were removed/);
    expect(problems[1]).toBe(`the journal has no batch ${batch}`);
    expect(await check(before)).toMatchObject({ code: 0 });
  });

  test('is not compared if the journal is another one', { tags: 'full' }, async () => {
    const [one, two] = [await sentBatch(), await sentBatch()];
    const {
      code,
      status,
      journal,
      not_compared: why,
    } = await two.check(await one.receipt('r.json'), '--key', join(one.folder, 'data/receipt.pub'));
    expect([code, status, journal, why]).toEqual([0, 'genuine', null, 'the journal here is another one']);
  });

  test(
    'shows only what is left if it is written after a person was forgotten, and an older one stays valid',
    { tags: 'full' },
    async () => {
      const { command, users, receipt, check } = await sentBatch();
      const before = await receipt('before.json');
      expect((await command(['sync', 'users', '--quiet'])).code).toBe(0);
      const forgotten = await command(['forget', String(users[0]), '--yes']);
      expect([forgotten.code, forgotten.stdout]).toEqual([0, expect.stringContaining('was forgotten')]);
      const { rows } = read(await receipt('after.json'));
      expect(rows[0]).toMatchObject({ user: users[0], state: 'applied', before: '10.00', after: '15.25' });
      expect(JSON.stringify(rows[0]?.parameters)).not.toContain('Credit');
      expect(await check('after.json')).toMatchObject({ code: 0, problems: [] });
      expect(await check(before)).toMatchObject({ code: 0, journal: { changed_since: 1 } });
    },
  );
});

describe('bulk receipt', () => {
  async function planned(): Promise<BulkWorld & { readonly batch: string }> {
    const world = await bulkWorld();
    const name = world.file(`${csv}${newUser(world.sandbox, 10)},add,5,Credit\n`);
    const { batch } = (await world.bulk(['plan', 'balance', name, '--json'])).report();
    return { ...world, batch };
  }

  test('creates missing keys, says so, and uses them again', async () => {
    const { folder, bulk, batch } = await planned();
    const first = await bulk(['receipt', 'last']);
    expect(first.code).toBe(0);
    expect(first.stderr).toMatch(
      /^written: \S+data\/receipt\.key, .*\nwritten: \S+data\/receipt\.pub, .*\(key [0-9a-f]{64}\)\n$/,
    );
    expect(first.stdout).toContain('the batch is not done');
    expect(statSync(join(folder, 'data/receipt.key')).mode & 0o777).toBe(0o600);
    const { receipt } = read(join(folder, `receipt-${batch}.json`));
    expect(receipt).toMatchObject({ state: 'planned', settled: false, counts: { planned: 1 }, sent_by: [] });
    const again = await bulk(['receipt', batch, '--format', 'html', '--json']);
    expect([again.code, again.stderr]).toEqual([0, '']);
    expect(JSON.parse(again.stdout)).toMatchObject({
      file: `receipt-${batch}.html`,
      format: 'html',
      key_id: receipt.key_id,
      settled: false,
    });
    // The public key is derived from the private one.
    rmSync(join(folder, 'data/receipt.pub'));
    expect((await bulk(['receipt', batch, '-o', 'third.json'])).code).toBe(0);
    expect(read(join(folder, 'third.json')).receipt.key_id).toBe(receipt.key_id);
    expect(existsSync(join(folder, 'data/receipt.pub'))).toBe(true);
  });

  test('replaces a file only with --force, and never a file of the program', async () => {
    const { folder, bulk, batch } = await planned();
    writeFileSync(join(folder, 'r.json'), 'mine');
    const refused = await bulk(['receipt', batch, '-o', 'r.json']);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('r.json already exists')]);
    expect(readFileSync(join(folder, 'r.json'), 'utf8')).toBe('mine');
    expect((await bulk(['receipt', batch, '-o', 'r.json', '--force'])).code).toBe(0);
    const own = await bulk(['receipt', batch, '-o', 'data/receipt.key', '--force']);
    expect([own.code, own.stderr]).toEqual([2, expect.stringContaining("is one of admin-mirror's own files")]);
    expect((await bulk(['receipt', 'nothing'])).stderr).toMatch(/there is no batch nothing/);
  });

  test.each([
    ['is open to others', 'chmod', /receipt\.key can be read by others, who could sign with it/],
    ['is gone', 'remove', /receipt\.pub exists, but the key that it belongs to .* does not/],
    ['is no key', 'spoil', /receipt\.key holds no Ed25519 key/],
    ['is another one', 'swap', /receipt\.pub is not the public key of/],
  ])('signs nothing if the key %s', async (_, what, problem) => {
    const { folder, bulk, batch } = await planned();
    await bulk(['receipt', batch]);
    const key = join(folder, 'data/receipt.key');
    if (what === 'chmod') chmodSync(key, 0o640);
    if (what === 'remove') rmSync(key);
    if (what === 'spoil') writeFileSync(key, 'mine');
    if (what === 'swap') {
      const other = await planned();
      await other.bulk(['receipt', other.batch]);
      copyFileSync(join(other.folder, 'data/receipt.pub'), join(folder, 'data/receipt.pub'));
    }
    const { code, stderr } = await bulk(['receipt', batch, '-o', 'r.json']);
    expect([code, stderr]).toEqual([2, expect.stringMatching(problem)]);
    expect(existsSync(join(folder, 'r.json'))).toBe(false);
  });

  test('and audit --check-receipt name the missing file', async () => {
    const folder = temporaryFolder();
    const run = (...argv: string[]) => invoke(['audit', ...argv], { folder });
    expect((await run('--check-receipt', 'r.json')).stderr).toMatch(/receipt\.pub: it does not exist/);
    expect((await run('--key', 'receipt.pub')).stderr).toMatch(/Name the receipt with --check-receipt/);
    const { folder: other, bulk, batch } = await planned();
    await bulk(['receipt', batch]);
    renameSync(join(other, 'data/receipt.pub'), join(folder, 'receipt.pub'));
    const missing = await run('--check-receipt', 'r.json', '--key', 'receipt.pub');
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringMatching(/could not read the receipt .*r\.json/)]);
  });

  test.each(receiptFormats)(
    'reads rows of the %s only as its bytes are taken, so that no batch is held in memory',
    async (format) => {
      const rows = 3_000;
      const { journal, file } = await newJournal();
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
      const { key } = openSigningKey(file);
      const pieces = receiptOf(counting, { batch: 'one' }, { format, key, clock: systemClock });
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

/** The document in the form of a receipt. */
function writtenOf({ receipt, rows, signature }: Receipt): string {
  const lines = rows.map((row) => canonical(row as unknown as Json)).join(',\n');
  const head = canonical(receipt as unknown as Json);
  return `{"receipt":${head},"rows":[\n${lines}\n],"signature":${canonical(signature)}}\n`;
}

/** Signs the document again with the private key. */
function resigned({ receipt, rows }: Receipt, key: string): string {
  const digest = createHash('sha256')
    .update(canonical({ receipt, rows } as unknown as Json))
    .digest('hex');
  const value = sign(null, Buffer.from(JSON.stringify({ receipt: digest })), key).toString('hex');
  return writtenOf({ receipt, rows, signature: { algorithm: 'Ed25519', value } });
}

type Place = readonly (string | number)[];

/** The paths of all scalar values. */
function fieldsOf(value: Json, way: Place = []): Place[] {
  if (value === null || typeof value !== 'object') return [way];
  const members = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return members.flatMap(([name, each]) => fieldsOf(each as Json, [...way, name]));
}

/** Replaces the value at the path. */
function alter(document: Receipt, place: Place, salt: number): void {
  let holder = document as unknown as Record<string | number, unknown>;
  for (const name of place.slice(0, -1)) holder = holder[name] as Record<string | number, unknown>;
  const last = place.at(-1) ?? '';
  const old = holder[last];
  if (typeof old === 'boolean') holder[last] = !old;
  else if (typeof old === 'number') holder[last] = old + 1 + (salt % 1_000);
  else if (old === null) holder[last] = salt % 2 === 0 ? salt : `${salt}`;
  else holder[last] = salt % 3 === 0 ? null : `${old as string}${salt}`;
}
