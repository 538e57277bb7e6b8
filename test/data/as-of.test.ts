// @module-tag full
import { Buffer } from 'node:buffer';
import { describe, expect, onTestFinished, test } from 'vitest';
import { exportChunks } from '../../src/data/export.ts';
import type { ExportFormat } from '../../src/data/formats.ts';
import type { TableRequest } from '../../src/data/selection.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { dayMs, hourMs, timestampOf, type Timestamp } from '../../src/model/time.ts';
import { openReadingStore } from '../../src/data/reading.ts';
import { sync, type SyncTry } from '../support/mirror.ts';
import { mirrorFile } from '../support/mirror-file.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Exported {
  readonly text: string;
  readonly warnings: readonly string[];
}

async function exported(file: string, table: Partial<TableRequest>, format: ExportFormat = 'csv'): Promise<Exported> {
  const store = openReadingStore(file);
  const warnings: string[] = [];
  const parts: Uint8Array[] = [];
  try {
    const chunks = exportChunks(
      store,
      {
        what: { relation: 'users', meta: false, ...table },
        form: { format, raw: false, compression: null, bom: false },
      },
      {
        signal: new AbortController().signal,
        onRows: () => {},
        onWarning: (warning) => warnings.push(warning),
      },
    );
    for await (const part of chunks) parts.push(part);
  } finally {
    store.close();
  }
  return { text: Buffer.concat(parts).toString('utf8'), warnings };
}

/** A server and its mirror. An hour passes before each sync. */
async function mirrored(tried: SyncTry = {}) {
  const sandbox = await startSandbox({ now: sandboxNow });
  const file = `${temporaryFolder()}/mirror.db`;
  let now = sandboxNow;
  const again = async (more: SyncTry = {}): Promise<Timestamp> => {
    now += hourMs;
    sandbox.control.advanceClock(hourMs);
    await sync(sandbox, file, { clock: { now: () => now }, ...tried, ...more });
    return timestampOf(now);
  };
  return { control: sandbox.control, file, again };
}

describe('an export as of a time', () => {
  test('has the bytes of the export that was made then, in every format', async () => {
    const { control, file, again } = await mirrored();
    const formats = ['csv', 'tsv', 'jsonl'] as const;
    const takes: { readonly at: Timestamp; readonly texts: readonly string[] }[] = [];
    const take = async (): Promise<void> => {
      const at = await again();
      const texts: string[] = [];
      for (const format of formats) texts.push((await exported(file, { meta: true }, format)).text);
      takes.push({ at, texts });
    };
    await take();
    control.update('users', 5, { balance: 0.1 + 0.2, data: { big: 1, tags: ['a'] }, username: '007', points: 3 });
    control.remove('users', 9);
    await take();
    control.update('users', 5, { balance: 5, data: null, points: undefined });
    control.update('users', 6, { avatar: '{"a":1}', last_name: '', first_name: '=1+1' });
    control.insert('users', { id: 9, username: 'another.nine' });
    await take();
    control.remove('users', 5);
    await again();
    expect(new Set(takes.flatMap(({ texts }) => texts)).size).toBe(9);
    for (const { at, texts } of takes) {
      for (const [index, format] of formats.entries()) {
        const { text, warnings } = await exported(file, { meta: true, asOf: at }, format);
        expect(text).toBe(texts[index]);
        expect(warnings).toEqual([]);
      }
    }
  });

  test('takes columns, a condition and an order; other tables in the condition are as of that time, too', async () => {
    const { control, file, again } = await mirrored();
    const first = await again();
    const owner = Number(control.get('emails', 1)?.['user_id']);
    control.update('users', owner, { balance: 1_000_000 });
    control.remove('users', 9);
    control.remove('emails', 1);
    await again();
    const table = { columns: ['id'], order: 'id DESC', where: 'id IN (9, 8) AND users.balance < 1000000', asOf: first };
    expect((await exported(file, table)).text).toBe('id\n9\n8\n');
    const sent = { columns: ['id'], where: 'id = (SELECT user_id FROM emails WHERE id = 1)' };
    expect((await exported(file, sent)).text).toBe('id\n');
    expect((await exported(file, { ...sent, asOf: first })).text).toBe(`id\n${owner}\n`);
  });

  test('is refused for a time before the first sync, and names where the history begins', async () => {
    const { file, again } = await mirrored();
    const first = await again();
    await expect(exported(file, { asOf: timestampOf(sandboxNow) })).rejects.toMatchObject({
      exitCode: 2,
      message: `the history of users begins at ${first}, and ${timestampOf(sandboxNow)} lies before that`,
      advice: expect.stringContaining('history.keep'),
    });
  });

  test('is refused for a time with removed versions, but not for a later one', async () => {
    const { control, file, again } = await mirrored({ historyKeepMs: 90 * 60_000 });
    const first = await again();
    control.update('users', 5, { balance: 1 });
    const second = await again();
    const third = await again();
    await expect(exported(file, { asOf: first })).resolves.toMatchObject({ warnings: [] });
    await again();
    await expect(exported(file, { asOf: first })).rejects.toThrow(`the history of users begins at`);
    await expect(exported(file, { asOf: second })).rejects.toThrow(`the history of users begins at`);
    await expect(exported(file, { asOf: third })).resolves.toMatchObject({ warnings: [] });
    // No version of a coupon was removed.
    await expect(exported(file, { relation: 'coupons', asOf: first })).resolves.toMatchObject({ warnings: [] });
  });

  test('warns if the first sync had not read everything by then', async () => {
    const { file, again } = await mirrored();
    const stop = new AbortController();
    const during = await again({
      pageSize: 20,
      signal: stop.signal,
      onEvent: ({ kind, resource }) => {
        if (kind === 'page' && resource === 'users') stop.abort(new InterruptedError('SIGINT'));
      },
    });
    const after = await again();
    const { text, warnings } = await exported(file, { columns: ['id'], asOf: during });
    expect(text.trimEnd().split('\n').length).toBeLessThan(60);
    expect(warnings).toEqual([expect.stringContaining(`at ${during} the first sync had not read all users yet`)]);
    expect((await exported(file, { asOf: after })).warnings).toEqual([]);
  });

  test.each([
    ['mirror_runs', 'only users, packages, emails, coupons have a history, and mirror_runs has none'],
    ['users', 'the mirror has never read users'],
    ['usrs', 'no table or view "usrs"'],
  ])('is refused for %s, which has no earlier state', async (relation, message) => {
    await expect(exported(mirrorFile(), { relation, asOf: timestampOf(sandboxNow) })).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining(message),
    });
  });
});

test('a table as of a time is read in order of ids, without sorting', async () => {
  const file = mirrorFile();
  const store = openReadingStore(file);
  const snapshot = store.snapshot();
  onTestFinished(() => {
    snapshot.release();
    store.close();
  });
  const at = timestampOf(Date.now() - dayMs);
  const { withTablesAsOf } = await import('../../src/data/history.ts');
  const plan = snapshot.query(`EXPLAIN QUERY PLAN ${withTablesAsOf(at)} SELECT id, email FROM users ORDER BY id`);
  const steps = [...plan.batches(() => 100)].flat().map((row) => row.at(-1));
  expect(steps.slice(0, 3)).toEqual(['MERGE (UNION ALL)', 'LEFT', 'SCAN main.users']);
});
