/** How long the command takes to start, compared with Node doing nothing: as installed, and in a clone. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { command, median } from './process.ts';
import type { Row } from './table.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const tries = 15;
/** The second runs without a mirror: it loads everything that it needs, and reports the missing mirror. */
const measured = [
  { args: ['--version'], goal: 1.3 },
  { args: ['status'], goal: 2.5 },
];

export function benchStart(folder: string): Row[] {
  return [...rowsOf(installedIn(folder), 'admin-mirror'), ...rowsOf(command, 'in a clone, admin-mirror')];
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
    const ours: number[] = [];
    const bare: number[] = [];
    // The first run fills the cache of compiled code.
    millisecondsOf([program, ...args]);
    for (let attempt = 0; attempt < tries; attempt += 1) {
      ours.push(millisecondsOf([program, ...args]));
      bare.push(millisecondsOf(['-e', '0']));
    }
    const ratio = median(ours.map((each, index) => each / (bare[index] ?? 0)));
    return {
      what: `${name} ${args.join(' ')} (floor: node -e 0)`,
      floor: `${median(bare).toFixed(0)} ms`,
      ours: `${median(ours).toFixed(0)} ms`,
      ratio: `${ratio.toFixed(2)} ×`,
      goal: `at most ${goal} ×`,
      met: ratio <= goal,
    };
  });
}

function millisecondsOf(args: readonly string[]): number {
  const startedAt = performance.now();
  spawnSync(process.execPath, args, { cwd: tmpdir(), stdio: 'ignore' });
  return performance.now() - startedAt;
}
