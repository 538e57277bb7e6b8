/** Answers longer than the terminal go through a pager, as those of git and psql do. */
import { Buffer } from 'node:buffer';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { mayAccess } from '../model/access.ts';
import { writeToStream } from '../data/stream-output.ts';
import { width } from '../data/text-table.ts';
import { UsageError } from '../model/errors.ts';
import { withoutStyles } from '../model/terminal-text.ts';
import type { CliContext } from './context.ts';
import { sievedChunks } from './sieve.ts';

/** For every command that prints lists. */
export const pagerFlag = [
  '--no-pager',
  'print it all at once (default on a terminal: through $PAGER, else less)',
] as const;

/** Columns that a table is to fit in; undefined where nothing is to be cut: outside a terminal, and where a pager scrolls. */
export function tableRoom(context: CliContext, wanted: boolean): number | undefined {
  const { stdout } = context;
  return stdout.isTTY && pagerCommand(context, wanted) === undefined ? stdout.columns : undefined;
}

/**
 * Writes the chunks to standard output; where that is a terminal and they do not fit on it, through the pager. Leaving
 * the pager early ends the chunks, and is no error.
 */
export async function writePaged(
  context: CliContext,
  chunks: AsyncIterable<Uint8Array>,
  wanted: boolean,
): Promise<void> {
  const { stdout, signal } = context;
  const command = pagerCommand(context, wanted);
  if (command === undefined) return writeToStream(stdout, chunks, signal);
  const source = chunks[Symbol.asyncIterator]();
  try {
    const held: Uint8Array[] = [];
    for (;;) {
      const next = await source.next();
      if (next.done === true) break;
      held.push(next.value);
      if (fits(held, stdout)) continue;
      return await throughPager(context, command, chain(held, source));
    }
    await writeToStream(stdout, chain(held, source), signal);
  } finally {
    await source.return?.();
  }
}

async function* chain(held: readonly Uint8Array[], rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* held;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value;
}

/** With a line left for the prompt. Chunks are small until they no longer fit. */
function fits(chunks: readonly Uint8Array[], { rows, columns }: NodeJS.WriteStream): boolean {
  const lines = withoutStyles(Buffer.concat(chunks).toString('utf8')).split('\n');
  return lines.length <= rows && lines.every((line) => width(line) <= columns);
}

/** What the person has chosen, else `less` where it is there; undefined where nothing is to stand in between. */
function pagerCommand({ environment, stdout }: CliContext, wanted: boolean): string | undefined {
  if (!wanted || !stdout.isTTY) return undefined;
  const chosen = environment['PAGER']?.trim();
  if (chosen !== undefined) return chosen === '' || chosen === 'cat' ? undefined : chosen;
  return (environment['PATH'] ?? '').split(delimiter).some((folder) => mayAccess(join(folder, 'less'), constants.X_OK))
    ? 'less'
    : undefined;
}

/** What a shell ends with where there is no such program, or none that can be run. */
const notRun = new Set([126, 127]);

async function throughPager(context: CliContext, command: string, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const { environment, signal } = context;
  // Shows colours, does not break lines, leaves the screen as it is. It must not end by itself (F): of a line that is wider
  // than the screen, only the beginning would be left.
  const less = { LESS: 'RSX', ...environment };
  const pager = spawn(command, { shell: true, env: less, stdio: ['pipe', 'inherit', 'inherit'] });
  const ended = once(pager, 'close') as Promise<[number | null]>;
  ended.catch(() => {});
  // Whoever does not wait for the pager must not leave it to fight with the shell for the terminal.
  const leave = () => void pager.kill();
  process.once('exit', leave);
  let code: number | null = null;
  try {
    await writeToStream(pager.stdin, sievedChunks(chunks), signal);
  } finally {
    // An interrupted answer can still be read as far as it came.
    pager.stdin.end();
    [code] = await ended;
    process.off('exit', leave);
  }
  if (code !== null && notRun.has(code)) throw noPager(command);
}

function noPager(command: string): UsageError {
  return new UsageError(`the pager "${command}" could not be run`, {
    advice: 'Set PAGER to another program, or to nothing for none, or give --no-pager.',
  });
}
