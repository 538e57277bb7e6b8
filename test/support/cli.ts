/** Runs the command: in this process, which is quick, or in a child process, as a shell would. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { commandFile } from './command-file.ts';
import { invoke, type Invocation } from './invoke.ts';

export interface CliResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliOptions {
  /** The working folder; settings and relative paths start there. */
  readonly folder: string;
  /** Added to PATH, HOME and the folder of compiled code; nothing else of the tests' own environment is passed on. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Written to standard input, which is then closed. */
  readonly input?: string;
}

/** Starts the command; the caller ends it and reads its streams. */
export function startCli(args: readonly string[], options: CliOptions): ChildProcessWithoutNullStreams {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '', TMPDIR } = process.env;
  const child = spawn(process.execPath, [commandFile, ...args], {
    cwd: options.folder,
    env: { PATH, HOME, NODE_COMPILE_CACHE, ...(TMPDIR === undefined ? {} : { TMPDIR }), ...options.environment },
  });
  // A command may end before it has read its input.
  child.stdin.on('error', () => {});
  return child;
}

/** Runs the command to its end in this process: everything except `main.ts`. */
export function runCli(
  args: readonly string[],
  options: CliOptions & Pick<Invocation, 'constants'>,
): Promise<CliResult> {
  const { PATH = '', HOME = '' } = process.env;
  return invoke(args, { ...options, environment: { PATH, HOME, ...options.environment } });
}

/** Runs the command to its end in a child process, for what only a process can show. */
export async function spawnCli(args: readonly string[], options: CliOptions): Promise<CliResult> {
  const child = startCli(args, options);
  child.stdin.end(options.input ?? '');
  return finished(child);
}

/** The output of the command, after it has ended. */
export function finished(child: ChildProcessWithoutNullStreams): Promise<CliResult> {
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
}
