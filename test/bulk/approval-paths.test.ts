/** Every path to a send is tried with every approval that does not count: no request that changes anything is sent. */
import { writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { recordedWrite } from '../../src/bulk/single-write.ts';
import type { Journal } from '../../src/journal/port.ts';
import type { Client } from '../../src/api/operations.ts';
import type { Actor } from '../../src/model/actor.ts';
import { FileError } from '../../src/model/errors.ts';
import type { BulkEvent } from '../../src/bulk/sending.ts';
import { hourMs, timestampOf } from '../../src/model/time.ts';
import type { People } from '../../src/people/people.ts';
import { bulkClient, send } from '../support/bulk.ts';
import { bulkWorld, type BulkWorld, creditFile } from '../support/bulk-cli.ts';
import { anna, newJournal, policyOf } from '../support/journal.ts';
import { matrix, sample } from '../support/part.ts';
import { newAccount, newPeople } from '../support/people.ts';

const rules = { approval: { balance: policyOf({ approvers: 2 }) }, caps: null };
const policy = 'bulk:\n  approval:\n    balance: { approvers: 2 }\n';
const me: Actor = { ...anna, name: userInfo().username };
const as = (account: string): Actor => ({ ...anna, name: 'web', account });
const words = { note: null, again: null };
const terms = { repeatsSince: timestampOf(0), daySince: timestampOf(0) };

interface World extends BulkWorld {
  readonly users: readonly number[];
  readonly name: string;
  readonly journal: Journal;
  readonly people: People;
  readonly client: Client;
}

async function open(): Promise<World> {
  const world = await bulkWorld();
  writeFileSync(join(world.folder, 'policy.yaml'), policy);
  const journalFile = join(world.folder, 'data/journal.db');
  const { people } = await newPeople({ now: Date.now }, journalFile);
  for (const name of ['bert', 'carla', 'dora']) {
    await people.add(newAccount(name, { roles: ['approver'], osUsers: [], password: 'hash' }));
  }
  const { users, name } = creditFile(world, 2);
  const { journal } = await newJournal({ now: () => Date.now() }, journalFile, rules);
  const client = bulkClient(world.sandbox);
  return { ...world, users, name, journal: journal.by(me), people, client };
}

function under(world: World): void {
  Object.assign(world.environment, { ADMIN_MIRROR_CONFIG: join(world.folder, 'policy.yaml') });
}

async function planned({ bulk }: World, ...argv: string[]): Promise<string> {
  return (await bulk([...argv, '--json'])).report().batch;
}

const planOf = (world: World) => planned(world, 'plan', 'balance', world.name);
const hash = async ({ journal }: World, batch: string) => (await journal.batch(batch))?.hash ?? '';

/** Prepares a batch under the policy, and then tries to send it. */
interface Path {
  readonly prepare: (world: World) => Promise<string>;
  readonly attempt: (world: World, batch: string) => Promise<unknown>;
}

const paths: Readonly<Record<string, Path>> = {
  apply: {
    prepare: planOf,
    attempt: async (world, batch) => world.bulk(['apply', batch, '--approve', await hash(world, batch)]),
  },
  'apply by a job of the worker': {
    prepare: planOf,
    attempt: async (world, batch) => {
      const environment = { ...world.environment, _ADMIN_MIRROR_JOB: 'nightly' };
      return world.bulk(['apply', batch, '--approve', await hash(world, batch)], { environment });
    },
  },
  run: {
    prepare: planOf,
    attempt: (world) => world.bulk(['run', 'balance', world.name, '--yes']),
  },
  resume: {
    prepare: async (world) => {
      const batch = await planOf(world);
      await world.journal.setBatchState(batch, 'stopped');
      return batch;
    },
    attempt: ({ bulk }, batch) => bulk(['resume', batch]),
  },
  'resolve --resend, and resume': {
    prepare: async (world) => {
      const { journal, bulk } = world;
      const batch = await planOf(world);
      await journal.submit(batch, words);
      await approvals(journal, batch, ['bert', 'carla']);
      await journal.claim(batch, terms, () => []);
      for (const row of [2, 3]) {
        const seenBefore = { found: true, balance: '10.00', hits: 0, others: [], transactions: [] };
        await journal.move({ batch, row, from: 'planned', to: 'sending', fields: { seenBefore } });
        await journal.move({ batch, row, from: 'sending', to: 'unknown' });
        await journal.move({ batch, row, from: 'unknown', to: 'not_applied' });
      }
      for (const row of [2, 3]) {
        await bulk(['resolve', batch, '--row', String(row), '--not-applied', '--resend', '--reason', 'x']);
      }
      return batch;
    },
    attempt: ({ bulk }, batch) => bulk(['resume', batch]),
  },
  'undo, and apply': {
    prepare: async (world) => {
      Object.assign(world.environment, { ADMIN_MIRROR_CONFIG: '' });
      const first = await planned(world, 'run', 'balance', world.name, '--yes');
      under(world);
      return planned(world, 'undo', first);
    },
    attempt: async (world, batch) => world.bulk(['apply', batch, '--approve', await hash(world, batch)]),
  },
  sendBatch: {
    prepare: planOf,
    attempt: ({ journal, client }, batch) => send(journal, client, batch),
  },
  'claim, move and the request itself': {
    prepare: planOf,
    attempt: async ({ journal, client, users }, batch) => {
      await journal.claim(batch, terms, () => []).catch(() => {});
      const body = '{"type":"add","amount":5.00,"description":"x"}';
      const isMoved = await journal.move({ batch, row: 2, from: 'planned', to: 'sending', fields: { body } });
      if (isMoved) await client.sendExactly('users.update-balance', users[0], body);
    },
  },
};

async function approvals(journal: Journal, batch: string, accounts: readonly string[]): Promise<void> {
  for (const account of accounts) {
    await journal.by(as(account)).approve(batch, (await journal.approval(batch))?.hash ?? '');
  }
}

const both = ['bert', 'carla'] as const;

/** The approvals at the time of the attempt. */
const situations: Readonly<Record<string, (world: World, batch: string) => Promise<void>>> = {
  'no approval': async () => {},
  'one approval of two': async ({ journal }, batch) => {
    await journal.submit(batch, words);
    await approvals(journal, batch, ['bert']);
  },
  'approvals that have expired': async ({ journal }, batch) => {
    await journal.submit(batch, words);
    await approvals(journal, batch, both);
    const now = Date.now.bind(Date);
    const later = vi.spyOn(Date, 'now').mockImplementation(() => now() + 80 * hourMs);
    onTestFinished(() => later.mockRestore());
  },
  'approvals that a denial has ended': async ({ journal }, batch) => {
    await journal.submit(batch, words);
    await approvals(journal, batch, both);
    await journal.by(as('dora')).deny(batch, 'no');
  },
  'approvals of the person who made it': async ({ journal, people }, batch) => {
    await journal.submit(batch, words);
    await approvals(journal, batch, both);
    await people.setOsUsers('carla', [me.name]);
  },
  'approvals of accounts that are disabled': async ({ journal, people }, batch) => {
    await journal.submit(batch, words);
    await approvals(journal, batch, both);
    await people.setState('bert', 'disabled');
  },
  'approvals of another batch': async (world) => {
    const { journal } = world;
    const other = await planned(world, 'plan', 'balance', creditFile(world, 1, '1', 'other.csv').name);
    await journal.submit(other, words);
    await approvals(journal, other, both);
  },
};

/** Requests that change something on the server. */
const changes = ({ sandbox }: World): number =>
  sandbox.control.requests().recent.filter(({ method }) => method !== 'GET').length;

async function tried(path: string, situation: (world: World, batch: string) => Promise<void>) {
  const world = await open();
  under(world);
  const { prepare, attempt } = paths[path] ?? paths['apply'] ?? { prepare: planOf, attempt: async () => {} };
  const batch = await prepare(world);
  await situation(world, batch);
  const before = changes(world);
  await Promise.resolve(attempt(world, batch)).catch(() => {});
  const { problems } = await world.journal.verifyChain();
  return { sent: changes(world) - before, problems };
}

const cases = matrix(Object.keys(situations), Object.keys(paths));

// proves: no-way-around
test.each(sample(cases, 12))('with %s no request is sent by %s', async (situation, path) => {
  expect(await tried(path, situations[situation] ?? (async () => {}))).toEqual({ sent: 0, problems: [] });
});

test.each(Object.keys(paths).map((path) => ({ path })))(
  'with both approvals a request is sent by $path',
  async ({ path }) => {
    const { sent } = await tried(path, async ({ journal }, batch) => {
      await journal.submit(batch, words);
      await approvals(journal, batch, both);
    });
    expect(sent).toBeGreaterThan(0);
  },
);

test('no change by hand is sent, by the command line or through the journal', async () => {
  const world = await open();
  under(world);
  const { command, journal, client, users } = world;
  const [user = 0] = users;
  const argv = ['users', 'update-balance', String(user), '--type', 'add', '--amount', '1', '--yes'];
  expect((await command(argv)).code).toBe(2);
  const body = { type: 'add', amount: '1' };
  const write = { operation: 'users.update-balance', user, body: JSON.stringify(body), fingerprint: null };
  const straight = recordedWrite(
    journal,
    write,
    async () => {},
    () => client.sendExactly('users.update-balance', user, JSON.stringify(body)),
    String,
  );
  await expect(straight).rejects.toThrow(/must be approved by another person/);
  expect([changes(world), await journal.writes(1)]).toEqual([0, []]);
});

test('a batch stops if its approvals expire while it is sent, and says that nothing more was sent', async () => {
  const world = await open();
  under(world);
  const batch = await planOf(world);
  await world.journal.submit(batch, words);
  await approvals(world.journal, batch, both);
  let at = Date.now();
  const { journal } = await newJournal({ now: () => at }, join(world.folder, 'data/journal.db'), rules);
  const onEvent = ({ kind }: BulkEvent): void => {
    if (kind === 'row') at += 80 * hourMs;
  };
  const { error } = await send(journal.by(me), world.client, batch, { onEvent });
  expect(error?.message).toMatch(/has expired.*; nothing more was sent$/);
  expect([error?.exitCode, changes(world)]).toEqual([5, 1]);
});

test('a change by hand ends as unknown if the journal cannot record its end', async () => {
  const { journal, client, users } = await open();
  const [user = 0] = users;
  const body = { type: 'add', amount: '1' };
  const write = { operation: 'users.update-balance', user, body: JSON.stringify(body), fingerprint: null };
  const away = {
    ...journal,
    beginWrite: () => Promise.resolve(1),
    endWrite: () => Promise.reject(new FileError('away')),
  };
  const sent = recordedWrite(
    away,
    write,
    async () => {},
    () => client.sendExactly('users.update-balance', user, JSON.stringify(body)),
    String,
  );
  await expect(sent).rejects.toMatchObject({
    exitCode: 8,
    message: expect.stringMatching(/away\. The change was sent/),
  });
});
