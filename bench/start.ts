/** How long the command takes to start, beside Node doing nothing. */
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { command, median } from './process.ts';
import type { Row } from './table.ts';

const tries = 15;
/** The second where there is no mirror: it loads all that it needs, and says so. */
const measured = [
  { args: ['--version'], goal: 1.3 },
  { args: ['status'], goal: 2.5 },
];

export function benchStart(): Row[] {
  return measured.map(({ args, goal }) => {
    const ours: number[] = [];
    const bare: number[] = [];
    // The first fills the cache of compiled code.
    millisecondsOf([command, ...args]);
    for (let attempt = 0; attempt < tries; attempt += 1) {
      ours.push(millisecondsOf([command, ...args]));
      bare.push(millisecondsOf(['-e', '0']));
    }
    const ratio = median(ours.map((each, index) => each / (bare[index] ?? 0)));
    return {
      what: `admin-mirror ${args.join(' ')} (floor: node -e 0)`,
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
