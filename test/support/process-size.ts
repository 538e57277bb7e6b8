/** What a process takes of the machine, as Linux tells it. */
import { readdirSync, readFileSync } from 'node:fs';

/** Whether this system tells it. */
export const tellsSizes = process.platform === 'linux';

/** Memory in use, bytes. */
export function rssOf(pid: number): number {
  const [, kilobytes = ''] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1_024;
}

/** Open descriptors. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Processor time that it has taken so far, seconds. */
export function processorSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name before may hold blanks. Linux counts in hundredths of a second, whatever its own clock does.
  const [user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
    .map(Number);
  return (user + system) / 100;
}
