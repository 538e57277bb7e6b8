/** What a process takes of the machine, as Linux tells it. */
import { readdirSync, readFileSync } from 'node:fs';

/** Whether this system tells it. */
export const tellsSizes = process.platform === 'linux';

/** Memory in use, bytes. */
export function rssOf(pid: number): number {
  const [, kilobytes = ''] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1_024;
}

/**
 * The most memory that it has had in use, bytes. `resourceUsage()` is no measure of this: a process begins with the peak of
 * the one that started it.
 */
export function peakRssOf(pid: number): number {
  const [, kilobytes = ''] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1_024;
}

/** Open descriptors. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
