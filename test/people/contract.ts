/** What every store of accounts does, in any database. */
import { describe, expect, test } from 'vitest';
import type { Journal } from '../../src/journal/port.ts';
import { dayMs, hourMs, minuteMs, secondMs, timestampOf } from '../../src/model/time.ts';
import type { People } from '../../src/people/people.ts';
import { newAccount, operator } from '../support/people.ts';

/** A new, empty store of accounts. The test that opened it need not close it. */
export interface Opened {
  readonly people: People;
  /** Another connection to the same accounts, like that of another process. */
  readonly again: () => Promise<People>;
  /** The journal in the same database. */
  readonly journal: () => Promise<Journal>;
}

export interface SettableClock {
  now(): number;
  set(ms: number): void;
}

function settableClock(): SettableClock {
  let now = Date.parse('2026-03-11T10:20:00Z');
  return {
    now: () => now,
    set: (ms) => {
      now = ms;
    },
  };
}

/** @param open opens an empty store of the tested kind */
export function peopleContract(open: (clock: SettableClock) => Promise<Opened>): void {
  const opened = async () => {
    const clock = settableClock();
    return { clock, ...(await open(clock)) };
  };

  describe('an account', () => {
    test('is kept with its roles in order, who created it and who changed it last', async () => {
      const { people, again, clock } = await opened();
      const start = timestampOf(clock.now());
      await people.add(newAccount('bert', { roles: ['admin', 'approver'], osUsers: ['bert', 'b'], password: 'hash' }));
      clock.set(clock.now() + minuteMs);
      const anna = { ...operator, account: 'anna' };
      await people.by(anna).changeRoles('bert', { add: ['maker', 'maker'], remove: ['approver'] });
      await people.add(newAccount('anna', { osUsers: null }));
      expect(await (await again()).accounts()).toEqual([
        expect.objectContaining({ name: 'anna', osUsers: null, passwordAt: null, createdBy: operator }),
        {
          name: 'bert',
          roles: ['maker', 'admin'],
          state: 'active',
          osUsers: ['b', 'bert'],
          passwordAt: start,
          createdAt: start,
          createdBy: operator,
          changedAt: timestampOf(clock.now()),
          changedBy: anna,
          blockedUntil: null,
        },
      ]);
    });

    test('is created once, even if several processes add it at once', async () => {
      const { people, again } = await opened();
      const other = await again();
      const made = await Promise.all(
        [people, other, people].map((each) => each.add(newAccount('anna')).then(() => 'made', String)),
      );
      expect(made.filter((each) => each === 'made')).toHaveLength(1);
      expect(made.filter((each) => /there is an account anna already/.test(each))).toHaveLength(2);
      await people.setState('anna', 'disabled');
      await expect(people.add(newAccount('anna'))).rejects.toThrow(/anna already, which is disabled/);
    });

    test('that does not exist is refused with the nearest name', async () => {
      const { people } = await opened();
      await expect(people.setState('anna', 'disabled')).rejects.toThrow(/there is no account anna/);
      await people.add(newAccount('anna'));
      const changes = [
        () => people.setState('ana', 'disabled'),
        () => people.changeRoles('ana', { add: ['reader'], remove: [] }),
        () => people.setOsUsers('ana', []),
        () => people.setPassword('ana', 'hash'),
      ];
      const refused = { message: 'there is no account ana', advice: 'Did you mean "anna"?' };
      for (const each of changes) await expect(each()).rejects.toMatchObject(refused);
    });

    test('becomes an approver only once its system accounts are given', async () => {
      const { people } = await opened();
      const unsaid = { roles: ['approver'], osUsers: null } as const;
      await expect(people.add(newAccount('anna', unsaid))).rejects.toThrow(/anna would be an approver/);
      await people.add(newAccount('anna', { osUsers: null }));
      const approve = () => people.changeRoles('anna', { add: ['approver'], remove: [] });
      await expect(approve()).rejects.toThrow(/anna would be an approver/);
      await people.setOsUsers('anna', []);
      expect((await approve()).roles).toEqual(['maker', 'approver']);
    });
  });

  describe('the last active admin', () => {
    test('cannot be disabled or lose the role, unlike other admins', async () => {
      const { people } = await opened();
      await people.add(newAccount('anna', { roles: ['admin'] }));
      await people.add(newAccount('bert', { roles: ['admin'] }));
      await people.setState('bert', 'disabled');
      const noAdmin = { add: [], remove: ['admin'] } as const;
      await expect(people.setState('anna', 'disabled')).rejects.toThrow(/anna is the last active admin/);
      await expect(people.changeRoles('anna', noAdmin)).rejects.toThrow(/anna is the last active admin/);
      await people.changeRoles('bert', noAdmin);
      await people.setState('bert', 'active');
      await people.changeRoles('bert', { add: ['admin'], remove: [] });
      await people.setState('anna', 'disabled');
      await expect(people.setState('bert', 'disabled')).rejects.toThrow(/bert is the last active admin/);
    });

    test('stays if the last two are disabled at once', async () => {
      const { people, again } = await opened();
      await people.add(newAccount('anna', { roles: ['admin'] }));
      await people.add(newAccount('bert', { roles: ['admin'] }));
      const other = await again();
      const ends = await Promise.all([
        people.setState('anna', 'disabled').then(() => 'gone', String),
        other.setState('bert', 'disabled').then(() => 'gone', String),
      ]);
      expect(ends.filter((each) => each === 'gone')).toHaveLength(1);
      expect((await people.accounts()).filter(({ state }) => state === 'active')).toHaveLength(1);
    });
  });

  describe('a session', () => {
    const from = { method: 'password', address: '127.0.0.1' } as const;
    const everyChange: readonly [string, (people: People) => Promise<unknown>][] = [
      ['a new password', (people) => people.setPassword('anna', 'hash2')],
      ['another role', (people) => people.changeRoles('anna', { add: ['reader'], remove: [] })],
      ['a role less', (people) => people.changeRoles('anna', { add: [], remove: ['maker'] })],
      ['another system account', (people) => people.setOsUsers('anna', ['anna'])],
      ['being disabled', (people) => people.setState('anna', 'disabled')],
    ];

    test.each(everyChange)('ends with %s, also if the clock was set back', async (_, change) => {
      const { people, again, clock } = await opened();
      const anna = await people.add(newAccount('anna', { password: 'hash' }));
      const token = await people.sessions.begin(anna, from, operator);
      clock.set(clock.now() - dayMs);
      expect((await people.sessions.find(token))?.account.name).toBe('anna');
      await change(await again());
      expect(await people.sessions.find(token)).toBeNull();
      expect(await people.sessions.list()).toEqual([]);
    });

    test('does not begin if the account was changed since the person proved who they are', async () => {
      const { people, clock } = await opened();
      const anna = await people.add(newAccount('anna', { password: 'hash' }));
      clock.set(clock.now() - dayMs);
      await people.setPassword('anna', 'hash2');
      await expect(people.sessions.begin(anna, from, operator)).rejects.toThrow(/the account may not sign in now/);
    });

    test('ends an hour after its last request and after twelve hours, also if the clock was set back', async () => {
      const { people, clock } = await opened();
      const anna = await people.add(newAccount('anna'));
      clock.set(clock.now() + 365 * dayMs);
      const first = await people.sessions.begin(anna, from, operator);
      clock.set(clock.now() - 365 * dayMs);
      expect(await people.sessions.find(first)).not.toBeNull();
      clock.set(clock.now() + hourMs);
      expect(await people.sessions.find(first)).toBeNull();
      const second = await people.sessions.begin(anna, from, operator);
      for (let halfHours = 0; halfHours < 23; halfHours += 1) {
        clock.set(clock.now() + hourMs / 2);
        expect(await people.sessions.find(second)).not.toBeNull();
      }
      clock.set(clock.now() + hourMs / 2);
      expect(await people.sessions.find(second)).toBeNull();
    });

    test('that has ended does not live again when the clock is set back', async () => {
      const { people, again, clock } = await opened();
      const anna = await people.add(newAccount('anna'));
      const token = await people.sessions.begin(anna, from, operator);
      const start = clock.now();
      clock.set(start + dayMs);
      await people.add(newAccount('bert'));
      clock.set(start);
      for (const each of [people, await again()]) expect(await each.sessions.find(token)).toBeNull();
    });
  });

  describe('the chain', () => {
    test('has a step for each change, with its actor, and no password hash', async () => {
      const { people, journal } = await opened();
      const hash = '$scrypt$ln=4,r=8,p=1$c2FsdA$a2V5';
      await people.add(newAccount('anna', { password: hash }));
      await people.by({ ...operator, account: 'olga' }).changeRoles('anna', { add: ['admin'], remove: ['maker'] });
      await people.setOsUsers('anna', ['anna']);
      await people.setPassword('anna', `${hash}2`);
      await people.add(newAccount('bert'));
      await people.setState('bert', 'disabled');
      await people.setState('bert', 'active');
      // Without a change there is no step.
      await people.setState('bert', 'active');
      await people.setOsUsers('anna', ['anna']);
      await people.changeRoles('anna', { add: ['admin'], remove: ['reader'] });
      const all = await journal();
      expect(await all.verifyChain()).toMatchObject({ status: 'whole', steps: 7 });
      const entries = await Array.fromAsync(all.audit({}));
      expect(entries.map(({ kind, actor, note }) => [kind, actor.account, note])).toEqual([
        ['account-added', null, expect.stringMatching(/^anna: roles [a-z, ]+; os user /)],
        ['account-roles', 'olga', 'anna: added admin; removed maker'],
        ['account-os-users', null, 'anna: os user anna'],
        ['account-password', null, 'anna'],
        ['account-added', null, expect.stringMatching(/^bert: roles /)],
        ['account-disabled', null, 'bert'],
        ['account-enabled', null, 'bert'],
      ]);
      expect(JSON.stringify(entries)).not.toContain('scrypt');
    });
  });

  describe('an attempt to sign in', () => {
    const tryTimes = async (people: People, times: number) => {
      for (let each = 0; each < times; each += 1) await people.beginSignIn('anna');
    };

    // proves: guessing
    test('is counted before the password is checked, and after the fifth each next one must wait longer', async () => {
      const { people, clock } = await opened();
      await people.add(newAccount('anna', { password: 'hash' }));
      await tryTimes(people, 4);
      expect(await people.beginSignIn('anna')).toEqual({ password: 'hash', open: true });
      for (const wait of [30, 60, 120, 240, 480, 900, 900]) {
        const start = clock.now();
        expect((await people.accounts())[0]?.blockedUntil).toBe(timestampOf(start + wait * secondMs));
        expect((await people.beginSignIn('anna')).open).toBe(false);
        clock.set(start + wait * secondMs - 1);
        expect((await people.beginSignIn('anna')).open).toBe(false);
        // Attempts during the wait do not extend it.
        clock.set(start + wait * secondMs);
        expect((await people.accounts())[0]?.blockedUntil).toBeNull();
        expect((await people.beginSignIn('anna')).open).toBe(true);
      }
    });

    test('is counted together with others at the same time', async () => {
      const { people, again } = await opened();
      await people.add(newAccount('anna', { password: 'hash' }));
      const other = await again();
      const tries = await Promise.all(
        Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? people : other).beginSignIn('anna')),
      );
      expect(tries.filter(({ open }) => open)).toHaveLength(5);
    });

    test('resets the count if it succeeds, as do a new password and a day without attempts', async () => {
      const { people, clock } = await opened();
      await people.add(newAccount('anna', { password: 'hash' }));
      await tryTimes(people, 5);
      expect(await people.endSignIn('anna', 'hash')).toMatchObject({ name: 'anna' });
      await tryTimes(people, 5);
      expect((await people.beginSignIn('anna')).open).toBe(false);
      await people.setPassword('anna', 'hash2');
      expect(await people.beginSignIn('anna')).toEqual({ password: 'hash2', open: true });
      await tryTimes(people, 3);
      clock.set(clock.now() + dayMs + 1);
      await tryTimes(people, 1);
      expect((await people.accounts())[0]?.blockedUntil).toBeNull();
    });

    test('waits no longer than it must if the clock is set back', async () => {
      const { people, clock } = await opened();
      await people.add(newAccount('anna', { password: 'hash' }));
      await tryTimes(people, 5);
      const start = clock.now() - 365 * dayMs;
      clock.set(start);
      expect((await people.accounts())[0]?.blockedUntil).toBeNull();
      // The earlier tries still count.
      expect((await people.beginSignIn('anna')).open).toBe(true);
      expect((await people.accounts())[0]?.blockedUntil).toBe(timestampOf(start + 60 * secondMs));
      expect((await people.beginSignIn('anna')).open).toBe(false);
      clock.set(start + 60 * secondMs);
      expect((await people.beginSignIn('anna')).open).toBe(true);
    });

    test('with an unknown name reveals nothing and blocks nobody', async () => {
      const { people } = await opened();
      await people.add(newAccount('anna', { password: 'hash' }));
      for (let each = 0; each < 10; each += 1) {
        expect(await people.beginSignIn(each % 2 === 0 ? 'bert' : '')).toEqual({ password: null, open: false });
      }
      expect((await people.beginSignIn('anna')).open).toBe(true);
    });

    test('fails if the account was disabled or got another password meanwhile', async () => {
      const { people } = await opened();
      await people.add(newAccount('anna', { password: 'hash' }));
      await people.setState('anna', 'disabled');
      expect(await people.beginSignIn('anna')).toEqual({ password: 'hash', open: false });
      expect(await people.endSignIn('anna', 'hash')).toBeUndefined();
      await people.setState('anna', 'active');
      await people.setPassword('anna', 'hash2');
      expect(await people.endSignIn('anna', 'hash')).toBeUndefined();
      expect((await people.beginSignIn('anna')).password).toBe('hash2');
    });
  });
}
