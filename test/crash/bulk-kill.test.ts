/** Kills the process at every step of the journal and every socket event, under every fault, and then resumes. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pLimit from 'p-limit';
import { describe, expect, test } from 'vitest';
import type { Behaviour, Fault, Sandbox } from '../support/bent/sandbox.ts';
import { openJournal } from '../support/journal-file.ts';
import { anna } from '../support/journal.ts';
import { openBulkClient, newUser, plan, send, sheetOf } from '../support/bulk.ts';
import { expectAccounted } from '../support/bulk-invariants.ts';
import { bundleOf } from '../support/command-file.ts';
import { startSandbox } from '../support/sandbox.ts';
import type { ChildTask } from './bulk-child.ts';
import { isSoak, sample } from '../support/part.ts';

const childFile = bundleOf(fileURLToPath(new URL('bulk-child.ts', import.meta.url)));

/** The next process sees what a killed one wrote even without a disk, so there is no need to wait for one. */
const memory = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** Runs the child; returns the names of its moments, or null if it was killed. */
async function runChild(task: ChildTask): Promise<string[] | null> {
  const child = spawn(process.execPath, [await childFile, JSON.stringify(task)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (text: Buffer) => (out += text.toString()));
  child.stderr.on('data', (text: Buffer) => (err += text.toString()));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  if (signal === 'SIGKILL') return null;
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return JSON.parse(out) as string[];
}

interface Scenario {
  readonly name: string;
  /** The fault of the first write. */
  readonly fault?: Fault;
  readonly behaviour?: Partial<Behaviour>;
  /** Rows, each for a new user; one by default. */
  readonly rows?: number;
  /** The process that resumes is killed at an early moment, too. */
  readonly twice?: true;
}

const scenarios: readonly Scenario[] = [
  { name: 'nothing goes wrong', rows: 2 },
  { name: 'the connection is dropped before the request is read', fault: 'reset_before' },
  { name: 'the connection is dropped before the commit', fault: 'hang' },
  { name: 'the connection is dropped after the commit', fault: 'commit_reset', twice: true },
  { name: 'the write is made, then answered with 500', fault: 'commit_500' },
  { name: 'the write is made, then answered as refused', fault: 'commit_refused' },
  { name: 'the write is made, then its answer is cut short', fault: 'commit_truncated' },
  { name: 'the write is made after the client has given up', fault: 'commit_late' },
  { name: 'the write is made and never answered', fault: 'commit_hang' },
  { name: 'a proxy makes the write twice', fault: 'commit_twice' },
  {
    name: 'a proxy makes the write twice, and tokens are cut off',
    fault: 'commit_twice',
    behaviour: { description_max: 9 },
  },
  { name: 'the server asks to come back later', fault: 'too_many', behaviour: { retry_after_seconds: 0 } },
  { name: 'tokens are cut off, and the answer is lost', fault: 'commit_reset', behaviour: { description_max: 9 } },
  {
    name: 'transactions are hidden, and the answer is lost',
    fault: 'commit_reset',
    behaviour: { transactions: 'hidden' },
  },
  {
    name: 'transactions come late, and the answer is lost',
    fault: 'commit_500',
    behaviour: { transactions_delay: 60 },
  },
];

/** One batch for new users, killed at one moment and resumed until nothing more can be learned. */
async function killAndResume(sandbox: Sandbox, scenario: Scenario, killAt: number): Promise<string[] | null> {
  const folder = mkdtempSync(join(memory, 'admin-mirror-kill-'));
  const file = join(folder, 'journal.db');
  const journal = await openJournal(file, anna);
  const client = openBulkClient(sandbox);
  const label = `${scenario.name}, killed at moment ${killAt}`;
  try {
    const users = Array.from({ length: scenario.rows ?? 1 }, () => newUser(sandbox, 100));
    const { batch } = await plan(
      journal,
      client,
      sheetOf(users.map((user) => [user, 'add', '12.50', `Credit ${user}`])),
    );
    if (scenario.fault !== undefined) {
      const match = { method: 'PUT' as const, path: `/users/${users[0]}/` };
      sandbox.control.faultNext({ fault: scenario.fault, match });
    }
    const task = { url: sandbox.url, key: sandbox.key, journal: file, batch, killAt, settleAfterMs: 600_000 };
    const moments = await runChild(task);
    if (scenario.twice === true && killAt > 0) await runChild({ ...task, killAt: (killAt % 12) + 1 });
    await expectAccounted(sandbox, journal, batch, await send(journal, client, batch), `${label}, resumed`);
    // Every pending write has been made or never will be; from now on everything is shown.
    sandbox.control.commitLate();
    sandbox.control.advanceClock(120_000);
    const settled = await send(journal, client, batch, { settleAfterMs: 0 });
    await expectAccounted(sandbox, journal, batch, settled, `${label}, settled`);
    const again = await send(journal, client, batch, { settleAfterMs: 0 });
    await expectAccounted(sandbox, journal, batch, again, `${label}, settled again`);
    return moments;
  } finally {
    await client.close();
    await journal.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** As many as a small machine can run at once. */
const atOnce = 2;

describe('a batch whose process is killed at any moment', () => {
  // proves: killed-batch
  test.each(sample(scenarios, 1))('is accounted for if $name', { timeout: 120_000 }, async (scenario) => {
    const sandbox = await startSandbox({
      users: 5,
      emails: 5,
      behaviour: { late_commit_ms: 60_000, ...scenario.behaviour },
    });
    const moments = await killAndResume(sandbox, scenario, 0);
    if (moments === null) throw new Error('it was killed although it should live');
    // Moments before the first row is sent are the same in all scenarios.
    const first = scenario.fault === undefined ? 1 : moments.indexOf('before move') + 1;
    expect(first).toBeGreaterThan(0);
    const limit = pLimit(atOnce);
    const all = [...moments.keys(), moments.length].slice(first);
    // Every fourth moment, with the last one; in the soak all.
    const points = sample(isSoak ? all : all.filter((_, at) => (all.length - 1 - at) % 4 === 0), 4);
    const ends = await Promise.all(points.map((at) => limit(() => killAndResume(sandbox, scenario, at))));
    // The number of requests differs from run to run: a process without such a moment survived.
    for (const [index, end] of ends.entries()) expect(end?.length ?? 0).toBeLessThan(points[index] ?? 0);
    expect(ends).toContain(null);
  });
});
