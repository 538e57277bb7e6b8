import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import type { Clock } from '../../src/model/time.ts';
import { anna, newJournal } from '../support/journal.ts';
import { newAccount, newPeople } from '../support/people.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { type Opened, peopleContract } from './contract.ts';

async function openedAt(file: string, clock: Clock): Promise<Opened> {
  const { people } = await newPeople(clock, file);
  return {
    people,
    again: async () => (await newPeople(clock, file)).people,
    journal: async () => (await newJournal(clock, file)).journal,
  };
}

describe('accounts in the SQLite file of the journal', () => {
  peopleContract((clock) => openedAt(`${temporaryFolder()}/journal.db`, clock));

  // proves: forged-role
  test.each([
    ['roles that nobody gave', `UPDATE people_accounts SET roles = '["approver"]'`, 'account anna was altered'],
    ['a password that nobody set', `UPDATE people_accounts SET password = 'mine'`, 'account anna was altered'],
    ['an account that nobody has added', `UPDATE people_accounts SET name = 'eve'`, 'account eve was inserted'],
    ['that an account is gone', 'DELETE FROM people_accounts', 'account anna was removed'],
  ])('the check of the chain finds %s', async (_, statement, problem) => {
    const { people, file } = await newPeople();
    await people.add(newAccount('anna', { password: 'hash' }));
    const { journal } = await newJournal(undefined, file);
    expect((await journal.verifyChain()).status).toBe('whole');
    const database = new SqliteDatabase(file);
    database.exec(statement);
    database.close();
    const { status, problems } = await journal.verifyChain();
    expect(status).toBe('broken');
    expect(problems.join('\n')).toContain(problem);
  });

  test.each([
    ['roles', `roles = '["admin"]'`],
    ['a password', `password = 'mine'`],
    ['a person of the system', `os_users = '["root"]'`],
    ['a state', `state = 'disabled'`],
    ['what is no list of roles any more', `roles = 'admin', os_users = '5', created_by = '', changed_by = 'null'`],
  ])('an account whose record was altered can do nothing and cannot be changed: %s', async (_, change) => {
    const { people, file } = await newPeople();
    const account = await people.add(newAccount('anna', { password: 'hash' }));
    await people.add(newAccount('bert', { password: 'hash' }));
    const token = await people.sessions.begin(account, { method: 'password', address: '127.0.0.1' }, anna);
    expect((await people.sessions.find(token))?.account.state).toBe('active');
    const database = new SqliteDatabase(file);
    database.exec(`UPDATE people_accounts SET ${change} WHERE name = 'anna'`);
    database.close();

    expect((await people.accounts()).map(({ name, state }) => [name, state])).toEqual([
      ['anna', 'altered'],
      ['bert', 'active'],
    ]);
    expect(await people.sessions.find(token)).toBeNull();
    const { password, open } = await people.beginSignIn('anna');
    expect([open, await people.endSignIn('anna', password ?? '')]).toEqual([false, undefined]);
    await expect(people.setPassword('anna', 'another hash')).rejects.toThrow(/anna was altered outside this program/);
    await expect(people.setState('anna', 'active')).rejects.toThrow(/anna was altered outside this program/);
    const { journal } = await newJournal(undefined, file);
    expect((await journal.verifyChain()).problems.join('\n')).toContain('account anna was altered');
  });
});
