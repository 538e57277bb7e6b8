/** What accounts may be called, what they must say, and what their passwords may be. Pure. */
import type { Account } from '../model/actor.ts';
import { suggestion, UsageError } from '../model/errors.ts';

const namePattern = /^[a-z0-9][a-z0-9._@+-]{0,63}$/;

/** Returns the name as it is stored, in lower case; undefined if it is not allowed. */
export function normalName(given: string): string | undefined {
  const name = given.normalize('NFKC').trim().toLowerCase();
  return namePattern.test(name) ? name : undefined;
}

/** Same as `normalName`, but throws a UsageError. */
export function accountName(given: string): string {
  const name = normalName(given);
  if (name !== undefined) return name;
  throw new UsageError(`${JSON.stringify(given)} cannot be the name of an account`, {
    advice:
      'Take 1 to 64 of the letters a to z, digits, and . _ - @ +, with a letter or a digit in front, as in anna.lind.',
  });
}

const osUserPattern = /^[^\s:/\p{Cc}]{1,64}$/u;

/** Returns the name or number of a system account. Throws a UsageError. */
export function osUserName(given: string): string {
  const name = given.trim();
  if (osUserPattern.test(name)) return name;
  throw new UsageError(`${JSON.stringify(given)} cannot be the name of a system account`, {
    advice: 'Give what `id -un` prints for that person, or the number that `id -u` prints.',
  });
}

export const minPasswordLength = 12;
const maxPasswordLength = 256;
const minDifferent = 5;

/** Returns why the text cannot be the account's password; undefined if it can. */
export function passwordProblem(password: string, name: string): string | undefined {
  const characters = Array.from(normalPassword(password));
  if (characters.length < minPasswordLength) return `the password is shorter than ${minPasswordLength} characters`;
  if (characters.length > maxPasswordLength) return `the password is longer than ${maxPasswordLength} characters`;
  if (/\p{Cc}/u.test(password)) return 'the password has a control character in it, such as a tab';
  const different = new Set(characters).size;
  if (different < minDifferent) return `the password has only ${different} different characters`;
  const plain = password.normalize('NFKC').toLowerCase();
  // If the name is an email address, its local part counts as a name, too.
  const own = [name, name.split('@')[0] ?? name].filter((each) => each.length > 2);
  if (own.some((each) => plain.includes(each))) return 'the password has the name of the account in it';
  return undefined;
}

/** Returns one text for one password, however the keyboard composes its letters. */
export function normalPassword(password: string): string {
  return password.normalize('NFC');
}

/** People must not approve what they made on the command line, so an approver's system accounts must be known. */
export function refuseUnbound({ name, roles, osUsers }: Pick<Account, 'name' | 'roles' | 'osUsers'>): void {
  if (!roles.includes('approver') || osUsers !== null) return;
  throw new UsageError(`${name} would be an approver, but nobody has said which system account ${name} uses`, {
    advice:
      'Say so, to keep people from approving what they made themselves on the command line: --os-user NAME with ' +
      '`people add`, or `admin-mirror people os-user`; --no-os-user, or --none, if the person uses none.',
  });
}

export function unknownAccount(name: string, accounts: readonly Pick<Account, 'name'>[]): UsageError {
  const known = accounts.map((each) => each.name);
  const advice =
    known.length === 0 ? 'There are no accounts yet; `admin-mirror people add` makes one.' : suggestion(name, known);
  return new UsageError(`there is no account ${name}`, { advice });
}

export function nameTaken({ name, state }: Pick<Account, 'name' | 'state'>): UsageError {
  return new UsageError(`there is an account ${name} already${state === 'active' ? '' : `, which is ${state}`}`, {
    advice: 'Take another name, or change that account: `admin-mirror people list` shows it.',
  });
}
