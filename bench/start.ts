/** How long the command takes to start, beside Node doing nothing. */
import { measure, measureCli, median } from './process.ts';
import type { Row } from './table.ts';

const tries = 15;

export async function benchStart(): Promise<Row[]> {
  const ours: number[] = [];
  const bare: number[] = [];
  for (let attempt = 0; attempt < tries; attempt += 1) {
    ours.push((await measureCli(['--version'])).seconds);
    bare.push((await measure(process.execPath, ['-e', '0'])).seconds);
  }
  const ratio = median(ours.map((seconds, index) => seconds / (bare[index] ?? 0)));
  const text = (seconds: readonly number[]) => `${(median(seconds) * 1000).toFixed(0)} ms`;
  return [
    {
      what: 'admin-mirror --version (floor: node -e 0)',
      floor: text(bare),
      ours: text(ours),
      ratio: `${ratio.toFixed(2)} ×`,
      goal: 'at most 2 ×',
      met: ratio <= 2,
    },
  ];
}
