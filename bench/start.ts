/** The processor time of a start, compared with Node doing nothing: as installed, and in a clone. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { command, cpuOfEnded } from './process.ts';
import type { Row } from './table.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const tries = 20;
/** The second runs without a mirror: it loads everything that it needs, and reports the missing mirror. */
const measured = [
  { args: ['--version'], goal: 1.3 },
  { args: ['status'], goal: 2.7 },
];

export function benchStart(folder: string): Row[] {
  // The clone first, with the bundle of its set-up: the build of the package takes that bundle's place.
  spawnSync(process.execPath, [join(root, '.ci/set-up.mjs')], { stdio: 'inherit' });
  const inClone = rowsOf(command, 'in a clone, admin-mirror');
  return [...rowsOf(installedIn(folder), 'admin-mirror'), ...inClone];
}

/** The command as in the published package: its bundle, next to the packages that it loads. */
function installedIn(folder: string): string {
  spawnSync(process.execPath, [join(root, '.ci/build.mjs')], { stdio: 'inherit' });
  const place = join(folder, 'package');
  mkdirSync(join(place, 'src'), { recursive: true });
  for (const each of ['dist', 'package.json', 'src/admin-mirror.js'])
    cpSync(join(root, each), join(place, each), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(place, 'node_modules'));
  return join(place, 'src/admin-mirror.js');
}

function rowsOf(program: string, name: string): Row[] {
  return measured.map(({ args, goal }) => {
    // The first run fills the cache of compiled code.
    secondsOf([program, ...args]);
    // Sums, since the kernel tells the time of one run to a hundredth of a second only.
    let [ours, bare] = [0, 0];
    for (let attempt = 0; attempt < tries; attempt += 1) {
      ours += secondsOf([program, ...args]);
      bare += secondsOf(['-e', '0']);
    }
    const ratio = ours / bare;
    return {
      what: `${name} ${args.join(' ')} (floor: node -e 0), processor time`,
      floor: `${milliseconds(bare)} ms`,
      ours: `${milliseconds(ours)} ms`,
      ratio: `${ratio.toFixed(2)} ×`,
      goal: `at most ${goal} ×`,
      met: ratio <= goal,
    };
  });
}

/** A run's mean of all tries. */
function milliseconds(sum: number): string {
  return ((sum / tries) * 1_000).toFixed(0);
}

function secondsOf(args: readonly string[]): number {
  const before = cpuOfEnded();
  spawnSync(process.execPath, args, { cwd: tmpdir(), stdio: 'ignore' });
  return cpuOfEnded() - before;
}
