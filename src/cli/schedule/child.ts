/** Runs this very program as a process of its own, and ends it when it is told to. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { OperatorError } from '../../model/errors.ts';
import { secondMs } from '../../model/time.ts';

/** In a clone and in the package alike. */
const program = fileURLToPath(new URL('../../../src/admin-mirror.js', import.meta.url));

/** The worker itself ends within ten seconds. */
const usualPatienceMs = 9 * secondMs;

export interface ChildOptions {
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** `pipe`: the caller reads what it prints; `inherit`: it prints where this process does. */
  readonly output: 'pipe' | 'inherit';
  readonly signal: AbortSignal;
  /** How long it may take to stop in order, ms. */
  readonly patienceMs?: number;
}

/**
 * Starts `admin-mirror` with these arguments. Once the signal is aborted the process is told so by a signal of its own, and
 * ended when it has not stopped in time. Where this process is killed, it stops in order.
 */
export function startChild(
  argv: readonly string[],
  { folder, environment, output, signal, patienceMs = usualPatienceMs }: ChildOptions,
): ChildProcess {
  const child = spawn(process.execPath, [program, ...argv], {
    cwd: folder,
    env: environment,
    // The channel says nothing. It breaks when this process is killed, and the child stops by itself.
    stdio: ['ignore', output, output, 'ipc'],
    // In a process group of its own: Ctrl+C reaches it once, through us. A second signal would end it at once.
    detached: true,
  });
  let impatient: NodeJS.Timeout | undefined;
  const stop = (): void => {
    const { reason } = signal as { readonly reason: unknown };
    child.kill(reason instanceof OperatorError && reason.exitCode === 130 ? 'SIGINT' : 'SIGTERM');
    impatient = setTimeout(endGroup, patienceMs, child);
  };
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  endWithUs(child);
  const settle = (): void => {
    clearTimeout(impatient);
    signal.removeEventListener('abort', stop);
    children.delete(child);
    if (children.size === 0) process.off('exit', endAll);
  };
  child.once('close', settle).once('error', settle);
  return child;
}

/** Those that run now. */
const children = new Set<ChildProcess>();

function endAll(): void {
  for (const child of children) endGroup(child);
}

/** Whoever sends a second signal does not wait for anything. */
function endWithUs(child: ChildProcess): void {
  if (children.size === 0) process.on('exit', endAll);
  children.add(child);
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}
