/** Every user in each format compared with its floor, by processor time, and the memory of each. */
import { closeSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { measure, measureCli, median, type Measured } from './process.ts';
import type { Row } from './table.ts';

const mostMb = 300;

/** JSON lines compared with the shell's JSON: a ratio. */
async function benchJsonLines(folder: string, mirror: string, pairs: number): Promise<Row[]> {
  const ours: Measured[] = [];
  const shell: Measured[] = [];
  const target = join(folder, 'shell.json');
  for (let pair = 0; pair < pairs; pair += 1) {
    ours.push(await exportOnce(folder, mirror, 'jsonl'));
    const output = openSync(target, 'w');
    shell.push(await measure('sqlite3', ['-readonly', '-json', mirror, 'SELECT * FROM users ORDER BY id'], {}, output));
    closeSync(output);
  }
  rmSync(target);
  const ratio = median(ours.map(({ cpuSeconds }, index) => cpuSeconds / (shell[index]?.cpuSeconds ?? 0)));
  return [
    {
      what: 'JSON lines of all users, processor time (floor: sqlite3 -json)',
      floor: seconds(shell),
      ours: seconds(ours),
      ratio: `${ratio.toFixed(2)} ×`,
      goal: 'at most 1.6 ×',
      met: ratio <= 1.6,
    },
    memoryRow('JSON lines', ours),
  ];
}

/** A format that no shell writes: a limit in seconds of processor time. */
async function benchFormat(
  folder: string,
  mirror: string,
  pairs: number,
  { format, name, most }: { readonly format: string; readonly name: string; readonly most: number },
): Promise<Row[]> {
  const ours: Measured[] = [];
  for (let pair = 0; pair < pairs; pair += 1) ours.push(await exportOnce(folder, mirror, format));
  return [
    {
      what: `${name} of all users, processor time`,
      floor: '',
      ours: seconds(ours),
      ratio: '',
      goal: `at most ${most} s`,
      met: median(ours.map((each) => each.cpuSeconds)) <= most,
    },
    memoryRow(name, ours),
  ];
}

async function exportOnce(folder: string, mirror: string, format: string): Promise<Measured> {
  const target = join(folder, `ours.${format}`);
  const measured = await measureCli(['export', 'users', '--quiet', '--db', mirror, '-o', target]);
  rmSync(target);
  return measured;
}

function memoryRow(name: string, ours: readonly Measured[]): Row {
  const peak = median(ours.map(({ peakMb }) => peakMb));
  return {
    what: `peak memory of the ${name} export`,
    floor: '',
    ours: `${peak.toFixed(0)} MB`,
    ratio: '',
    goal: `at most ${mostMb} MB`,
    met: peak <= mostMb,
  };
}

function seconds(tries: readonly Measured[]): string {
  return `${median(tries.map((each) => each.cpuSeconds)).toFixed(1)} s`;
}

/** Measures each format `pairs` times; JSON lines in turn with the shell. */
export async function benchExportFormats(folder: string, mirror: string, pairs: number): Promise<Row[]> {
  return [
    ...(await benchJsonLines(folder, mirror, pairs)),
    ...(await benchFormat(folder, mirror, pairs, { format: 'parquet', name: 'Parquet', most: 10 })),
    ...(await benchFormat(folder, mirror, pairs, { format: 'xlsx', name: 'Excel', most: 40 })),
  ];
}
