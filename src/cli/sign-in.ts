/** Passwords on the command line: typed without echo, or one line of standard input. Never a flag, never a variable. */
import type { CliContext } from './context.ts';
import { onTerminal } from './consent.ts';
import { readInput } from './flag-values.ts';
import type { Account } from '../model/account.ts';
import { UsageError } from '../model/errors.ts';
import { harmless } from '../model/terminal-text.ts';
import type { People } from '../people/port.ts';
import { leastPassword, passwordProblem } from '../people/rules.ts';
import { authenticate } from '../people/sign-in.ts';

/** A password that the account shall have: on a terminal it is typed twice. Throws where nobody gives one. */
export async function newPassword(context: CliContext, name: string): Promise<string> {
  if (!context.stdin.isTTY) return givenPassword(context, `the new password of ${name}`);
  const first = await typedPassword(context, `New password of ${name}`, (given) => passwordProblem(given, name));
  await typedPassword(context, 'The same again', (given) => (given === first ? undefined : 'It is not the same.'));
  return first;
}

/**
 * Signs somebody in: on a terminal, account and password are asked for; elsewhere `as` must say who it is, and standard input
 * holds the password. Throws SignInRefused, a UsageError where nobody can be asked, an InterruptedError.
 * @param as the account, where it is known already
 */
export async function signIn(context: CliContext, people: People, as: string | undefined): Promise<Account> {
  if (!context.stdin.isTTY && as === undefined) {
    throw new UsageError('it was not said whose account it is, and nobody can be asked here', {
      advice: 'Say it with --as NAME, and give the password on standard input.',
    });
  }
  const name = as ?? (await typedName(context));
  const password = context.stdin.isTTY
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
    throw new UsageError('a password is needed, and nobody can be asked here', {
      advice: 'Do not redirect standard error, or give the password on standard input.',
    });
  }
  const { password } = await import('@clack/prompts');
  const validate = (given = '') => problemOf(given);
  // Not even how long it is.
  const given = await onTerminal(context, (terminal) =>
    password({ ...terminal, message: harmless(message), mask: '', validate }),
  );
  keep(context, given);
  return given;
}

/** @param what `the password of anna` */
async function givenPassword(context: CliContext, what: string): Promise<string> {
  const password = (await readInput(context.stdin)).replace(/\r?\n$/, '');
  if (password === '') {
    throw new UsageError(`standard input is empty; ${what} was expected on it`, {
      advice: 'Run it on a terminal, or give the password as one line, as in `… < password.txt`.',
    });
  }
  keep(context, password);
  if (!/[\r\n]/.test(password)) return password;
  throw new UsageError(`standard input has more than one line; ${what} was expected on it, and nothing else`);
}

/** What is too short to be one may be a word of our own, and its place in a message would tell it. */
function keep(context: CliContext, password: string): void {
  if (password.length >= leastPassword) context.keepSecret(password);
}
