/** The question before something is sent that cannot be taken back or reaches a person. */
import { emitKeypressEvents, type Key } from 'node:readline';
import type { CliContext } from './context.ts';
import { printNote } from './output.ts';
import { screenOf } from './sieve.ts';
import { InterruptedError, UsageError } from '../model/errors.ts';
import { isSameTotal } from '../model/money.ts';
import { harmless } from '../model/terminal-text.ts';

export interface Terminal {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  /** Aborted where the command is stopped, and where Ctrl+D says that there will be no response. */
  readonly signal: AbortSignal;
}

/** Asks by `ask`, whose words must be harmless (src/model/terminal-text.ts). A prompt by itself does not end where its input does: the process would, without a word. */
export async function onTerminal<T>(context: CliContext, requestOne: (terminal: Terminal) => Promise<T>): Promise<T> {
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
    return await requestOne({ input, output, signal: AbortSignal.any([signal, ended.signal]) });
  } finally {
    input.off('keypress', onKey).off('end', end);
  }
}

interface Question {
  /** What is about to be done, to whom and where: `email user 7 at https://…`. */
  readonly doing: string;
  /** What must be typed for it; without it, yes or no is asked. */
  readonly typed?: string;
}

/**
 * Asks on the terminal; `yes` stands for a response given beforehand. Throws a UsageError where the response is no, or where
 * nobody can be asked, and an InterruptedError where the question is broken off. Where the config file has several servers,
 * it is always said which of them is meant.
 */
export async function promptForConsent(context: CliContext, question: Question, yes: boolean): Promise<void> {
  const { typed } = question;
  const doing = `${question.doing}${profileWords(context)}`;
  if (yes) {
    noteProfile(context, question.doing);
    return;
  }
  if (!context.stdin.isTTY || !context.stderr.isTTY) {
    throw new UsageError(`to ${doing} must be confirmed, and nobody can be asked here`, {
      advice: 'Run it on a terminal, or add --yes.',
    });
  }
  const { confirm, isCancel, text } = await import('@clack/prompts');
  const response = await onTerminal<boolean | string | symbol>(context, (terminal) =>
    typed === undefined
      ? confirm({ ...terminal, message: harmless(`Shall I ${doing}?`), initialValue: false })
      : text({ ...terminal, message: harmless(`To ${doing}, type ${typed}`) }),
  );
  context.signal.throwIfAborted();
  if (isCancel(response)) throw new InterruptedError('SIGINT');
  const yesSaid = typeof response === 'string' ? isSameTotal(response, typed ?? '') : response;
  if (!yesSaid) throw new UsageError('it was not confirmed; nothing was done');
}

/** ` (profile staging)`; nothing where there are no profiles. */
function profileWords(context: CliContext): string {
  const { profile } = context.settings();
  return profile === undefined ? '' : ` (profile ${profile})`;
}

/** Says of what is done without a question to which of several servers it goes. */
export function noteProfile(context: CliContext, doing: string): void {
  const words = profileWords(context);
  if (words !== '') printNote(context, `${doing}${words}`);
}
