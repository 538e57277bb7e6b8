/** A certificate of a large mirror, written and checked. No other program does the same, so there is no floor. */
import { join } from 'node:path';
import { measureCli, median } from './process.ts';
import type { Row } from './table.ts';

const goal = 10;

/** Certifies the users of the mirror, and checks the certificate `pairs` times. */
export async function benchCertify(folder: string, mirror: string, pairs: number): Promise<Row[]> {
  const files = ['--db', mirror, '--journal', join(folder, 'certify.journal.db')];
  const certificate = join(folder, 'certificate.json');
  const written = await measureCli(['certify', 'users', '-o', certificate, '--quiet', ...files], {});
  const checks: number[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    checks.push((await measureCli(['certify', '--check', certificate, '--quiet', ...files], {})).cpuSeconds);
  }
  const seconds = median(checks);
  return [
    {
      what: 'certify of all users, then certify --check',
      floor: '',
      ours: `${written.cpuSeconds.toFixed(1)} s, then ${seconds.toFixed(1)} s of the processor`,
      ratio: '',
      goal: `at most ${goal} s each`,
      met: seconds <= goal && written.cpuSeconds <= goal,
    },
  ];
}
