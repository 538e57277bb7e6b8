/** A journal that is restored from a copy, while a process uses it or has not noticed yet: nothing is paid twice. */
import { copyFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import type { Client } from '../../src/api/operations.ts';
import { adopt } from '../../src/bulk/adopt.ts';
import { type JournalMemory, rememberJournal } from '../../src/bulk/journal-memory.ts';
import { MirrorsJournalMemory } from '../../src/store/journal-memory.ts';
import { reconcile } from '../../src/bulk/reconcile.ts';
import type { Journal } from '../../src/journal/port.ts';
import { openJournal } from '../support/journal-file.ts';
import { type Clock, dayMs, hourMs, minuteMs, systemClock, timestampOf } from '../../src/model/time.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { bulkClient, intentsOf, newUser, plan, send, sheetOf } from '../support/bulk.ts';
import { anna } from '../support/journal.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

async function open(file: string, clock: Clock = systemClock): Promise<Journal> {
  const journal = await openJournal(file, anna, clock);
  onTestFinished(() => journal.close());
  return journal;
}

function openMemory(folder: string): JournalMemory {
  openMirrorFile(`${folder}/mirror.db`).close();
  const memory = new MirrorsJournalMemory(`${folder}/mirror.db`);
  onTestFinished(() => memory.close());
  return memory;
}

async function paying() {
  const sandbox = await startSandbox({
    users: 5,
    emails: 5,
    now: Date.now(),
    behaviour: { late_commit_ms: 3_600_000 },
  });
  const client = bulkClient(sandbox);
  const folder = temporaryFolder();
  const user = newUser(sandbox, 100);
  const sheet = (name: string) => sheetOf([[user, 'add', '5', name]]);
  const made = () => sandbox.control.ledger().filter(({ user_id: id }) => Number(id) === user).length;
  return { sandbox, client, folder, file: `${folder}/journal.db`, user, sheet, made };
}

/** Plans a row in a journal and copies the journal; both then take the same step in the same millisecond. */
async function twoOfOne() {
  const { client, folder, file, sheet } = await paying();
  const first = await openJournal(file, anna);
  const { batch } = await plan(first, client, sheet('Credit'));
  await first.close();
  copyFileSync(file, `${folder}/copy.db`);
  const then = Date.now();
  const clock = { now: () => then };
  const [journal, copy] = [await open(file, clock), await open(`${folder}/copy.db`, clock)];
  for (const each of [journal, copy]) await each.setBatchState(batch, 'stopped');
  return { batch, memory: openMemory(folder), journal, copy };
}

test('of a journal and a copy that was restored in its place, only one may send', async () => {
  const { batch, memory, journal, copy } = await twoOfOne();
  const clock = systemClock;
  await rememberJournal({ journal, memory, clock }, batch);
  await expect(rememberJournal({ journal: copy, memory, clock }, batch)).rejects.toThrow(/older than the mirror/);
  await rememberJournal({ journal, memory, clock }, batch);
});

test('of a journal and its copy that send at the same moment, one is refused', async () => {
  const { batch, memory, journal, copy } = await twoOfOne();
  const both = [journal, copy].map((each) => rememberJournal({ journal: each, memory, clock: systemClock }, batch));
  const ends = await Promise.allSettled(both);
  expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
});

async function adoptAll(journal: Journal, client: Client): Promise<void> {
  const signal = new AbortController().signal;
  const ports = { journal, client, memory: null, clock: systemClock, signal };
  const whole = { batch: null, span: { from: null, to: null } };
  const rest = { directory: null, pageSize: 1_000, announce: () => {} };
  await adopt(ports, await reconcile({ ...ports, ...rest }, whole));
}

test('a payment that was adopted is not made again by a batch that was claimed before', async () => {
  const { client, file, sheet, made } = await paying();
  const journal = await openJournal(file, anna);
  const first = await plan(journal, client, sheet('Credit'));
  await journal.close();
  copyFileSync(file, `${file}.copy`);
  const later = await openJournal(file, anna);
  const second = await plan(later, client, sheet('Credit for the same'));
  expect((await send(later, client, second.batch)).error).toBeNull();
  await later.close();
  // The journal is restored as it was before the second plan, and no mirror remembers a newer one.
  copyFileSync(`${file}.copy`, file);
  const back = await open(file);
  expect((await send(back, client, first.batch)).error?.message).toMatch(/which is not in this journal/);
  await adoptAll(back, client);
  expect((await send(back, client, first.batch)).error?.message).toMatch(/sent before/);
  expect(made()).toBe(1);
});

test('a reason that was given for the plan does not cover payments that this journal does not know', async () => {
  const { client, file, sheet, made } = await paying();
  const journal = await openJournal(file, anna);
  await send(journal, client, (await plan(journal, client, sheet('Bonus of March'))).batch);
  await journal.close();
  copyFileSync(file, `${file}.copy`);
  const meant = { againReason: 'the bonus of April' };
  const later = await openJournal(file, anna);
  expect((await send(later, client, (await plan(later, client, sheet('April'), meant)).batch, meant)).error).toBeNull();
  await later.close();
  copyFileSync(`${file}.copy`, file);
  const back = await open(file);
  const { batch } = await plan(back, client, sheet('April'), meant);
  const { error } = await send(back, client, batch, meant);
  expect([error?.message, made()]).toEqual([expect.stringMatching(/which is not in this journal/), 2]);
  // A person who has read that may give a new reason.
  await send(back, client, batch);
  expect(made()).toBe(2);
  expect((await send(back, client, batch, { againReason: 'one was for another' })).error).toBeNull();
  expect(made()).toBe(3);
});

test('an adopted payment counts towards the bound of the day on which it was made', async () => {
  const { sandbox, client, file, sheet, made } = await paying();
  const journal = await openJournal(file, anna);
  await journal.close();
  copyFileSync(file, `${file}.copy`);
  const later = await openJournal(file, anna);
  await send(later, client, (await plan(later, client, sheet('Credit'))).batch);
  await later.close();
  copyFileSync(`${file}.copy`, file);
  const back = await open(file);
  await adoptAll(back, client);
  const other = newUser(sandbox, 100);
  const { batch } = await plan(back, client, sheetOf([[other, 'add', '5', 'Credit']]));
  const [tomorrow, caps] = [{ now: () => Date.now() + 25 * hourMs }, { maxDay: '9.00' }] as const;
  const tried = { caps } as Parameters<typeof send>[3];
  await expect(send(back, client, batch, tried)).rejects.toThrow(/bulk.max_day/);
  expect((await send(back, client, batch, { ...tried, clock: tomorrow })).error).toBeNull();
  expect(made()).toBe(1);
});

test('a row that a newer journal may have sent stays unknown until settle_after has passed since then', async () => {
  const { client, file, sheet, sandbox, user } = await paying();
  const journal = await open(file);
  const { batch } = await plan(journal, client, sheet('Credit'));
  sandbox.control.faultNext({ fault: 'reset_before', match: { method: 'PUT', path: `/users/${user}/` } });
  const newest = { journal: journal.id, step: 1_000, hash: 'of another chain', batch, at: timestampOf(Date.now()) };
  const states = async () => (await intentsOf(journal, batch)).map(({ state }) => state);
  sandbox.control.faultNext({ fault: 'lost', match: { method: 'PUT', path: `/users/${user}/` } });
  await send(journal, client, batch);
  await send(journal, client, batch);
  expect(await states()).toEqual(['unknown']);
  const memory = { recall: () => newest, remember: () => true, isCopy: () => false, close: () => {} };
  const later = { now: () => Date.now() + 11 * minuteMs };
  const soon = {
    recall: () => ({ ...newest, at: timestampOf(later.now() - minuteMs) }),
    remember: () => true,
    isCopy: () => false,
    close: () => {},
  };
  await send(journal, client, batch, { clock: later, memory: soon });
  expect(await states()).toEqual(['unknown']);
  await send(journal, client, batch, { clock: later, memory });
  expect(await states()).toEqual(['not_applied']);
});

test('a payment that was made while the clock was far behind does not look old once the clock is right', async () => {
  const { sandbox, client, file, user, made } = await paying();
  const clock = { now: () => systemClock.now() - 40 * dayMs };
  const behind = bulkClient(sandbox, 1_000, clock);
  const before = await open(file, clock);
  const first = await plan(before, behind, sheetOf([[user, 'add', '5', 'Credit']]), { clock });
  await send(before, behind, first.batch, { clock });
  const journal = await open(file);
  const { batch } = await plan(
    journal,
    client,
    sheetOf([
      [user, 'add', '5'],
      [newUser(sandbox, 0), 'add', '2'],
    ]),
  );
  const { error } = await send(journal, client, batch);
  expect(error).toMatchObject({
    exitCode: 8,
    message: expect.stringMatching(/^row 2 was not sent: .* was made later than/),
  });
  expect(made()).toBe(1);
  // With a reason it is sent.
  expect((await send(journal, client, batch, { againReason: 'the bonus of this month' })).error).toBeNull();
  expect(made()).toBe(2);
});
