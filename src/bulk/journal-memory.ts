/**
 * Checks that the journal is the one that knows what was sent. The mirror remembers the newest step of its chain, so a journal that
 * was lost, emptied, cut or restored from a copy is noticed. Section "Consent" of docs/architecture.md.
 */
import type { Head } from '../journal/chain.ts';
import type { Journal } from '../journal/port.ts';
import { NotSentError, OutcomeUnknownError } from '../model/errors.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import type { RememberedJournal } from '../store/journal-memory.ts';
import type { SendingPorts } from './sending.ts';

/** Where the newest step of the journal is remembered, apart from the journal: in the mirror. */
export interface JournalMemory {
  /** Null if nothing was ever sent. */
  recall(): RememberedJournal | null;
  /** Replaces what was recalled. Returns false if another process has replaced it meanwhile. */
  remember(newest: RememberedJournal, recalled: RememberedJournal | null): boolean;
}

type Ports = Pick<SendingPorts, 'journal' | 'memory' | 'clock'>;

/**
 * Remembers the newest step of the journal. Must be called before each request that sends money. Throws a UsageError if the mirror
 * knows a newer journal: this one may have been restored from a copy after its rows were claimed.
 */
export async function rememberJournal({ journal, memory, clock }: Ports, batch: string | null): Promise<void> {
  if (memory === null) return;
  for (;;) {
    const known = memory.recall();
    // Does not look for gaps: the claim did, and that reads the whole chain.
    const lacked = known !== null && (await lacks(journal, known));
    const problem = memoryProblem(known, { id: journal.id, gap: null, lacks: lacked });
    if (problem !== null) throw notTheJournal(problem);
    const head = await journal.head();
    if (head === undefined) return;
    // False if another process remembered a step meanwhile, of this journal or another one: look again.
    if (memory.remember({ journal: journal.id, batch, ...head, at: timestampOf(clock.now()) }, known)) return;
  }
}

/** Remembers the newest step after steps that sent nothing. Changes nothing if the mirror knows no journal, or another one. */
export async function refreshMemory({ journal, memory }: Ports): Promise<void> {
  if (memory === null) return;
  const known = memory.recall();
  if (known === null || (await problemOf({ journal }, known)) !== null) return;
  // `batch` and `at` stay those of the last request.
  memory.remember({ ...known, ...(await journal.head()) }, known);
}

/** Remembers the newest step of a shared journal, even if this machine never sends. */
export async function rememberShared(
  memory: JournalMemory,
  head: Head & { readonly journal: string },
  hasStep: (step: Head) => Promise<boolean>,
  clock: Clock,
): Promise<void> {
  const known = memory.recall();
  const { journal, step, hash } = head;
  // If the mirror knows a newer or another journal, it must keep that: it is the reason not to send from this one.
  if (known !== null && (known.journal !== journal || known.step > step || !(await hasStep(known)))) return;
  const at = timestampOf(clock.now());
  const sent = known === null || known.seen ? { batch: null, at, seen: true as const } : known;
  memory.remember({ ...sent, journal, step, hash }, known);
}

/**
 * Throws a UsageError if this journal is not the one that knows what was sent, and an OutcomeUnknownError if a row has shown that it
 * is older than the server.
 */
export async function checkJournal(ports: Pick<Ports, 'journal' | 'memory'>): Promise<void> {
  const problem = await problemOf(ports, ports.memory?.recall() ?? null);
  if (problem !== null) throw notTheJournal(problem);
  const found = await ports.journal.behind();
  if (found !== undefined) throw journalBehind(found.behind ?? '');
}

function notTheJournal(problem: string): NotSentError {
  return new NotSentError(problem, {
    advice: `A journal that was lost, damaged or restored from a copy does not know what was paid since. ${rightJournalAdvice}`,
  });
}

export function journalBehind(why: string): OutcomeUnknownError {
  return new OutcomeUnknownError(`this journal is older than the server: ${why}; nothing more is sent from it`, {
    advice:
      'It was restored from a copy, or another one was in use since. Put the newest journal back. If there is none, ' +
      '`admin-mirror bulk reconcile --adopt` reads the transactions of all users and records what was made.',
  });
}

export const rightJournalAdvice =
  'Put the newest one back. If it is gone for good, `admin-mirror bulk reconcile --adopt` reads the transactions of all ' +
  'users and records what this journal lacks. If the server shows no transactions, look at these users yourself; then ' +
  'accept this journal, once: `admin-mirror bulk reconcile --accept-journal --reason "…"`.';

/**
 * Says why the journal at this path is not the one that knows what was sent; null if nothing speaks against it. Does not look for gaps,
 * which reads the whole chain. @param journal undefined if there is none
 */
export async function journalDoubt(
  memory: Pick<JournalMemory, 'recall'> & { isCopy(): boolean },
  path: string,
  journal: Journal | undefined,
): Promise<string | null> {
  const known = memory.recall();
  // A snapshot for others comes without the journal.
  if (known === null || (journal === undefined && memory.isCopy())) return null;
  if (journal === undefined) return `there is no journal at ${path}, but this mirror knows one${useOf(known)}`;
  return memoryProblem(known, { id: journal.id, gap: null, lacks: await lacks(journal, known) });
}

function useOf({ seen, at, batch }: RememberedJournal): string {
  const day = at.slice(0, 16);
  const sent = batch === null ? 'a change by hand' : `batch ${batch}`;
  return seen ? `, which was in use on ${day}` : `, by which ${sent} was sent on ${day}`;
}

/** When the newest request that this journal does not know was sent; null if the mirror knows of none. */
export async function newestUnknownSend(ports: Pick<Ports, 'journal' | 'memory'>): Promise<Timestamp | null> {
  const known = ports.memory?.recall() ?? null;
  return known !== null && (await lacks(ports.journal, known)) ? known.at : null;
}

/** Accepts the journal as the right one from now on, for a person's reason. Does nothing if it already counts as the right one. */
export async function acceptJournal(ports: Ports, reason: string): Promise<void> {
  const known = ports.memory?.recall() ?? null;
  if ((await problemOf(ports, known)) === null) return;
  const { journal, memory, clock } = ports;
  await journal.accept(reason, known === null ? null : { step: known.step, hash: known.hash });
  const head = await journal.head();
  if (head === undefined) return;
  memory?.remember({ journal: journal.id, batch: known?.batch ?? null, ...head, at: timestampOf(clock.now()) }, known);
}

async function problemOf({ journal }: Pick<Ports, 'journal'>, known: RememberedJournal | null): Promise<string | null> {
  return memoryProblem(known, {
    id: journal.id,
    gap: await journal.gap(),
    lacks: known !== null && (await lacks(journal, known)),
  });
}

/** Says why the journal is not the one that knows what was sent; null if nothing speaks against it. Pure. */
export function memoryProblem(
  known: RememberedJournal | null,
  journal: { readonly id: string; readonly gap: number | null; readonly lacks: boolean },
): string | null {
  const { gap } = journal;
  if (gap !== null) return `steps of this journal are missing: step ${gap} does not follow the one before it`;
  if (known === null || !journal.lacks) return null;
  if (known.journal !== journal.id) return `this mirror knows another journal${useOf(known)}`;
  const how = known.seen ? `, which it had on ${known.at.slice(0, 16)}` : useOf(known);
  return `this journal is older than the mirror: it lacks step ${known.step}${how}`;
}

async function lacks(journal: Journal, known: RememberedJournal): Promise<boolean> {
  return known.journal !== journal.id || !(await journal.hasStep(known));
}
