import { describe, expect, test } from 'vitest';
import { accountName, normalName, osUserName, passwordProblem } from '../../src/people/rules.ts';
import { authenticate, hashPassword, isPassword } from '../../src/people/sign-in.ts';
import { newAccount, newPeople, quickCost } from '../support/people.ts';

const password = 'tulip-Anchor 9 rivers';

describe('a password', () => {
  // proves: scrypt
  test('is kept as a hash with its own salt and parameters that take 128 MiB for each check', async () => {
    const hash = await hashPassword(password);
    expect(hash).toMatch(/^\$scrypt\$ln=17,r=8,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    expect(await isPassword(password, hash)).toBe(true);
    const [one, two] = [await hashPassword(password, quickCost), await hashPassword(password, quickCost)];
    expect(one).not.toBe(two);
  });

  test('matches only itself, but in any Unicode composition', async () => {
    const hash = await hashPassword(`${password}\u00E9`, quickCost);
    expect(await isPassword(`${password}e\u0301`, hash)).toBe(true);
    for (const other of [password, `${password}e`, `${password}\u00C9`, ` ${password}\u00E9`, '']) {
      expect(await isPassword(other, hash, quickCost)).toBe(false);
    }
  });

  test('matches no hash that is missing, cannot be read, or asks for too much', async () => {
    const hash = await hashPassword(password, quickCost);
    const bad = [null, '', 'plain', hash.slice(0, -4), hash.replace('ln=4', 'ln=40'), hash.replace('r=8', 'r=0')];
    for (const each of bad) expect(await isPassword(password, each, quickCost)).toBe(false);
  });

  test.each([
    ['eleven char', 'shorter than 12'],
    ['abcde'.repeat(52), 'longer than 256'],
    ['aaaaaaaaaaaaaabbb', 'only 2 different'],
    ['abcdabcdabcdabcd', 'only 4 different'],
    ['tulip\tAnchor rivers', 'control character'],
    ['tulip anna.lind rivers', 'the name of the account'],
    ['TULIP ANNA.LIND RIVERS', 'the name of the account'],
  ])('%j is refused', (given, words) => {
    expect(passwordProblem(given, 'anna.lind@example.com')).toContain(words);
  });

  test('may have spaces, punctuation and letters of any script', () => {
    for (const given of [password, 'čtyři modré řeky v lese', '四条蓝色的河流穿过森林和山谷']) {
      expect(passwordProblem(given, 'anna')).toBeUndefined();
    }
  });
});

describe('the name of an account', () => {
  test('is the same in upper case, lower case and full-width letters', () => {
    for (const given of ['Anna', ' ANNA ', '\uFF21nna']) expect(accountName(given)).toBe('anna');
    expect(accountName('a.lind+x@example.com')).toBe('a.lind+x@example.com');
  });

  test.each(['', ' ', '-x', 'a b', 'a/b', 'ann\u0430', 'x'.repeat(65), 'a\u202Eb', '../a'])(
    '%j is refused',
    (given) => {
      expect(normalName(given)).toBeUndefined();
      expect(() => accountName(given)).toThrow(/cannot be the name of an account/);
    },
  );

  test('in the system is a user name or a number', () => {
    for (const given of ['anna', '1000', 'DOMAIN\\anna', 'anna.lind']) expect(osUserName(given)).toBe(given);
    for (const given of ['', 'a b', 'a:b', '/root']) expect(() => osUserName(given)).toThrow(/a system account/);
  });
});

describe('signing in', () => {
  async function refusal(work: Promise<unknown>): Promise<string> {
    const error: unknown = await work.then(
      () => new Error('nobody was refused'),
      (thrown: unknown) => thrown,
    );
    const { name, message, advice } = error as { name: string; message: string; advice?: string };
    return `${name}: ${message} ${advice}`;
  }

  async function withAnna(cost = quickCost) {
    const { people } = await newPeople();
    await people.add(newAccount('anna', { password: await hashPassword(password, cost) }));
    return people;
  }

  test('returns the account, in whatever case its name is written', async () => {
    const people = await withAnna();
    expect(await authenticate(people, ' ANNA', password, quickCost)).toMatchObject({ name: 'anna', roles: ['maker'] });
  });

  // proves: which-accounts
  test('is refused in the same words for every reason, and the attempt counts', async () => {
    const people = await withAnna();
    await people.add(newAccount('bert', { password: await hashPassword(password, quickCost) }));
    await people.setState('bert', 'disabled');
    await people.add(newAccount('carl'));
    const tries = [
      authenticate(people, 'nobody', password, quickCost),
      authenticate(people, 'no name at all', password, quickCost),
      authenticate(people, '', password, quickCost),
      authenticate(people, 'anna', `${password} `, quickCost),
      authenticate(people, 'anna', '', quickCost),
      authenticate(people, 'bert', password, quickCost),
      authenticate(people, 'carl', '', quickCost),
    ];
    const words = await Promise.all(tries.map(refusal));
    expect(new Set(words).size).toBe(1);
    expect(words[0]).toContain('SignInRefused: the name or the password is wrong');
    for (let each = 0; each < 3; each += 1) await refusal(authenticate(people, 'anna', 'wrong', quickCost));
    expect((await people.accounts())[0]?.blockedUntil).not.toBeNull();
    expect(await refusal(authenticate(people, 'anna', password, quickCost))).toBe(words[0]);
  });
});
