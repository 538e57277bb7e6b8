/** What is done with passwords: an account gets one, and somebody signs in by it. */
import type { Account } from '../model/actor.ts';
import { UsageError } from '../model/errors.ts';
import { type Cost, currentCost, hashNewPassword, hashPassword, isPassword, isWeak } from './password.ts';
import type { NewAccount, People } from './port.ts';
import { nameTaken, normalName, refuseUnbound, unknownAccount } from './rules.ts';

/** The same for a name that is not known, a wrong password, a disabled account and too many tries. */
export class SignInRefused extends UsageError {
  override readonly name = 'SignInRefused';

  constructor() {
    super('the name or the password is wrong, or the account may not sign in now', {
      advice:
        'After five wrong passwords an account waits, for up to 15 minutes: `admin-mirror people list` shows it, and who ' +
        'is disabled.',
    });
  }
}

/**
 * The account whose password it is. Throws SignInRefused, in the same words and after the same time whatever the reason. The
 * parameter `cost` is for tests, which must not take as long as somebody who guesses.
 */
export async function authenticate(
  people: Pick<People, 'beginSignIn' | 'endSignIn'>,
  name: string,
  password: string,
  cost: Cost = currentCost,
): Promise<Account> {
  // No account has an empty name.
  const known = normalName(name) ?? '';
  // Of two at once, the first may renew the hash that the second has just checked: it looks at the new one then.
  const account = (await checked(people, known, password, cost)) ?? (await checked(people, known, password, cost));
  if (account === undefined) throw new SignInRefused();
  return account;
}

/** Undefined where the account was changed while the password was checked. */
async function checked(
  people: Pick<People, 'beginSignIn' | 'endSignIn'>,
  name: string,
  password: string,
  cost: Cost,
): Promise<Account | undefined> {
  const { password: hash, open } = await people.beginSignIn(name);
  const fits = await isPassword(password, hash, cost);
  if (!fits || !open || hash === null) throw new SignInRefused();
  const renewed = isWeak(hash, cost) ? await hashPassword(password, cost) : null;
  return people.endSignIn(name, hash, renewed);
}

/**
 * Adds an account. Throws a UsageError where it may not be, before anybody is asked for a password.
 * @param ask gives the password; null where the account gets none yet
 */
export async function addAccount(
  people: People,
  account: Omit<NewAccount, 'password'>,
  ask: (() => Promise<string>) | null,
): Promise<Account> {
  const there = await people.account(account.name);
  if (there !== undefined) throw nameTaken(there);
  refuseUnbound(account);
  const password = ask === null ? null : await hashNewPassword(account.name, await ask());
  return people.add({ ...account, password });
}

/** Sets the password that `ask` gives. Throws a UsageError where there is no such account, before anybody is asked. */
export async function changePassword(people: People, name: string, ask: () => Promise<string>): Promise<Account> {
  const accounts = await people.accounts();
  const known = accounts.map((each) => each.name);
  if (!known.includes(name)) throw unknownAccount(name, known);
  return people.setPassword(name, await hashNewPassword(name, await ask()));
}
