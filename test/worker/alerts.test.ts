import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { FileError, LockHeldError } from '../../src/model/errors.ts';
import { dayMs, minuteMs, secondMs, timestampOf } from '../../src/model/time.ts';
import { runAlertCommand, sendRequest } from '../../src/worker/channels.ts';
import { silentLog } from '../../src/model/log.ts';
import type { AlertPayload } from '../../src/worker/alerts.ts';
import { SecretAddress } from '../../src/model/secret.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';
import { openReceiver, type Receiver } from '../support/receiver.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { startWatch, type WatchTry } from '../support/watched.ts';
import { soonMs } from '../support/part.ts';

async function receiving(): Promise<Receiver> {
  const receiver = await openReceiver();
  onTestFinished(() => receiver.close());
  return receiver;
}

async function alerting(more: WatchTry = {}) {
  const receiver = await receiving();
  return { receiver, ...(await startWatch({ webhook: `${receiver.url}/hook/hidden-token`, ...more })) };
}

describe('a webhook', () => {
  // proves: alert-once
  test('is sent each problem once, again after a day, and its end once, as JSON, over any number of checks and restarts', async () => {
    const { receiver, end, look, restart, pass } = await alerting();
    await end('failed', 1);
    for (let starts = 0; starts < 3; starts += 1) {
      await look();
      await restart();
      await look();
    }
    pass(dayMs - minuteMs);
    await look();
    expect(receiver.told()).toEqual(['job_failed:sync']);
    pass(minuteMs);
    await end('interrupted', 143);
    await restart();
    await look();
    await end('complete', 0);
    await restart();
    await look();
    expect(receiver.told()).toEqual(['job_failed:sync', 'job_failed:sync', 'over job_failed:sync']);
    expect(receiver.taken[0]).toMatchObject({ method: 'POST', path: '/hook/hidden-token' });
    expect(receiver.taken[0]?.headers).toMatchObject({
      'content-type': 'application/json',
      'user-agent': 'admin-mirror/1.2.3',
    });
    const [first, again, last] = receiver.alerts();
    expect(first?.next).toMatch(/^Next: read the log/);
    expect(first?.text).toMatch(/^sync ended with exit code 1: a bug.*\. Next: read the log.* \[admin-mirror on /);
    expect(again).toMatchObject({ since: first?.since, facts: { outcome: 'interrupted' }, resolved: false });
    expect(first).toMatchObject({
      problem: 'job_failed:sync',
      code: 'job_failed',
      facts: { job: 'sync', outcome: 'failed', exit_code: 1 },
      resolved: false,
      since: '2026-03-11T10:00:00.000000Z',
      version: '1.2.3',
      profile: null,
      journal_head: null,
    });
    expect(last).toMatchObject({ resolved: true, next: null, since: first?.since, at: '2026-03-12T10:00:00.000000Z' });
    expect(last?.id).not.toBe(first?.id);
  });

  test('gets the newest step of the journal with each alert', async () => {
    const files = temporaryFolder();
    const { receiver, end, pass } = await alerting({ files, maxStalenessMs: 1 });
    const { journal } = await newJournal(undefined, `${files}/journal.db`);
    await journal.addBatch(newBatch(), [newIntent(2, 7)]);
    await journal.claim('one', { repeatsSince: timestampOf(0), daySince: timestampOf(0) }, () => []);
    await journal.move({ batch: 'one', row: 2, from: 'planned', to: 'sending' });
    pass(minuteMs);
    await end('failed', 1);
    const head = await journal.head();
    expect(head?.hash).toMatch(/^[0-9a-f]{64}$/);
    const heads = receiver.alerts().map(({ problem, journal_head }) => [problem, journal_head]);
    expect(heads).toEqual([
      ['batch_unknown:one', head],
      ['stale', head],
      ['job_failed:sync', head],
    ]);
  });

  test('that failed gets each alert once when it works again, from whichever worker runs then', async () => {
    const { receiver, end, look, restart, pass, lines } = await alerting();
    receiver.answer = 500;
    await end('failed', 1);
    for (const minutes of [0, 1, 5]) {
      pass(minutes * minuteMs);
      await look();
    }
    const tries = receiver.taken.length;
    expect(tries).toBe(3);
    receiver.answer = 200;
    await restart();
    await look();
    receiver.answer = 500;
    await end('complete', 0);
    receiver.answer = 200;
    await restart();
    await look();
    await restart();
    await look();
    expect(receiver.told()).toEqual(['job_failed:sync', 'over job_failed:sync']);
    // Whoever got it although the response was lost knows it by its id.
    const ids = receiver.alerts().map(({ id }) => id);
    expect([new Set(ids.slice(0, tries + 1)).size, new Set(ids).size]).toEqual([1, 2]);
    expect(lines.join('\n')).toContain('responded with 500');
    expect(lines.join('\n')).not.toContain('hidden-token');
  });

  test('that fails is not told of a problem that is over by then', async () => {
    const { receiver, end, look, pass } = await alerting();
    receiver.answer = 'reset';
    await end('failed', 1);
    await end('complete', 0);
    receiver.answer = 200;
    pass(dayMs);
    await look();
    expect(receiver.told()).toEqual([]);
  });

  test('is not followed to a redirect, and not retried at once', async () => {
    const { receiver, end, look } = await alerting();
    receiver.answer = 302;
    await end('failed', 1);
    await look();
    await look();
    expect(receiver.taken.map(({ path }) => path)).toEqual(['/hook/hidden-token']);
  });

  test('that hangs does not keep the worker from stopping', { tags: 'full' }, async () => {
    const { receiver, trouble, watch } = await alerting();
    receiver.answer = 'hang';
    trouble('the disk is full');
    const stop = new AbortController();
    const running = watch().run(stop.signal);
    await expect.poll(() => receiver.taken.length).toBe(1);
    const begin = performance.now();
    stop.abort();
    await running;
    expect(performance.now() - begin).toBeLessThan(soonMs);
  });

  test('is named in errors by its host alone, if nothing listens there', async () => {
    const receiver = await receiving();
    const { url } = receiver;
    await receiver.close();
    const sent = sendRequest(
      new SecretAddress(`${url}/hidden`),
      { method: 'GET', userAgent: 'x' },
      AbortSignal.timeout(9_000),
    );
    const error = await sent.catch((thrown: unknown) => thrown as Error);
    expect(String(error)).toBe(`Error: ${new URL(url).host} could not be reached (ECONNREFUSED)`);
    expect((error as Error).cause).toBeUndefined();
  });
});

test('a problem that cannot be stored is reported once all the same, and stored when possible', async () => {
  let isFull = true;
  const saved: number[] = [];
  const store = {
    scheduler: () => Promise.resolve(undefined),
    alerts: () => Promise.resolve([]),
    progress: () => Promise.resolve(new Map()),
    runs: () => Promise.resolve([]),
    saveAlerts: (alerts: readonly unknown[]) => {
      if (isFull) return Promise.reject(new FileError('could not write: the disk is full'));
      saved.push(alerts.length);
      return Promise.resolve();
    },
  };
  const { receiver, trouble, look } = await alerting({ store });
  trouble('could not write: the disk is full');
  await look();
  await look();
  expect(receiver.told()).toEqual(['worker_file']);
  isFull = false;
  trouble(null);
  await look();
  expect(receiver.told()).toEqual(['worker_file', 'over worker_file']);
  expect(saved.length).toBeGreaterThan(0);
});

test('a worker that was replaced reports nothing', async () => {
  const store = {
    scheduler: () => Promise.resolve(undefined),
    alerts: () => Promise.resolve([]),
    progress: () => Promise.resolve(new Map()),
    runs: () => Promise.resolve([]),
    saveAlerts: () => Promise.reject(new LockHeldError('the lock of the schedule was lost')),
  };
  const { receiver, trouble, look } = await alerting({ store });
  trouble('could not write: the disk is full');
  await look();
  expect(receiver.told()).toEqual([]);
});

describe('a command', () => {
  const payload = {
    id: 'i1',
    problem: 'job_failed:sync',
    code: 'job_failed',
    resolved: false,
    text: '$(touch x) `touch x`',
  } as const;
  const whole = { ...payload, facts: {} } as AlertPayload;

  function script(text: string) {
    const folder = temporaryFolder();
    writeFileSync(`${folder}/page`, `#!/bin/sh\n${text}\n`);
    chmodSync(`${folder}/page`, 0o700);
    return { folder, environment: { PATH: process.env['PATH'] }, log: silentLog };
  }

  const signal = new AbortController().signal;

  test('gets the alert on its standard input and in its environment, and no shell evaluates any of it', async () => {
    const ports = script('cat > got; echo "$1 $ALERT_CODE $ALERT_RESOLVED $ALERT_TEXT" > said');
    await runAlertCommand(['./page', 'night shift $HOME'], whole, ports, signal);
    expect(JSON.parse(readFileSync(`${ports.folder}/got`, 'utf8'))).toEqual(whole);
    expect(readFileSync(`${ports.folder}/said`, 'utf8')).toBe(`night shift $HOME job_failed 0 ${whole.text}\n`);
    expect(existsSync(`${ports.folder}/x`)).toBe(false);
  });

  test.each([
    ['ends with 3', 'exit 3', 'the alert command ended with 3'],
    ['takes too long is killed and', 'sleep 60', 'took longer than 0.3 s'],
  ])('that %s fails', async (_, text, words) => {
    const ports = { ...script(text), limitMs: 300 };
    await expect(runAlertCommand(['./page'], whole, ports, signal)).rejects.toThrow(words);
  });

  test('that leaves a child process behind does not block other alerts', async () => {
    const ports = { ...script('setsid sleep 60 & echo $! > child; echo thanks'), limitMs: 300 };
    await expect(runAlertCommand(['./page'], whole, ports, signal)).resolves.toBeUndefined();
    process.kill(Number(readFileSync(`${ports.folder}/child`, 'utf8')));
  });

  test('that does not exist fails, and one that reads nothing does not', async () => {
    const ports = script('exit 0');
    await expect(runAlertCommand(['./none'], whole, ports, signal)).rejects.toThrow('./none could not be run (ENOENT)');
    await runAlertCommand(['./page'], { ...whole, text: 'x'.repeat(100_000) }, ports, signal);
  });

  test('is run once for each problem, with its output in the log', async () => {
    const { files, end, look, lines } = await startWatch({ command: ['sh', '-c', 'cat >> got; echo thanks'] });
    await end('partial', 5, { resources: { users: { status: 'partial' } } });
    await look();
    await end('complete', 0);
    const got = readFileSync(`${files}/got`, 'utf8').trim().split('\n');
    expect(got.map((line) => (JSON.parse(line) as AlertPayload).text.split(' [')[0])).toEqual([
      'sync ended with exit code 5: finished, but a part failed (users partial). Next: `admin-mirror status` shows which part and why; then run `admin-mirror sync`',
      'over: sync ended with exit code 5: finished, but a part failed (users partial)',
    ]);
    expect(lines.join('\n')).toContain('the alert command printed: thanks');
  });
});

describe('the ping', () => {
  test('is sent after each complete sync, and after no other', async () => {
    const receiver = await receiving();
    const { end } = await startWatch({ ping: `${receiver.url}/ping/hidden` });
    for (const outcome of ['complete', 'partial', 'failed', 'complete'] as const) await end(outcome, 0);
    expect(receiver.taken.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'GET /ping/hidden',
      'GET /ping/hidden',
    ]);
  });

  test('is retried four times, and its failure fails nothing', async () => {
    const receiver = await receiving();
    receiver.answer = 503;
    const pauses: number[] = [];
    const sleep = (ms: number) => {
      pauses.push(ms);
      return Promise.resolve();
    };
    const { end, lines } = await startWatch({ ping: `${receiver.url}/ping/hidden`, sleep });
    await end('complete', 0);
    expect(receiver.taken).toHaveLength(5);
    expect(pauses).toEqual([5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs]);
    expect(lines.join('\n')).not.toContain('hidden');
  });
});
