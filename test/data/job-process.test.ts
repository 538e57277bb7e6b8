import { readFileSync } from 'node:fs';
import { Buffer } from 'node:buffer';
import { platform } from 'node:process';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { JobProcess, type JobRun } from '../../src/data/job-process.ts';
import type { ReadingJob } from '../../src/data/reading-child.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { finished, startCli } from '../support/cli.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { soonMs } from '../support/part.ts';

const n = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)';
/** Never yields a row, and never ends. */
const silent = `${n} SELECT count(*) FROM n`;
/** Reads rows of the mirror forever, before it yields the first. */
const reading = `${n} SELECT count(*) FROM n, users`;

function startReading(): JobProcess {
  const reading = new JobProcess();
  onTestFinished(() => reading.close());
  return reading;
}

function users(count: number): string {
  return mirrorFile((database) => insertRows(database, 'users', madeUpUsers(count)));
}

const { signal } = new AbortController();

async function textOf(file: string, job: ReadingJob, run: Partial<JobRun> = {}): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of startReading().chunks(file, job, { signal, ...run })) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function query(sql: string): ReadingJob {
  return {
    kind: 'export',
    request: { what: { sql }, form: { format: 'csv', raw: false, compression: null, bom: false } },
  };
}

describe('the reading process', () => {
  test('returns the whole result, however long', { tags: 'full' }, async () => {
    const text = await textOf(users(1), query(`${n} SELECT x FROM n LIMIT 200000`));
    expect(text.split('\n').length).toBe(200_002);
    expect(text.endsWith('\n200000\n')).toBe(true);
  });

  test('writes exports, counts their rows and passes warnings on', { tags: 'full' }, async () => {
    const file = mirrorFile((database) => {
      insertRows(database, 'users', madeUpUsers(3));
      database.exec("INSERT INTO mirror_history VALUES ('users', '2020-01-01T00:00:00.000000Z')");
    });
    let rows = 0;
    const warnings: string[] = [];
    const text = await textOf(
      file,
      {
        kind: 'export',
        request: {
          what: { relation: 'users', columns: ['id'], meta: false, asOf: '2026-06-01T00:00:00.000000Z' as never },
          form: { format: 'csv', raw: false, compression: null, bom: false },
        },
      },
      { onRows: (more) => (rows += more), onWarning: (warning) => void warnings.push(warning) },
    );
    expect({ text, rows, warnings }).toEqual({
      text: 'id\n1\n2\n3\n',
      rows: 3,
      warnings: [expect.stringContaining('users')],
    });
  });

  test('reports an SQL error as if it ran in this process', async () => {
    await expect(textOf(users(1), query('SELECT usrname FROM users'))).rejects.toMatchObject({
      message: 'SQLite refused the SQL: no such column: usrname',
      advice: 'Did you mean "username"?',
      exitCode: 2,
    });
  });

  test('can be stopped within a statement', async () => {
    const stop = new AbortController();
    const chunks = startReading().chunks(users(1), query(silent), { signal: stop.signal });
    // The header comes before the statement starts.
    await chunks.next();
    const next = chunks.next();
    const stopped = performance.now();
    stop.abort(new InterruptedError('SIGINT'));
    await expect(next).rejects.toMatchObject({ exitCode: 130 });
    expect(performance.now() - stopped).toBeLessThan(soonMs);
  });

  test('is stopped by its timeout, but not earlier', async () => {
    await expect(textOf(users(1), query(silent), { timeoutMs: 300 })).rejects.toMatchObject({
      message: expect.stringContaining('300ms'),
      exitCode: 2,
    });
    expect(await textOf(users(1), query('SELECT 1 AS a'), { timeoutMs: 60_000 })).toBe('a\n1\n');
  });

  test('does not count the time in which nobody takes the rows', { tags: 'full' }, async () => {
    const timeoutMs = 3_000;
    const chunks = startReading().chunks(users(1), query(`${n} SELECT x FROM n LIMIT 200000`), { signal, timeoutMs });
    await chunks.next();
    await setTimeout(timeoutMs + 500);
    let bytes = 0;
    for await (const chunk of chunks) bytes += chunk.length;
    expect(bytes).toBeGreaterThan(1_000_000);
  });

  test('leaves the mirror intact when it is killed, so that it can be written and checkpointed', async () => {
    const file = users(500);
    const writer = openMirrorFile(file);
    onTestFinished(() => void writer.close());
    writer.exec("UPDATE users SET status = 'gone' WHERE id < 100");
    await expect(textOf(file, query(reading), { timeoutMs: 400 })).rejects.toMatchObject({ exitCode: 2 });
    writer.exec("UPDATE users SET status = 'back' WHERE id < 100");
    // `busy` is 0 if no reader holds the log back any more.
    expect(writer.pragma('wal_checkpoint(TRUNCATE)')).toEqual([expect.objectContaining({ busy: 0, log: 0 })]);
    expect(writer.pragma('integrity_check', { simple: true })).toBe('ok');
    expect(writer.prepare("SELECT count(*) FROM users WHERE status = 'back'").pluck().get()).toBe(99);
  });

  test.skipIf(platform !== 'linux')(
    'ends with the command that started it, even after kill -9 (Linux: /proc)',
    { tags: 'full' },
    async () => {
      const child = startCli(['query', silent, '--db', users(1)], { folder: temporaryFolder() });
      const ended = finished(child);
      const started = await until(() => processesUnder(child.pid ?? 0)[0]);
      child.kill('SIGKILL');
      await ended;
      await until(() => (isRunning(started) ? undefined : true));
      expect(isRunning(started)).toBe(false);
    },
  );
});

function processesUnder(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return text.split(' ').filter(Boolean).map(Number);
}

function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** Polls until there is a result; the timeout of the test ends it. */
async function until<T>(look: () => T | undefined): Promise<T> {
  for (;;) {
    const found = look();
    if (found !== undefined) return found;
    await setTimeout(20);
  }
}
