// @module-tag full
/** Three workers over twenty servers, killed at random for some minutes: only in `npm run soak`. */
import { randomInt } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { fleetOver, type Machine, startWorker } from '../support/fleet.ts';
import { invoke } from '../support/invoke.ts';
import { temporaryDatabase } from '../support/postgres.ts';
import { startSandbox } from '../support/sandbox.ts';

const seconds = Number(process.env['SOAK_FLEET'] ?? 0);
const servers = 20;
const everyMs = 60_000;

interface Run {
  readonly job: string;
  readonly occurrence: string;
  readonly outcome: string;
  readonly cause: string;
  readonly started_at: string;
  readonly finished_at: string;
}

/** Times between the first and the last recorded one that were not handled, and not caught up by a later run. */
function forgottenTimes(noted: readonly Run[]): string[] {
  const times = noted.map(({ occurrence }) => Date.parse(occurrence)).sort((a, b) => a - b);
  const last = times.at(-1) ?? 0;
  const due = Array.from({ length: (last - (times[0] ?? last)) / everyMs }, (_, at) => last - (at + 1) * everyMs);
  const forgotten = due.filter((time) => {
    // A run stands for the first time that was missed, and for all until it began; what comes while it runs is skipped.
    return !noted.some(
      ({ occurrence, finished_at }) =>
        Date.parse(occurrence) <= time && (finished_at === null || Date.parse(finished_at) >= time),
    );
  });
  return forgotten.map((time) => new Date(time).toISOString());
}

test.skipIf(seconds === 0)(
  `three workers over ${servers} servers, killed at random for ${seconds} s, run each time of a job once and keep every mirror equal`,
  { timeout: (seconds + 300) * 1_000 },
  async () => {
    const sandboxes = new Map<string, Sandbox>();
    for (let at = 1; at <= servers; at++) {
      sandboxes.set(`p${at}`, await startSandbox({ users: 30, emails: 20, now: Date.now() }));
    }
    const names = [...sandboxes.keys()];
    const database = await temporaryDatabase();
    const config = `store: {shared_lease: 15s}
jobs:
  - {name: sync, run: sync, timezone: UTC, cron: "0 * * * * *"}
  - {name: publish, run: publish, timezone: UTC, after: sync, cron: "0 * * * * *"}
profiles:
${names.map((name) => `  ${name}: {api: {base_url: "${sandboxes.get(name)?.url}", key_file: ${name}.key}}\n`).join('')}`;
    const { machine } = fleetOver(database, config);
    const machines: Machine[] = [machine(), machine(), machine()];
    for (const { folder } of machines) {
      for (const [name, { key }] of sandboxes) writeFileSync(join(folder, `${name}.key`), key, { mode: 0o600 });
    }
    const start = (at: Machine) => startWorker(at, '--all');
    const workers = machines.map(start);
    const all = [...workers];
    const started = (): { readonly at: number; readonly profile: string; readonly worker: (typeof all)[number] }[] =>
      all
        .flatMap((worker) =>
          worker.lines.flatMap(({ at, line }) =>
            line.msg === 'the worker has started' ? [{ at, profile: line.profile ?? '', worker }] : [],
          ),
        )
        .sort((a, b) => a.at - b.at);
    const ownerOf = (profile: string) => started().findLast((each) => each.profile === profile);
    await expect.poll(() => new Set(started().map(({ profile }) => profile)).size).toBe(servers);

    const end = Date.now() + seconds * 1_000;
    const kills: { readonly at: number; readonly profile: string }[] = [];
    while (Date.now() < end) {
      for (const { control } of sandboxes.values()) control.insert('users', { balance: 1 });
      const at = randomInt(machines.length);
      const worker = workers[at];
      const here = machines[at];
      if (worker === undefined || here === undefined) throw new Error('there are three');
      const owned = names.filter((name) => ownerOf(name)?.worker === worker);
      worker.child.kill(randomInt(4) === 0 ? 'SIGTERM' : 'SIGKILL');
      kills.push(...owned.map((profile) => ({ at: Date.now(), profile })));
      await worker.code;
      workers[at] = start(here);
      all.push(workers[at]);
      await wait(randomInt(10_000, 30_000));
    }

    // From here on nothing is killed or changed: after each server was read and published again, all must be equal.
    const quiet = Date.now();
    const saidSince = (msg: string, profile: string) =>
      all.some(({ lines }) => lines.some(({ at, line }) => at > quiet && line.profile === profile && line.msg === msg));
    const begun = (name: string) => saidSince('sync is complete', name) && saidSince('publish is complete', name);
    /** The log of the workers about servers that are not read and published again. */
    const late = () =>
      names
        .filter((name) => !begun(name))
        .flatMap((name) =>
          all.flatMap(({ lines }, worker) =>
            lines.flatMap(({ at, line }) =>
              line.profile === name && at > quiet - 60_000
                ? `${new Date(at).toISOString()} worker ${worker} ${name} ${line.msg}`
                : [],
            ),
          ),
        )
        .sort()
        .slice(-80);
    await expect.poll(late, { timeout: 240_000 }).toEqual([]);
    for (const name of names) {
      const { folder, environment } = ownerOf(name)?.worker.machine ?? machines[0] ?? { folder: '', environment: {} };
      const verified = await invoke(['verify', '--profile', name], { folder, environment });
      expect([name, verified.code, verified.stderr]).toEqual([name, 0, expect.anything()]);
    }
    for (const worker of workers) worker.child.kill('SIGTERM');
    await Promise.all(workers.map(({ code }) => code));

    let runs = 0;
    for (const name of names) {
      const { rows } = await database.query(
        `select job, occurrence, outcome, cause, started_at, finished_at from admin_mirror_store_${name}.worker_runs order by number`,
      );
      for (const [job, noted] of Map.groupBy(rows as Run[], (run) => run.job)) {
        // A time of publish that waits for its sync is handled by the next one, if that has come.
        const forgotten = job === 'sync' ? forgottenTimes(noted) : [];
        expect([name, job, forgotten]).toEqual([name, job, []]);
        const of = noted.filter(({ outcome }) => outcome !== 'skipped');
        const complete = of.filter(({ outcome }) => outcome === 'complete');
        runs += complete.length;
        const times = complete.map(({ occurrence }) => occurrence);
        expect([name, job, times]).toEqual([name, job, [...new Set(times)]]);
        // One run at a time, on any machine.
        for (const [at, run] of of.entries()) {
          expect([name, job, run.started_at >= (of[at - 1]?.finished_at ?? '')]).toEqual([name, job, true]);
        }
      }
    }
    const failovers = kills
      .flatMap(({ at, profile }) => {
        const next = started().find((each) => each.profile === profile && each.at > at);
        return next === undefined ? [] : [next.at - at];
      })
      .sort((a, b) => a - b);
    const [p50, max] = [failovers[failovers.length >> 1], failovers.at(-1)];
    process.stdout.write(
      `${JSON.stringify({ servers, seconds, kills: all.length - 3, failovers: failovers.length, p50, max, runs })}\n`,
    );
    expect(failovers.length).toBe(kills.length);
  },
);
