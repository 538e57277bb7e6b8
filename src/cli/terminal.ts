/** Questions on the terminal: where they are asked, and what ends them. */
import { emitKeypressEvents, type Key } from 'node:readline';
import type { CliContext } from './context.ts';
import { screenOf } from './sieve.ts';

export interface Terminal {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  /** Aborted where the command is stopped, and where Ctrl+D says that there will be no answer. */
  readonly signal: AbortSignal;
}

/** Asks by `ask`, whose words must be harmless (src/model/terminal-text.ts). A prompt by itself does not end where its input does: the process would, without a word. */
export async function onTerminal<T>(context: CliContext, ask: (terminal: Terminal) => Promise<T>): Promise<T> {
  const { stdin: input, signal } = context;
  const output = screenOf(context.stderr);
  const ended = new AbortController();
  const end = (): void => ended.abort();
  const onKey = (_: string | undefined, key: Key): void => {
    if (key.ctrl === true && key.name === 'd') end();
  };
  emitKeypressEvents(input);
  input.on('keypress', onKey).once('end', end);
  try {
    return await ask({ input, output, signal: AbortSignal.any([signal, ended.signal]) });
  } finally {
    input.off('keypress', onKey).off('end', end);
  }
}
