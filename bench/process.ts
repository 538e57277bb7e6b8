/** Runs a command as a whole process and measures it from outside. */
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));
export const command = `${root}src/admin-mirror.js`;

export interface Measured {
  readonly seconds: number;
  /** The largest resident set, MB, of the process itself without its children. */
  readonly peakMb: number;
  /** The processor time of the process, its threads and the children that it waited for: user and system. */
  readonly cpuSeconds: number;
  readonly stdout: string;
}

/** The largest resident set so far, as the kernel reports it. */
export function peakOf(pid: number): number {
  try {
    const line = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return Number(line?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

const ticksASecond = 100;

/** The processor time of a running process so far, user and system. */
export function cpuOf(pid: number): number {
  return cpuTimes(pid).own;
}

/** The processor time of all children of this process that have ended. */
export function cpuOfEnded(): number {
  return cpuTimes('self').ended;
}

/** Seconds of processor time: of the process itself, and of its children that have ended. */
function cpuTimes(pid: number | 'self'): { own: number; ended: number } {
  try {
    // The other fields follow the name in brackets, which may contain anything.
    const ticks = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
      .slice(11, 15)
      .map(Number);
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = ticks;
    return { own: (user + system) / ticksASecond, ended: (endedUser + endedSystem) / ticksASecond };
  } catch {
    return { own: 0, ended: 0 };
  }
}

const pollMs = 20;

/** Runs the program to its end; nothing else that this process started may end meanwhile. Throws if it fails, with its output. */
export function measure(
  program: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  outputTo: 'pipe' | 'ignore' | number = 'pipe',
): Promise<Measured> {
  const startedAt = performance.now();
  const before = cpuOfEnded();
  const child: ChildProcess = spawn(program, args, {
    env: { ...process.env, ...environment },
    stdio: ['ignore', outputTo, 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  let peakMb = 0;
  child.stdout?.on('data', (text: Buffer) => (stdout += text.toString()));
  child.stderr?.on('data', (text: Buffer) => (stderr += text.toString()));
  const poll = setInterval(() => {
    peakMb = Math.max(peakMb, peakOf(child.pid ?? 0));
  }, pollMs);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      clearInterval(poll);
      const seconds = (performance.now() - startedAt) / 1000;
      const cpuSeconds = cpuOfEnded() - before;
      if (code === 0) resolve({ seconds, peakMb, cpuSeconds, stdout });
      else reject(new Error(`${program} ${args.join(' ')} ended with ${code}:\n${stderr}`));
    });
  });
}

/** The command as a clone runs it. */
export function measureCli(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  outputTo: 'pipe' | 'ignore' | number = 'pipe',
): Promise<Measured> {
  return measure(process.execPath, [command, ...args], environment, outputTo);
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
