/** Runs the command in this process, with or without a terminal. */
import { PassThrough } from 'node:stream';
import type { CommandRow } from '../../src/cli/commands.ts';
import type { CliWorld, GivenByParent } from '../../src/cli/context.ts';
import { run } from '../../src/cli/program.ts';
import type { CommandCall } from '../../src/model/job.ts';
import { dialogue, type Exchange } from './dialogue.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface Invocation {
  /** The columns of the terminal, if there is one. */
  readonly terminal?: number;
  /** The input typed, or written to standard input. */
  readonly input?: string;
  /** The answers typed when a question appears; only on a terminal. */
  readonly answers?: readonly Exchange[];
  readonly environment?: Readonly<Record<string, string>>;
  /** The working folder; a new one by default. */
  readonly folder?: string;
  /** What a child gets from its parent, which has read its settings. */
  readonly given?: GivenByParent;
  /** In the place of constants of the settings. */
  readonly constants?: CliWorld['constants'];
  /** Stops it. */
  readonly signal?: AbortSignal;
  /** Replaces the commands of the program. */
  readonly commands?: readonly CommandRow[];
}

function output(terminal: number | undefined) {
  const stream = Object.assign(new PassThrough(), { isTTY: terminal !== undefined, columns: terminal, rows: 40 });
  let text = '';
  stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  return { stream: stream as unknown as NodeJS.WriteStream, text: () => text };
}

/** The exit code and what was printed. */
export async function invoke(argv: readonly string[] | CommandCall, options: Invocation = {}) {
  const stdout = output(options.terminal);
  const stderr = output(options.terminal);
  const stdin = Object.assign(new PassThrough(), { isTTY: options.terminal !== undefined, setRawMode: () => stdin });
  const typed = options.input ?? '';
  const listen = dialogue(options.answers ?? [], (keys) => void stdin.write(keys));
  if (options.terminal !== undefined) stderr.stream.on('data', (text: string) => listen(text));
  if (options.terminal === undefined) stdin.end(typed);
  else setTimeout(() => void stdin.write(typed), 50);
  const world = {
    stdout: stdout.stream,
    stderr: stderr.stream,
    stdin: () => stdin as unknown as NodeJS.ReadStream,
    signal: options.signal ?? new AbortController().signal,
    // A real sleep would only take longer.
    sleep: () => Promise.resolve(),
    environment: options.environment ?? {},
    folder: options.folder ?? temporaryFolder(),
    ...(options.given !== undefined && { given: options.given }),
    ...(options.constants !== undefined && { constants: options.constants }),
  };
  const code = await run(argv, world, options.commands);
  await new Promise((resolve) => setImmediate(resolve));
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}
