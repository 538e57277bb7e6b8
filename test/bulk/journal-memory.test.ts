/** What the mirror remembers of the journal that sent money, and when another journal is refused for it. */
import { expect, onTestFinished, test } from 'vitest';
import {
  acceptJournal,
  checkJournal,
  memoryProblem,
  newestUnknownSend,
  refreshMemory,
  rememberJournal,
  rememberShared,
} from '../../src/bulk/journal-memory.ts';
import { MirrorsJournalMemory } from '../../src/store/journal-memory.ts';
import type { Journal } from '../../src/journal/port.ts';
import { type Timestamp, timestampOf } from '../../src/model/time.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const clock = { now: () => sandboxNow };
const at = timestampOf(sandboxNow);
const sent = { journal: 'ours', step: 7, hash: 'h7', batch: 'one', at: '2026-03-11T10:20:30.000000Z' as Timestamp };
const ours = { id: 'ours', gap: null, lacks: false };

function memoryOf(file = `${temporaryFolder()}/mirror.db`): MirrorsJournalMemory {
  openMirrorFile(file).close();
  const memory = new MirrorsJournalMemory(file);
  onTestFinished(() => memory.close());
  return memory;
}

/** A journal with the steps of these batches. */
async function journalWith(...batches: readonly string[]): Promise<Journal> {
  const { journal } = await newJournal();
  for (const batch of batches) await journal.addBatch(newBatch({ batch, hash: batch }), [newIntent(2, 7)]);
  return journal;
}

test.each([
  ['nothing was ever sent', null, ours, null],
  ['nothing was ever sent that it could lack', null, { ...ours, lacks: true }, null],
  ['it has the step that is remembered', sent, ours, null],
  [
    'steps are missing',
    null,
    { ...ours, gap: 4 },
    'steps of this journal are missing: step 4 does not follow the one before it',
  ],
  [
    'it lacks the step',
    sent,
    { ...ours, lacks: true },
    'this journal is older than the mirror: it lacks step 7, by which batch one was sent on 2026-03-11T10:20',
  ],
  [
    'it lacks the step of a change by hand',
    { ...sent, batch: null },
    { ...ours, lacks: true },
    'this journal is older than the mirror: it lacks step 7, by which a change by hand was sent on 2026-03-11T10:20',
  ],
  [
    'it lacks the step that it was seen to have',
    { ...sent, seen: true as const },
    { ...ours, lacks: true },
    'this journal is older than the mirror: it lacks step 7, which it had on 2026-03-11T10:20',
  ],
  [
    'another one is known',
    sent,
    { ...ours, id: 'other', lacks: true },
    'this mirror knows another journal, by which batch one was sent on 2026-03-11T10:20',
  ],
  [
    'another one was seen',
    { ...sent, seen: true as const },
    { ...ours, id: 'other', lacks: true },
    'this mirror knows another journal, which was in use on 2026-03-11T10:20',
  ],
])('whether a journal may send if %s', (_, known, journal, problem) => {
  expect(memoryProblem(known, journal)).toBe(problem);
});

test('the newest step of a journal is remembered with each request', async () => {
  const [journal, memory] = [await journalWith('one'), memoryOf()];
  const ports = { journal, memory, clock };
  expect(memory.recall()).toBeNull();
  expect(await newestUnknownSend(ports)).toBeNull();
  await rememberJournal(ports, 'one');
  const head = await journal.head();
  expect(memory.recall()).toEqual({ journal: journal.id, batch: 'one', at, ...head });
  await journal.setBatchState('one', 'stopped');
  await rememberJournal(ports, null);
  expect(memory.recall()).toEqual({ journal: journal.id, batch: null, at, ...(await journal.head()) });
  await checkJournal(ports);
  expect(await newestUnknownSend(ports)).toBeNull();
});

test('another journal is refused, and steps that sent nothing are remembered only of the known journal', async () => {
  const [journal, other, memory] = [await journalWith('one'), await journalWith('one'), memoryOf()];
  await refreshMemory({ journal, memory, clock });
  expect(memory.recall()).toBeNull();
  await rememberJournal({ journal, memory, clock: { now: () => sandboxNow - 1_000 } }, 'one');
  const known = memory.recall();
  await refreshMemory({ journal: other, memory, clock });
  expect(memory.recall()).toEqual(known);
  for (const work of [
    checkJournal({ journal: other, memory }),
    rememberJournal({ journal: other, memory, clock }, 'two'),
  ]) {
    await expect(work).rejects.toThrow(
      /this mirror knows another journal, by which batch one was sent on .*; nothing was sent/,
    );
  }
  expect(await newestUnknownSend({ journal: other, memory })).toBe(known?.at);
  await journal.setBatchState('one', 'stopped');
  await refreshMemory({ journal, memory, clock });
  // The time of the last send stays.
  expect(memory.recall()).toEqual({ ...known, ...(await journal.head()) });
});

test('another journal that a person accepts is known from then on', async () => {
  const [journal, other, memory] = [await journalWith('one'), await journalWith('two'), memoryOf()];
  const notes = async () => (await Array.fromAsync(other.audit({}))).map(({ kind, note }) => `${kind} ${note}`);
  // Nothing speaks against this one, so there is nothing to accept.
  await acceptJournal({ journal, memory, clock }, 'why not');
  expect(memory.recall()).toBeNull();
  await rememberJournal({ journal, memory, clock: { now: () => sandboxNow - 1_000 } }, 'one');
  await acceptJournal({ journal: other, memory, clock }, 'the old one is gone');
  expect(await notes()).toContainEqual(expect.stringContaining('the old one is gone'));
  expect(memory.recall()).toEqual({ journal: other.id, batch: 'one', at, ...(await other.head()) });
  await checkJournal({ journal: other, memory });
  await expect(checkJournal({ journal, memory })).rejects.toThrow(/knows another journal/);
});

test('the reason of a person is recorded with the step that the journal lacks, or with none if the chain has a gap', async () => {
  const journal = await journalWith('one');
  const memory = memoryOf();
  const accepted: unknown[] = [];
  const accept: Journal['accept'] = (reason, lacked) => {
    accepted.push([reason, lacked]);
    return Promise.resolve();
  };
  const broken: Journal = { ...journal, accept, gap: () => Promise.resolve(4) };
  await acceptJournal({ journal: broken, memory: null, clock }, 'no mirror');
  await acceptJournal({ journal: broken, memory, clock }, 'nothing known');
  expect(memory.recall()).toEqual({ journal: journal.id, batch: null, at, ...(await journal.head()) });
  expect(memory.remember(sent, memory.recall())).toBe(true);
  await acceptJournal({ journal: { ...journal, accept }, memory, clock }, 'lost');
  expect(accepted).toEqual([
    ['no mirror', null],
    ['nothing known', null],
    ['lost', { step: 7, hash: 'h7' }],
  ]);
});

test('the newest step of a shared journal is kept, never an older one', async () => {
  const memory = memoryOf();
  const has = (found: boolean) => () => Promise.resolve(found);
  const head = { journal: 'ours', step: 3, hash: 'h3' };
  await rememberShared(memory, head, has(true), clock);
  expect(memory.recall()).toEqual({ ...head, batch: null, at, seen: true });
  const later = { now: () => sandboxNow + 60_000 };
  // A journal that is seen again gets the later time.
  await rememberShared(memory, { ...head, step: 4, hash: 'h4' }, has(true), later);
  expect(memory.recall()).toEqual({
    journal: 'ours',
    step: 4,
    hash: 'h4',
    batch: null,
    at: timestampOf(later.now()),
    seen: true,
  });
  const known = memory.recall();
  const last = { now: () => sandboxNow + 120_000 };
  await rememberShared(memory, { ...head, step: 4, hash: 'h4' }, has(true), last);
  expect(memory.recall()).toEqual({ ...known, at: timestampOf(last.now()) });
  const newest = memory.recall();
  await rememberShared(memory, { ...head, step: 3 }, has(true), later);
  await rememberShared(memory, { journal: 'other', step: 9, hash: 'h9' }, has(true), later);
  await rememberShared(memory, { ...head, step: 9, hash: 'x9' }, has(false), later);
  expect(memory.recall()).toEqual(newest);
  expect(memory.remember(sent, newest)).toBe(true);
  await rememberShared(memory, { ...head, step: 8, hash: 'h8' }, has(true), later);
  expect(memory.recall()).toEqual({ ...sent, step: 8, hash: 'h8' });
});

test('what another process remembered meanwhile is not overwritten', () => {
  const memory = memoryOf();
  expect(memory.remember(sent, null)).toBe(true);
  expect(memory.remember({ ...sent, step: 8, hash: 'h8' }, null)).toBe(false);
  expect(memory.recall()).toEqual(sent);
  expect(memory.remember({ ...sent, step: 8, hash: 'h8' }, sent)).toBe(true);
  expect(memory.recall()?.step).toBe(8);
});
