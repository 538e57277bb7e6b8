/** CSV of a whole table compared with the sqlite3 shell on the same file in the same run. */
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { measure, measureCli, median, type Measured } from './process.ts';
import type { Row } from './table.ts';

/** Measures `pairs` pairs, ours and the shell's in turn, both writing a file. */
export async function benchCsv(folder: string, mirror: string, pairs: number): Promise<Row[]> {
  const ours: Measured[] = [];
  const shell: Measured[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    ours.push(await measureCli(['export', 'users', '--quiet', '--db', mirror, '-o', join(folder, 'ours.csv')]));
    const output = openSync(join(folder, 'shell.csv'), 'w');
    const columns = 'SELECT * FROM users ORDER BY id';
    shell.push(await measure('sqlite3', ['-readonly', '-csv', '-header', mirror, columns], {}, output));
    closeSync(output);
  }
  const ratio = median(ours.map(({ cpuSeconds }, index) => cpuSeconds / (shell[index]?.cpuSeconds ?? 0)));
  const peak = median(ours.map(({ peakMb }) => peakMb));
  const text = (tries: readonly Measured[]) => `${median(tries.map(({ cpuSeconds }) => cpuSeconds)).toFixed(1)} s`;
  return [
    {
      what: 'CSV of all users, processor time (floor: sqlite3 -csv -header)',
      floor: text(shell),
      ours: text(ours),
      ratio: `${ratio.toFixed(2)} ×`,
      goal: 'at most 1.4 ×',
      met: ratio <= 1.4,
    },
    {
      what: 'peak memory of the CSV export',
      floor: '',
      ours: `${peak.toFixed(0)} MB`,
      ratio: '',
      goal: 'at most 120 MB',
      met: peak <= 120,
    },
  ];
}
