/** The memory and descriptors that a process uses, as Linux reports them. */
import { readdirSync, readFileSync } from 'node:fs';

/** Whether this system reports them. */
export const tellsSizes = process.platform === 'linux';

/** Memory in use, bytes. */
export function rssOf(pid: number): number {
  const [, kilobytes = ''] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1_024;
}

/**
 * The peak of its memory in use, bytes. `resourceUsage()` does not measure this: a process starts with the peak of its
 * parent.
 */
export function peakRssOf(pid: number): number {
  const [, kilobytes = ''] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1_024;
}

/** Open descriptors. */
export function descriptorsOf(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
