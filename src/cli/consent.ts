/** The question before something is sent that cannot be taken back or reaches a person. */
import { emitKeypressEvents, type Key } from 'node:readline';
import type { CliContext } from './context.ts';
import { printNote } from './output.ts';
import { screenOf } from './sieve.ts';
import { InterruptedError, UsageError } from '../model/errors.ts';
import { isSameTotal } from '../model/money.ts';
import { harmless } from '../model/terminal-text.ts';

interface Terminal {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  /** Aborted where the command is stopped, and where Ctrl+D ends the input. */
  readonly signal: AbortSignal;
}

/**
 * What is given at a prompt, whose words must be harmless (src/model/terminal-text.ts). A prompt alone does not end where its
 * input does: the process would end without a word. Throws an InterruptedError where it is broken off.
 */
export async function onTerminal<T>(
  context: CliContext,
  prompt: (terminal: Terminal) => Promise<T>,
): Promise<Exclude<T, symbol>> {
  const { stdin: input, signal } = context;
  const output = screenOf(context.stderr);
  const ended = new AbortController();
  const end = (): void => ended.abort();
  const onKey = (_: string | undefined, key: Key): void => {
    if (key.ctrl === true && key.name === 'd') end();
  };
  emitKeypressEvents(input);
  input.on('keypress', onKey).once('end', end);
  const prompted = prompt({ input, output, signal: AbortSignal.any([signal, ended.signal]) });
  const given = await prompted.finally(() => input.off('keypress', onKey).off('end', end));
  signal.throwIfAborted();
  if (typeof given === 'symbol') throw new InterruptedError('SIGINT');
  return given as Exclude<T, symbol>;
}

interface Question {
  /** What is about to be done, to whom and where: `email user 7 at https://…`. */
  readonly doing: string;
  /** What must be typed for it; without it, yes or no. */
  readonly typed?: string;
}

/**
 * Asks on the terminal; `yes` is consent given beforehand. Throws a UsageError where it is refused, or where nobody can
 * be asked, and an InterruptedError where the prompt is broken off. Names the profile where there are several.
 */
export async function promptForConsent(context: CliContext, question: Question, yes: boolean): Promise<void> {
  const { typed } = question;
  if (yes) return noteProfile(context, question.doing);
  const doing = `${question.doing}${profileWords(context)}`;
  if (!context.stdin.isTTY || !context.stderr.isTTY) {
    throw new UsageError(`to ${doing} must be confirmed, and there is no terminal here`, {
      advice: 'Run it on a terminal, or add --yes.',
    });
  }
  const { confirm, text } = await import('@clack/prompts');
  const given = await onTerminal<boolean | string | symbol>(context, (terminal) =>
    typed === undefined
      ? confirm({ ...terminal, message: harmless(`Shall I ${doing}?`), initialValue: false })
      : text({ ...terminal, message: harmless(`To ${doing}, type ${typed}`) }),
  );
  const isConfirmed = typeof given === 'string' ? isSameTotal(given, typed ?? '') : given;
  if (!isConfirmed) throw new UsageError('it was not confirmed; nothing was done');
}

/** ` (profile staging)`; nothing where there are no profiles. */
function profileWords(context: CliContext): string {
  const { profile } = context.settings();
  return profile === undefined ? '' : ` (profile ${profile})`;
}

/** Says to which of several servers something goes that is done without consent. */
export function noteProfile(context: CliContext, doing: string): void {
  const words = profileWords(context);
  if (words !== '') printNote(context, `${doing}${words}`);
}
