/**
 * The approval of a batch by a second person ("four eyes"): submit, approve, deny. The command line and the console call these. The
 * journal itself enforces that nothing is sent without approval. Section "Approval" of docs/architecture.md.
 */
import { approvalMissing, checkOpen } from '../journal/standing.ts';
import type { Batch, Journal } from '../journal/port.ts';
import type { Account, Actor } from '../model/actor.ts';
import { UsageError } from '../model/errors.ts';

/** The approval as `--json` prints it: what is needed, who approved or denied, until when. Null without a policy. */
export async function approvalOf(journal: Pick<Journal, 'approval'>, { batch }: Pick<Batch, 'batch'>) {
  const found = await journal.approval(batch);
  if (found === null) return null;
  const { given, ...rest } = found;
  return { ...rest, approvals: given.map(({ by, at, until, problem }) => ({ by, at, until, problem })) };
}

type Standing = NonNullable<Awaited<ReturnType<typeof approvalOf>>>;

/**
 * Who did what, by time: a batch that was denied may have been submitted again and approved.
 * @param isDone the batch is done, so it no longer matters whether an approval counts
 */
export function approvalSteps({ submitted, approvals, denied }: Standing, isDone: boolean) {
  const counts = (problem: string | null): string =>
    problem === null || isDone ? '' : `, which does not count: ${problem}`;
  const noted = (note: string | null): string => (note === null ? '' : `: ${note}`);
  return [
    ...(denied === null ? [] : [{ ...denied, what: 'Denied', more: noted(denied.reason) }]),
    ...(submitted === null ? [] : [{ ...submitted, what: 'Submitted', more: noted(submitted.note) }]),
    ...approvals.map((each) => ({ ...each, what: 'Approved', more: counts(each.problem) })),
  ].sort((one, other) => one.at.localeCompare(other.at));
}

/** A person's reason to send again what was sent before; null if nobody gave one. */
export interface Again {
  readonly reason: string | null;
}

/** The reason without spaces at its ends. Throws a UsageError if there is none. @param advice what the reason must say */
export function requiredReason(reason: string, advice = 'Say why. It stays on record.'): string {
  const words = reason.trim();
  if (words === '') throw new UsageError('a reason is needed', { advice });
  return words;
}

/** Submits the batch for approval. Throws a UsageError if it needs none, has it, or waits for it already. */
export async function submitBatch(
  journal: Pick<Journal, 'submit' | 'counts'>,
  { batch }: Batch,
  { note, again }: { readonly note: string | null; readonly again: Again },
): Promise<void> {
  const { planned = 0, blocked = 0 } = await journal.counts(batch);
  if (planned + blocked === 0) {
    throw new UsageError(`batch ${batch} has no row that is still to be sent`);
  }
  const words = note?.trim() ?? '';
  await journal.submit(batch, { note: words === '' ? null : words, again: again.reason });
}

interface ApprovePorts {
  readonly journal: Pick<Journal, 'approval' | 'by'>;
  /** The system account of the process. */
  readonly actor: Actor;
  /** Asks for a password, and returns its account. */
  readonly signIn: () => Promise<Account>;
}

/** Approves the batch if it has that hash. Throws a UsageError, if possible before the password is asked for. */
export async function approveBatch(ports: ApprovePorts, batch: Batch, hash: string): Promise<void> {
  await (await journalOfApprover(ports, batch)).approve(batch.batch, hash);
}

/** Denies the batch as it is now. Throws like `approveBatch`. */
export async function denyBatch(ports: ApprovePorts, batch: Batch, reason: string): Promise<void> {
  const words = requiredReason(reason);
  await (await journalOfApprover(ports, batch)).deny(batch.batch, words);
}

async function journalOfApprover({ journal, actor, signIn }: ApprovePorts, batch: Batch): Promise<Journal> {
  checkOpen(batch, await journal.approval(batch.batch));
  const { name } = await signIn();
  return journal.by({ ...actor, account: name });
}

/** Throws a UsageError if the batch lacks an approval, so that nobody is asked for consent in vain. */
export async function checkApproved(journal: Pick<Journal, 'approval'>, batch: Batch, again: Again): Promise<void> {
  const found = await journal.approval(batch.batch, again);
  if (found !== null && found.missing > 0) throw approvalMissing(batch, found);
}

/** The same, but submits the batch first if that was not done yet. */
export async function checkApprovedOrSubmit(
  journal: Pick<Journal, 'approval' | 'submit' | 'counts'>,
  batch: Batch,
  again: Again,
): Promise<void> {
  const state = (await journal.approval(batch.batch, again))?.state;
  // A denied batch is not submitted again automatically.
  if (state === 'not_submitted' || state === 'expired') await submitBatch(journal, batch, { note: null, again });
  await checkApproved(journal, batch, again);
}
