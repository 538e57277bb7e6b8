/** The cost of the change cursor for a first sync: processor time with and without numbering the rows of users. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { openMirrorFile } from '../src/store/open.ts';
import { measureCli, median } from './process.ts';
import { startBenchSandbox } from './sandbox.ts';
import type { Row } from './table.ts';

/** Keeps the column, which a statement fills in any case. */
const withoutNumbers = 'DROP INDEX users_seq; DROP TRIGGER users_renumbered';

/** Measures `pairs` pairs, with numbers and without in turn. */
export async function benchCursor(folder: string, users: number, pairs: number): Promise<Row[]> {
  const file = join(folder, 'cursor.db');
  const sandbox = await startBenchSandbox(users);
  async function cpuOf(prepare: string): Promise<number> {
    for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
    const mirror = openMirrorFile(file);
    mirror.exec(prepare);
    mirror.close();
    const { cpuSeconds } = await measureCli(['sync', 'users', '--quiet', '--db', file], sandbox.environment);
    return cpuSeconds;
  }
  const withNumbers: number[] = [];
  const without: number[] = [];
  try {
    for (let pair = 0; pair < pairs; pair += 1) {
      withNumbers.push(await cpuOf(''));
      without.push(await cpuOf(withoutNumbers));
    }
  } finally {
    sandbox.close();
  }
  const ratio = median(withNumbers) / median(without);
  return [
    {
      what: `processor time of the first sync with change numbers (floor: without), ${users.toLocaleString('en-US')} users`,
      floor: `${median(without).toFixed(1)} s`,
      ours: `${median(withNumbers).toFixed(1)} s`,
      ratio: `${ratio.toFixed(2)} ×`,
      goal: 'at most 1.05 ×',
      met: ratio <= 1.05,
    },
  ];
}
