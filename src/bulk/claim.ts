/**
 * Consent: whether the rows of a batch may go out now, decided on everything that the journal knows, in the transaction
 * that claims them, and whether it is still the same file, server and key. `run`, `apply` and `resume` all go through it.
 * Section "Consent" of docs/architecture.md.
 */
import { createHash } from 'node:crypto';
import type { Batch, ClaimNote, ClaimTerms, ClaimView, Journal, NewBatch, SentRow } from '../journal/port.ts';
import { counted } from '../model/text.ts';
import { OutcomeUnknownError, UsageError } from '../model/errors.ts';
import { explainFileError, readRegularFile } from '../model/files.ts';
import type { Client } from '../api/client.ts';
import { type Clock, dayMs, minuteMs, minuteOf, timestampOf } from '../model/time.ts';
import { type Caps, noCaps } from '../model/money.ts';
import { type Again, checkApproved } from './approval.ts';
import { batchCapProblem, capAdvice } from '../model/caps.ts';
import { keyOwner, type LiveClient } from './live-users.ts';
import { limits } from './sheet/limits.ts';

export interface Rules {
  readonly caps: Caps;
  /** How long a row that went out makes the same row ask, ms. */
  readonly againWithinMs: number;
}

export interface Consent extends Rules {
  readonly again: Again;
  /** How it was approved: `by typing 12.50`. Null where a batch that was approved before goes on. */
  readonly approved: string | null;
}

/** Claims what is planned of the batch. Throws an OperatorError where it may not go out; nothing is changed then. */
export async function claimRows(journal: Journal, batch: string, consent: Consent, clock: Clock): Promise<void> {
  await journal.claim(batch, termsOf(consent, clock), (view, found) => decideClaim(view, found, consent));
}

/** Throws where the rows may not go out, by what was found; else what is to be put on record of it. Pure. */
export function decideClaim(
  view: ClaimView,
  found: Pick<Batch, 'batch' | 'state' | 'appliedAt' | 'fileHash' | 'undoOf' | 'againReason'>,
  consent: Pick<Consent, 'caps' | 'again' | 'approved'>,
): ClaimNote[] {
  if (consent.approved !== null && found.state !== 'planned') {
    throw found.appliedAt === null ? endedBefore(found) : approvedBefore(found);
  }
  // A reason that was given for the plan holds for it.
  const reason = consent.again.reason ?? (found.state === 'planned' ? found.againReason : null);
  checkClaim(view, found, consent, { reason });
  const notes: ClaimNote[] = [];
  if (reason !== null) notes.push({ kind: 'again', note: reason });
  if (consent.approved !== null) notes.push({ kind: 'consented', note: consent.approved });
  return notes;
}

/** The same before anybody is asked, so that nobody consents to what is refused then. */
export async function checkClaimable(
  journal: Journal,
  batch: Batch,
  consent: Omit<Consent, 'approved'>,
  clock: Clock,
): Promise<void> {
  const reason = consent.again.reason ?? batch.againReason;
  const view = await journal.claimView(batch, await journal.claimable(batch.batch), termsOf(consent, clock));
  checkClaim(view, batch, consent, { reason });
  await checkApproved(journal, batch, { reason });
}

function endedBefore({ batch }: Pick<Batch, 'batch'>): UsageError {
  return new UsageError(
    `batch ${batch} was ended meanwhile, by whoever discarded it or found its rows on the server; nothing was sent`,
    { advice: `See who and why with \`admin-mirror bulk status ${batch}\`.` },
  );
}

export function approvedBefore({ batch, state }: Pick<Batch, 'batch' | 'state'>): UsageError {
  return new UsageError(`batch ${batch} was approved before`, {
    advice:
      state === 'done'
        ? `It is done: see the outcome of its rows with \`admin-mirror bulk results ${batch}\`.`
        : `Go on with it by \`admin-mirror bulk resume ${batch}\`.`,
  });
}

/**
 * This machine's clock, or the server's where that is behind it: what was paid must not look old to a machine whose clock has leapt
 * ahead.
 */
export function earlierClock({
  clock,
  client,
}: {
  readonly clock: Clock;
  readonly client: Pick<Client, 'counters'>;
}): Clock {
  const { serverAheadMs: ahead = 0 } = client.counters;
  return ahead < -minuteMs ? { now: () => clock.now() + ahead } : clock;
}

export function termsOf({ againWithinMs }: Pick<Rules, 'againWithinMs'>, clock: Clock): ClaimTerms {
  const now = clock.now();
  return { repeatsSince: timestampOf(now - againWithinMs), daySince: timestampOf(now - dayMs) };
}

/** Throws where what was found speaks against sending the rows. */
function checkClaim(
  view: ClaimView,
  batch: Pick<NewBatch, 'batch' | 'fileHash' | 'undoOf'>,
  { caps }: Pick<Rules, 'caps'>,
  again: Again,
): void {
  const { behind, overApplied, rows, claimedToday } = view;
  if (behind !== undefined) throw journalBehind(behind.batch, behind.behind ?? '');
  if (overApplied !== undefined) throw madeTwice(overApplied);
  const problem = batchCapProblem(rows, claimedToday, batch.undoOf === null ? caps : noCaps);
  if (problem !== null) throw new UsageError(`${problem}; nothing was sent`, { advice: capAdvice });
  checkNotRepeated(view, batch, again);
  if (again.reason !== null) return;
  // Also of what takes rows back: something that was found on the server and never sent from here may have done it already, and
  // what is proven not applied may still do it.
  const found = repeatsOf({
    rows,
    repeats: view.repeats.filter((each) => each.found || each.state === 'not_applied'),
  });
  if (found.length > 0) throw sentBefore(found, 'Look at these users on the server');
}

/** Throws a UsageError where the file, its rows or one of them went out before, and nobody said why it shall again. */
export function checkNotRepeated(
  view: ClaimView,
  { fileHash, undoOf }: Pick<NewBatch, 'fileHash' | 'undoOf'>,
  again: Again,
): void {
  // What takes a row back is guarded by that row: it can be taken back once.
  if (undoOf !== null || again.reason !== null) return;
  checkFileNotSent(view, fileHash);
  const repeats = repeatsOf(view);
  if (repeats.length > 0) throw sentBefore(repeats);
}

const sendAgain = 'To send it a second time on purpose: --again --reason "…".';

function checkFileNotSent({ like, rows }: ClaimView, fileHash: string | null): void {
  // Consent was given to the rest of a batch when it was first claimed.
  if (!rows.some(({ claimedAt }) => claimedAt === null)) return;
  const [before] = like;
  if (before === undefined) return;
  const what = fileHash !== null && fileHash === before.fileHash ? 'this file was' : 'the same rows were';
  throw new UsageError(
    `${what} sent before, on ${minuteOf(before.appliedAt ?? before.createdAt)} as batch ${before.batch}`,
    {
      advice:
        `See its outcome with \`admin-mirror bulk status ${before.batch}\`` +
        `${before.state === 'done' ? '' : `, and go on with it by \`admin-mirror bulk resume ${before.batch}\``}. ${sendAgain}`,
    },
  );
}

interface Repeat {
  readonly row: number;
  readonly user: number | null;
  readonly before: SentRow;
}

/** Rows that do what was done already; of several times, the last. What was known when the row was claimed is none. */
function repeatsOf({ rows, repeats }: Pick<ClaimView, 'rows' | 'repeats'>): Repeat[] {
  const known = Map.groupBy(repeats, (each) => each.fingerprint);
  return rows.flatMap(({ row, user, fingerprint, claimedAt }) => {
    const before = known.get(fingerprint ?? '')?.findLast((each) => claimedAt === null || each.claimedAt > claimedAt);
    return before === undefined ? [] : [{ row, user, before }];
  });
}

/** What did the same as a write by hand, the last of it, in words; null where nothing did. */
export async function doneBefore(
  journal: Pick<Journal, 'claimView'>,
  fingerprint: string | null,
  rules: Pick<Rules, 'againWithinMs'>,
  clock: Clock,
): Promise<string | null> {
  const row = { row: 0, user: null, fingerprint, plannedBefore: null, plannedAfter: null, claimedAt: null };
  const none = { batch: '', fileHash: null, rowsDigest: '' };
  const { repeats } = await journal.claimView(none, [row], termsOf(rules, clock));
  const before = repeats.at(-1);
  return before === undefined ? null : `the same ${wordsOf(before)}`;
}

const mostNamed = 20;

/** `row 3: the same for user 42 was applied on 2026-03-11 10:20 UTC, row 3 of batch 20260311-102000-k7qa`. */
export function repeatLines(view: Pick<ClaimView, 'rows' | 'repeats'>): string[] {
  return repeatsOf(view).map(lineOf);
}

function lineOf({ row, user, before }: Repeat): string {
  return `row ${row}: the same for ${user === null ? 'the new user' : `user ${user}`} ${wordsOf(before)}`;
}

function sentBefore(repeats: readonly Repeat[], instead = 'Take these rows out of the file'): UsageError {
  const lines = repeats.slice(0, mostNamed).map(lineOf);
  const more = repeats.length - lines.length;
  const what = counted(repeats.length, 'row was', 'rows were');
  return new UsageError(`${what} sent before; nothing was sent now`, {
    advice: [...lines, ...(more > 0 ? [`and ${more} more`] : []), `${instead}. ${sendAgain}`].join('\n'),
  });
}

function wordsOf({ state, at, batch, row }: SentRow): string {
  const where = batch === null ? 'by hand' : `row ${row} of batch ${batch}`;
  return `${stateWords[state] ?? 'may have been made'} on ${minuteOf(at)}, ${where}`;
}

const stateWords: Readonly<Partial<Record<SentRow['state'], string>>> = {
  applied: 'was applied',
  done: 'was applied',
  refused: 'was refused (not verified)',
  nothing_done: 'was put off by the server (not verified)',
  planned: 'was approved and waits to be sent,',
  blocked: 'was approved and waits to be sent,',
  not_applied: 'was sent and not found (a late write may still appear)',
};

/** The server shows what this journal never sent: what else it lacks, nobody can tell. */
export function journalBehind(batch: string, why: string): OutcomeUnknownError {
  return new OutcomeUnknownError(`this journal is older than the server: ${why}; nothing more is sent from it`, {
    advice:
      'It was put back from a copy, or another one was in use since. Put the newest journal back. Where there is none, ' +
      '`admin-mirror bulk reconcile --adopt` reads the transactions of all users and records what was made; ' +
      `with \`bulk reconcile ${batch} --adopt\`, of this batch alone.`,
  });
}

function madeTwice({ batch, row }: { readonly batch: string; readonly row: number }): OutcomeUnknownError {
  return new OutcomeUnknownError(`row ${row} of batch ${batch} was made more than once; nothing more is sent`, {
    advice:
      `\`admin-mirror bulk status ${batch}\` says how to take back what is too much. Then say so: ` +
      `admin-mirror bulk resolve ${batch} --row ${row} --applied --reason "…".`,
  });
}

const planAgain = 'Plan it again, and look at it again.';

/** Throws a UsageError where the file has other bytes than it had in the plan. One that is gone changes nothing. */
export function checkFile({ file, fileHash }: Batch, path: string | null): void {
  if (file === null || path === null || fileHash === null) return;
  let bytes: Uint8Array;
  try {
    ({ bytes } = readRegularFile(path, limits.fileBytes));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw explainFileError(error, 'read', path) ?? error;
  }
  if (createHash('sha256').update(bytes).digest('hex') === fileHash) return;
  throw new UsageError(`${file} has changed since the batch was planned from it; nothing was sent`, {
    advice: planAgain,
  });
}

/** Throws a UsageError where the server, or the user behind the key, is another than in the plan. */
export async function checkServer(
  { batch, server }: Batch,
  client: Pick<LiveClient, 'auth' | 'address' | 'keyMark'>,
  signal: AbortSignal,
): Promise<void> {
  if (client.address !== server.address) {
    throw new UsageError(
      `batch ${batch} was planned for ${server.address}, and this is ${client.address}; nothing was sent`,
      { advice: `Give the address that it was planned for, or plan it for this one. ${planAgain}` },
    );
  }
  const owner = await keyOwner(client, signal);
  const same = owner === null || server.owner === null ? client.keyMark === server.keyMark : owner === server.owner;
  if (same) return;
  throw new UsageError(`batch ${batch} was planned with the key of another user; nothing was sent`, {
    advice: `Use that key, or plan it with this one. ${planAgain}`,
  });
}

/** The batch of that name. Throws a UsageError where there is none. */
export async function batchOf(journal: Pick<Journal, 'batch' | 'batches'>, name: string): Promise<Batch> {
  const found = await journal.batch(name);
  if (found !== undefined) return found;
  const [newest] = await journal.batches();
  if (name === 'last' && newest !== undefined) {
    throw new UsageError('whatever changes a batch needs its name', {
      advice: `"last" may be another one by then. The newest is ${newest.batch}.`,
    });
  }
  const which = name === 'last' ? '' : ` ${name}`;
  throw new UsageError(`there is no batch${which}`, {
    advice:
      newest === undefined
        ? 'Nothing was planned yet.'
        : `The newest is ${newest.batch}; \`admin-mirror bulk status\` lists all.`,
  });
}
