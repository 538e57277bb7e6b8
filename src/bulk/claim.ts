/**
 * Consent: decides whether the rows of a batch may be sent, from everything that the journal knows, in the transaction that claims
 * them. Also checks that file, server and key are still those of the plan. `run`, `apply` and `resume` all go through here. Section
 * "Consent" of docs/architecture.md.
 */
import { hash } from 'node:crypto';
import type { Batch, ClaimNote, ClaimTerms, ClaimView, Journal, NewBatch, SentRow } from '../journal/port.ts';
import { counted } from '../model/text.ts';
import { NotSentError, OutcomeUnknownError, UsageError } from '../model/errors.ts';
import { explainFileError, readRegularFile } from '../model/files.ts';
import type { Client } from '../api/operations.ts';
import { type Clock, dayMs, minuteMs, minuteOf, timestampOf } from '../model/time.ts';
import { type Caps, noCaps } from '../model/money.ts';
import { type Again, checkApproved } from './approval.ts';
import { batchCapProblem, capAdvice } from '../journal/caps.ts';
import { journalBehind } from './journal-memory.ts';
import { keyOwner, type LiveClient } from './live-users.ts';
import { limits } from './sheet/limits.ts';

export interface Rules {
  readonly caps: Caps;
  /** For how long the same row needs a reason to be sent again, ms. */
  readonly againWithinMs: number;
  /** Other profiles that send to the same server, in words. */
  readonly rivals?: readonly string[];
}

export interface Consent extends Rules {
  readonly again: Again;
  /** How the sender consented: `by typing 12.50`. Null for a batch that is resumed. */
  readonly approved: string | null;
}

/** Claims the planned rows of the batch. Throws an OperatorError, and changes nothing, if they may not be sent. */
export async function claimRows(journal: Journal, batch: string, consent: Consent, clock: Clock): Promise<void> {
  await journal.claim(batch, termsOf(consent, clock), (view, found) => decideClaim(view, found, consent));
}

/** Throws if the rows may not be sent. Otherwise returns what to put on record. Pure. */
export function decideClaim(
  view: ClaimView,
  found: Pick<Batch, 'batch' | 'state' | 'appliedAt' | 'fileHash' | 'undoOf' | 'againReason'>,
  consent: Pick<Consent, 'caps' | 'again' | 'approved' | 'rivals'>,
): ClaimNote[] {
  if (consent.approved !== null && found.state !== 'planned') {
    throw found.appliedAt === null ? endedMeanwhile(found) : alreadyApproved(found);
  }
  // A reason that was given with the plan counts for its first sending only.
  const reason = consent.again.reason ?? (found.state === 'planned' ? found.againReason : null);
  checkClaim(view, found, consent, { reason });
  const notes: ClaimNote[] = [];
  if (reason !== null) notes.push({ kind: 'again', note: reason });
  if (consent.approved !== null) notes.push({ kind: 'consented', note: consent.approved });
  return notes;
}

/** Checks the same before the question, so that nobody consents to a batch that the claim then refuses. */
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

function endedMeanwhile({ batch }: Pick<Batch, 'batch'>): UsageError {
  return new NotSentError(`batch ${batch} was ended meanwhile: somebody discarded it or found its rows on the server`, {
    advice: `\`admin-mirror bulk status ${batch}\` says who and why.`,
  });
}

export function alreadyApproved({ batch, state }: Pick<Batch, 'batch' | 'state'>): UsageError {
  return new UsageError(`batch ${batch} was approved before`, {
    advice:
      state === 'done'
        ? `It is done: \`admin-mirror bulk results ${batch}\` has the outcome of its rows.`
        : `Continue it with \`admin-mirror bulk resume ${batch}\`.`,
  });
}

/**
 * Returns this machine's clock, or the server's if that is more than a minute behind: a payment must not look old only because this
 * machine's clock has leapt ahead.
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

/** Throws a UsageError if another profile has the same server: its journal knows of payments that this one does not. */
export function refuseRivals(rivals: readonly string[]): void {
  const [first] = rivals;
  if (first === undefined) return;
  throw new NotSentError(`${first} has the same server, with a journal of its own`, {
    advice: 'What one journal has sent, the other would send again. Keep one profile for each server.',
  });
}

function checkClaim(
  view: ClaimView,
  batch: Pick<NewBatch, 'batch' | 'fileHash' | 'undoOf'>,
  { caps, rivals = [] }: Pick<Rules, 'caps' | 'rivals'>,
  again: Again,
): void {
  refuseRivals(rivals);
  const { behind, overApplied, rows, claimedToday } = view;
  if (behind !== undefined) throw journalBehind(behind.behind ?? '');
  if (overApplied !== undefined) throw madeTwice(overApplied);
  const problem = batchCapProblem(rows, claimedToday, batch.undoOf === null ? caps : noCaps);
  if (problem !== null) throw new NotSentError(problem, { advice: capAdvice });
  checkNotRepeated(view, batch, again);
  if (again.reason !== null) return;
  // These count for a batch that takes rows back, too: a row that was found on the server and never sent from here may have done
  // the same already, and the write of one that is not applied may still be made.
  const found = repeatsOf({
    rows,
    repeats: view.repeats.filter((each) => each.found || each.state === 'not_applied'),
  });
  if (found.length > 0) throw sentBefore(found, 'Look at these users on the server. ');
}

/** Throws a UsageError if the file, its rows or one of them were sent before and nobody gave a reason to send them again. */
export function checkNotRepeated(
  view: ClaimView,
  { fileHash, undoOf }: Pick<NewBatch, 'fileHash' | 'undoOf'>,
  again: Again,
): void {
  // A row that takes another back is guarded by that other row, which can be taken back only once.
  if (undoOf !== null || again.reason !== null) return;
  checkFileNotSent(view, fileHash);
  const repeats = repeatsOf(view);
  if (repeats.length > 0) throw sentBefore(repeats, view.rows.length === 1 ? '' : undefined);
}

const sendAgain = 'To send it again on purpose, give `--again --reason "…"`.';

function checkFileNotSent({ like, rows }: ClaimView, fileHash: string | null): void {
  // If every row has been claimed before, consent was given then.
  if (!rows.some(({ claimedAt }) => claimedAt === null)) return;
  const [before] = like;
  if (before === undefined) return;
  const isSameFile = fileHash !== null && fileHash === before.fileHash;
  const what = rows.length === 1 ? 'this change was' : isSameFile ? 'this file was' : 'the same rows were';
  throw new UsageError(
    `${what} sent before, on ${minuteOf(before.appliedAt ?? before.createdAt)} as batch ${before.batch}`,
    {
      advice:
        `\`admin-mirror bulk status ${before.batch}\` has its outcome` +
        `${before.state === 'done' ? '' : `; continue it with \`admin-mirror bulk resume ${before.batch}\``}. ${sendAgain}`,
    },
  );
}

interface Repeat {
  readonly row: number;
  readonly user: number | null;
  readonly before: SentRow;
}

/** The rows that repeat an earlier write, each with the last such write. Writes known when the row was claimed do not count. */
function repeatsOf({ rows, repeats }: Pick<ClaimView, 'rows' | 'repeats'>): Repeat[] {
  const known = Map.groupBy(repeats, (each) => each.fingerprint);
  return rows.flatMap(({ row, user, fingerprint, claimedAt }) => {
    const before = known.get(fingerprint ?? '')?.findLast((each) => claimedAt === null || each.claimedAt > claimedAt);
    return before === undefined ? [] : [{ row, user, before }];
  });
}

/** Describes the last write that did the same as a write by hand; null if there is none. */
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

const maxListed = 20;

/** `row 3: the same for user 42 was applied on 2026-03-11 10:20 UTC, row 3 of batch 20260311-102000-k7qa`. */
export function repeatLines(view: Pick<ClaimView, 'rows' | 'repeats'>): string[] {
  return repeatsOf(view).map(lineOf);
}

function lineOf({ row, user, before }: Repeat): string {
  return `row ${row}: the same for ${user === null ? 'the new user' : `user ${user}`} ${wordsOf(before)}`;
}

/** @param instead what else could be done; empty for a change of one row, which was perhaps never in a file */
function sentBefore(repeats: readonly Repeat[], instead = 'Take these rows out of the file. '): UsageError {
  const lines = repeats.slice(0, maxListed).map(lineOf);
  const more = repeats.length - lines.length;
  const what = instead === '' ? 'this change was' : counted(repeats.length, 'row was', 'rows were');
  return new UsageError(`${what} sent before; nothing was sent now`, {
    advice: [...lines, ...(more > 0 ? [`and ${more} more`] : []), `${instead}${sendAgain}`].join('\n'),
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

/** The server shows a write that this journal never sent. Nobody can tell what else the journal lacks. */
function madeTwice({ batch, row }: { readonly batch: string; readonly row: number }): OutcomeUnknownError {
  return new OutcomeUnknownError(`row ${row} of batch ${batch} was made more than once; nothing more is sent`, {
    advice:
      `\`admin-mirror bulk status ${batch}\` says how to take the excess back. Then record that: ` +
      `\`admin-mirror bulk resolve ${batch} --row ${row} --applied --reason "…"\`.`,
  });
}

const planAgain = 'Plan it again, and check the new plan.';

/** Throws a UsageError if the file has changed since the plan. A file that is gone is no reason to refuse. */
export function checkFile({ file, fileHash }: Batch, path: string | null): void {
  if (file === null || path === null || fileHash === null) return;
  let bytes: Uint8Array;
  try {
    ({ bytes } = readRegularFile(path, limits.fileBytes));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw explainFileError(error, 'read', path) ?? error;
  }
  if (hash('sha256', bytes) === fileHash) return;
  throw new NotSentError(`${file} has changed since the batch was planned from it`, {
    advice: planAgain,
  });
}

/** Throws a UsageError if the server, or the user whose key it is, is not the one of the plan. */
export async function checkServer(
  { batch, server }: Batch,
  client: Pick<LiveClient, 'auth' | 'address' | 'keyMark'>,
  signal: AbortSignal,
): Promise<void> {
  if (client.address !== server.address) {
    throw new NotSentError(
      `batch ${batch} was planned for ${server.address}, but the address here is ${client.address}`,
      { advice: `Give the address of the plan, or make a plan for this server. ${planAgain}` },
    );
  }
  const owner = await keyOwner(client, signal);
  const same = owner === null || server.owner === null ? client.keyMark === server.keyMark : owner === server.owner;
  if (same) return;
  throw new NotSentError(`batch ${batch} was planned with the key of another user`, {
    advice: `Use that key, or make a plan with this one. ${planAgain}`,
  });
}

/** The batch of that name. Throws a UsageError if there is none. */
export async function batchOf(journal: Pick<Journal, 'batch' | 'batches'>, name: string): Promise<Batch> {
  const found = await journal.batch(name);
  if (found !== undefined) return found;
  const [newest] = await journal.batches();
  if (name === 'last' && newest !== undefined) {
    throw new UsageError('a command that changes a batch needs its name', {
      advice: `"last" could mean another batch by the time the command runs. The newest is ${newest.batch}.`,
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
