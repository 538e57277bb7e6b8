/** Questions on the terminal: consent before something irreversible is sent, accounts and passwords. */
import { emitKeypressEvents, type Key } from 'node:readline';
import type { Account } from '../model/actor.ts';
import { InterruptedError, UsageError } from '../model/errors.ts';
import { isSameTotal } from '../model/money.ts';
import { harmless } from '../model/text.ts';
import type { People } from '../people/people.ts';
import { minPasswordLength, passwordProblem } from '../people/rules.ts';
import { authenticate } from '../people/sign-in.ts';
import type { CliContext } from './context.ts';
import { readInput } from './flag-values.ts';
import { printNote, screenOf } from './output.ts';

interface Terminal {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
  /** Aborted if the command is stopped, or if Ctrl+D ends the input. */
  readonly signal: AbortSignal;
}

/** Whether somebody can see a question and answer it. */
export function canAsk({ stdin, stderr }: Pick<CliContext, 'stdin' | 'stderr'>): boolean {
  return stdin().isTTY && stderr.isTTY;
}

/** Shows a prompt and returns the answer. The caller must make its text `harmless`. Throws an InterruptedError if it is cancelled. */
export async function onTerminal<T>(
  context: CliContext,
  prompt: (terminal: Terminal) => Promise<T>,
): Promise<Exclude<T, symbol>> {
  const { signal } = context;
  const input = context.stdin();
  const output = screenOf(context.stderr);
  const ended = new AbortController();
  const end = (): void => ended.abort();
  const onKey = (_: string | undefined, key: Key): void => {
    if (key.ctrl === true && key.name === 'd') end();
  };
  emitKeypressEvents(input);
  input.on('keypress', onKey).once('end', end);
  const prompted = prompt({ input, output, signal: AbortSignal.any([signal, ended.signal]) });
  const answer = await prompted.finally(() => input.off('keypress', onKey).off('end', end));
  signal.throwIfAborted();
  if (typeof answer === 'symbol') throw new InterruptedError('SIGINT');
  return answer as Exclude<T, symbol>;
}

interface Question {
  /** What will be done, to whom and where: `email user 7 at https://…`. */
  readonly doing: string;
  /** The text to type as consent. Without it, the question is yes or no. */
  readonly typed?: string;
}

/**
 * Asks for consent on the terminal, unless `yes` says that it was given before. Throws a UsageError without consent, an
 * InterruptedError if the prompt is cancelled.
 */
export async function promptForConsent(context: CliContext, question: Question, yes: boolean): Promise<void> {
  const { typed } = question;
  if (yes) return noteServer(context, question.doing);
  const doing = `${question.doing}${serverWords(context)}`;
  if (!canAsk(context)) {
    throw new UsageError(`cannot ask whether to ${doing}: there is no terminal`, {
      advice: 'Run it on a terminal, or add --yes.',
    });
  }
  const { confirm, text } = await import('@clack/prompts');
  const answer = await onTerminal<boolean | string | symbol>(context, (terminal) =>
    typed === undefined
      ? confirm({ ...terminal, message: harmless(`Shall I ${doing}?`), initialValue: false })
      : text({ ...terminal, message: harmless(`To ${doing}, type ${typed}`) }),
  );
  const isConfirmed = typeof answer === 'string' ? isSameTotal(answer, typed ?? '') : answer;
  if (!isConfirmed) throw new UsageError('it was not confirmed; nothing was done');
}

/** Returns ` (production, profile eu)`, or '' with neither. */
function serverWords(context: CliContext): string {
  const { environment, profile } = context.settings();
  const words = [environment?.name, profile && `profile ${profile}`].filter((each) => each !== undefined);
  return words.length === 0 ? '' : ` (${words.join(', ')})`;
}

/** Notes which of several servers something is sent to without asking. */
export function noteServer(context: CliContext, doing: string): void {
  const words = serverWords(context);
  if (words !== '') printNote(context, `${doing}${words}`);
}

/** Reads the new password of an account: typed twice on a terminal, else from standard input. Throws if there is none. */
export async function newPassword(context: CliContext, name: string): Promise<string> {
  if (!context.stdin().isTTY) return givenPassword(context, `the new password of ${name}`);
  const first = await typedPassword(context, `New password of ${name}`, (given) => passwordProblem(given, name));
  await typedPassword(context, 'The same again', (given) => (given === first ? undefined : 'It is not the same.'));
  return first;
}

/**
 * Signs somebody in. On a terminal it asks; elsewhere `as` names the account, and standard input holds the password. Throws
 * SignInRefused, a UsageError if nobody can be asked, an InterruptedError.
 */
export async function signIn(context: CliContext, people: People, as: string | undefined): Promise<Account> {
  if (!context.stdin().isTTY && as === undefined) {
    throw new UsageError('no account was named, and there is no terminal to ask on', {
      advice: 'Name it with --as NAME, and give the password on standard input.',
    });
  }
  const name = as ?? (await typedName(context));
  const password = context.stdin().isTTY
    ? await typedPassword(context, `Password of ${name}`, (given) => (given === '' ? 'Type it.' : undefined))
    : await givenPassword(context, `the password of ${name}`);
  return authenticate(people, name, password);
}

async function typedName(context: CliContext): Promise<string> {
  const { text } = await import('@clack/prompts');
  const validate = (given = '') => (given.trim() === '' ? 'Type its name.' : undefined);
  return (await onTerminal(context, (terminal) => text({ ...terminal, message: 'Your account', validate }))).trim();
}

async function typedPassword(
  context: CliContext,
  message: string,
  problemOf: (given: string) => string | undefined,
): Promise<string> {
  if (!context.stderr.isTTY) {
    throw new UsageError('a password is needed, and there is no terminal to ask on', {
      advice: 'Do not redirect standard error, or give the password on standard input.',
    });
  }
  const { password } = await import('@clack/prompts');
  const validate = (given = '') => problemOf(given);
  // No mask: it would show how long the password is.
  const given = await onTerminal(context, (terminal) =>
    password({ ...terminal, message: harmless(message), mask: '', validate }),
  );
  keepPassword(context, given);
  return given;
}

/** @param what `the password of anna` */
async function givenPassword(context: CliContext, what: string): Promise<string> {
  const password = (await readInput(context.stdin())).replace(/\r?\n$/, '');
  if (password === '') {
    throw new UsageError(`standard input is empty; ${what} was expected on it`, {
      advice: 'Run it on a terminal, or give the password as one line, as in `… < password.txt`.',
    });
  }
  keepPassword(context, password);
  if (!/[\r\n]/.test(password)) return password;
  throw new UsageError(`standard input has more than one line; ${what} was expected on it, and nothing else`);
}

/** A word too short for a password is not redacted: it may occur in our own messages, and the gap would give it away. */
function keepPassword(context: CliContext, password: string): void {
  if (password.length >= minPasswordLength) context.keepSecret(password);
}
