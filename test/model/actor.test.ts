import { describe, expect, test } from 'vitest';
import { type Account, hasRole, isSamePerson, type Actor } from '../../src/model/actor.ts';

const shell: Actor = { name: 'anna', uid: 1001, host: 'office', sudoUser: null, job: null, account: null };

function account(fields: Partial<Account>): Pick<Account, 'name' | 'osUsers' | 'state' | 'roles'> {
  return { name: 'a.lind', osUsers: ['anna', '2002'], state: 'active', roles: ['approver'], ...fields };
}

describe('the person of an account', () => {
  test.each([
    ['the account itself, wherever it is used', { ...shell, name: 'web', account: 'a.lind' }],
    ['an account of the system that is bound to it', shell],
    ['the same on another machine', { ...shell, host: 'server' }],
    ['the user who became another by sudo', { ...shell, name: 'root', uid: 0, sudoUser: 'anna' }],
    ['a number that is bound to it', { ...shell, name: 'uid 2002', uid: 2002 }],
    ['another account, used from the same account of the system', { ...shell, account: 'bert' }],
  ])('is %s', (_, actor) => {
    expect(isSamePerson(account({}), actor)).toBe(true);
  });

  test('is no other actor', () => {
    expect(isSamePerson(account({}), { ...shell, name: 'bert', uid: 1002 })).toBe(false);
    expect(isSamePerson(account({ osUsers: [] }), shell)).toBe(false);
    expect(isSamePerson(account({ osUsers: null }), shell)).toBe(false);
    // An account is not the system account that happens to have the same name.
    expect(isSamePerson(account({ name: 'anna', osUsers: [] }), shell)).toBe(false);
  });
});

test('a role counts only while the account is active', () => {
  expect(hasRole(account({}), 'approver')).toBe(true);
  expect(hasRole(account({ roles: ['admin'] }), 'approver')).toBe(false);
  expect(hasRole(account({ state: 'disabled' }), 'approver')).toBe(false);
});
