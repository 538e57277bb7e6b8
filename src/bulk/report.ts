/** Reports on a batch, as `--json` prints them. Their shape is part of the contract with scripts. */
import { Big } from 'big.js';
import type {
  ApprovalState,
  Batch,
  BatchState,
  HoldingRow,
  Intent,
  IntentState,
  Journal,
  RowView,
} from '../journal/port.ts';
import { counted, grouped } from '../model/text.ts';
import { amountWords, changeBetween, changeOf, decimalOf, moneyText } from '../model/money.ts';
import type { Action } from './action.ts';
import { approvalOf } from './approval.ts';
import { countNames, countsOf } from './intent.ts';

export type BatchSummary = Readonly<Awaited<ReturnType<typeof summaryOf>>>;
export type BatchReport = Readonly<Awaited<ReturnType<typeof reportOf>>>;

type SummaryJournal = Pick<Journal, 'tally' | 'holding' | 'lockOwner' | 'approval' | 'wasDiscarded' | 'reversals'>;
type ReportJournal = SummaryJournal & Pick<Journal, 'views'>;

/** @param rows as the journal has them if left out */
export async function reportOf(
  journal: ReportJournal,
  batch: Batch,
  rows: Iterable<RowView> | AsyncIterable<RowView> = journal.views(batch.batch),
) {
  const { problems, warnings, approval, ...summary } = await summaryOf(journal, batch);
  return { ...summary, ...(await totalsOf(rows)), problems, warnings, approval };
}

/** What can be said without reading every row: for lists, and for callers that look every second. */
export async function summaryOf(journal: SummaryJournal, batch: Batch) {
  const { action, title, file, hash, rows, net, undoOf, problems, behind } = batch;
  const warnings =
    behind === null ? batch.warnings : [`this journal is older than the server: ${behind}`, ...batch.warnings];
  const { counts: states, discrepancies } = await journal.tally(batch.batch);
  const counts = countsOf(states);
  return {
    batch: batch.batch,
    title,
    action,
    file,
    /** What `--approve` takes. */
    hash,
    state: await stateOf(journal, batch),
    /** A person discarded it: the rows that were not sent never will be. */
    discarded: counts.planned + counts.blocked === 0 && (await journal.wasDiscarded(batch.batch)),
    rows,
    /** They add up to `rows`. */
    counts,
    /** The planned change of the sum of all balances. */
    net,
    /** The batch that this one takes back. */
    undo_of: undoOf,
    /** The batches that take this one back or may do so, each with its rows. */
    reversals: counts.applied === 0 ? [] : await journal.reversals(batch.batch),
    /** How many applied rows the balance contradicts, and rows that were made more than once. */
    discrepancies,
    /** Rows that were sent and not made, and hold back `later` rows of their user until a person decides. */
    holding: counts.rejected > 0 && counts.planned + counts.blocked > 0 ? await journal.holding(batch.batch) : [],
    problems,
    warnings,
    /** Null without a policy. */
    approval: await approvalOf(journal, batch),
  };
}

async function totalsOf(rows: Iterable<RowView> | AsyncIterable<RowView>) {
  const zero = new Big(0);
  let [gross, appliedNet, appliedGross] = [zero, zero, zero];
  const [users, appliedUsers] = [new Set<string | null>(), new Set<string | null>()];
  const types = new TypeSums();
  for await (const row of rows) {
    if (row.state === 'invalid') continue;
    types.add(row);
    gross = gross.plus(changeOf(row)?.abs() ?? zero);
    users.add(row.subject);
    if (row.state !== 'applied') continue;
    const change = outcomeOf(row) ?? zero;
    appliedNet = appliedNet.plus(change);
    appliedGross = appliedGross.plus(change.abs());
    appliedUsers.add(row.subject);
  }
  return {
    /** Planned amounts by type. */
    types: types.end(),
    /** Sum of the planned changes without their signs. */
    gross: moneyText(gross),
    /** How many users, existing or new, the rows are about. */
    users: users.size,
    /** The same for applied rows. If the balance contradicts a row, the change that was seen counts. */
    applied_net: moneyText(appliedNet),
    applied_gross: moneyText(appliedGross),
    applied_users: appliedUsers.size,
  };
}

/** The net of the applied rows. Reads the rows only if that is neither zero nor the planned net. */
export async function appliedNetOf(
  journal: Pick<Journal, 'views'>,
  { batch, rows, counts, net, discrepancies }: BatchSummary,
): Promise<string> {
  if (counts.applied === 0) return moneyText(new Big(0));
  if (counts.applied === rows && discrepancies === 0) return net;
  return (await totalsOf(journal.views(batch))).applied_net;
}

/** By how much the row changed the balance: as seen if it was applied and the balance contradicts it, otherwise as planned. */
export function outcomeOf(row: Omit<RowView, 'row' | 'subject'>): Big | null {
  const { before = null, after = null } = row;
  const isContradicted = row.state === 'applied' && row.discrepancy === 'balance';
  return (isContradicted ? changeBetween(before, after) : null) ?? changeOf(row);
}

/** Where a batch came from and when, as receipts and manifests say it. */
export function factsOf({ file, fileBytes, fileHash, server, undoOf, createdAt, appliedAt, finishedAt }: Batch) {
  return {
    file: file === null ? null : { name: file, bytes: fileBytes, sha256: fileHash },
    server: server.address,
    undo_of: undoOf,
    created_at: createdAt,
    applied_at: appliedAt,
    finished_at: finishedAt,
  };
}

/** Who planned, submitted, approved and sent a batch, and the newest step of the journal at this time. */
export async function recordOf(journal: Pick<Journal, 'people' | 'head'>, { batch }: Batch) {
  const { planned, submitted, approved, confirmed, sent } = await journal.people(batch);
  return {
    planned_by: planned,
    submitted_by: submitted,
    /** If nobody had to approve it, whoever consented to the sending. */
    approved_by: approved.length > 0 ? approved : confirmed,
    sent_by: sent,
    /** The newest step of the journal's chain. Whoever keeps it can prove later that no step up to it was changed. */
    head: (await journal.head()) ?? null,
  };
}

/** What a person types to send the batch (`typed`), and what that does: `send 2 rows with a net total of 5.50 to https://…`. */
export async function consentQuestion(
  journal: ReportJournal,
  batch: Batch,
  action: Pick<Action, 'typed'>,
  address: string,
  currency: string | undefined,
): Promise<{ readonly doing: string; readonly typed: string }> {
  const report = await reportOf(journal, batch);
  const { net, gross, users, counts } = report;
  const left = counts.invalid === 0 ? '' : `, without ${counted(counts.invalid, 'invalid row')},`;
  // If some rows add and others remove, the net alone says little.
  const total = new Big(net).abs().eq(gross) ? net : `${net} / ${gross} / ${users}`;
  const typed = action.typed === 'net' ? total : String(counts.planned);
  const both =
    total === net
      ? ` with a net total of ${amountWords(net, currency)}`
      : ` (net ${amountWords(net, currency)}, ${amountWords(gross, currency)} moved up and down, ${counted(users, 'user')})`;
  return {
    doing: `send ${counted(counts.planned, 'row')}${left}${action.typed === 'net' ? both : ''} to ${address}`,
    typed,
  };
}

/** What to do about a row that holds back later rows of its user. */
export function holdingAdvice(batch: string, { row, later }: HoldingRow): string {
  const resolve = `admin-mirror bulk resolve ${batch} --row ${row} --not-applied`;
  return (
    `Row ${row} holds back ${counted(later, 'later row')} of its user. Send it again: \`${resolve} --resend --reason "…"\`. ` +
    `Or close it: \`${resolve} --reason "…"\`. Then continue with \`admin-mirror bulk resume ${batch}\`.`
  );
}

/** `3 planned, 1 invalid`; counts of zero are left out. */
export function countWords({ counts }: Pick<BatchSummary, 'counts'>): string {
  const words = countNames.filter((name) => counts[name] > 0).map((name) => `${grouped(counts[name])} ${name}`);
  return words.join(', ') || 'no rows';
}

/** `0.00, gross 1000.00, 2 users`. The gross is left out if all rows go in one direction. */
export function totalWords(net: string, gross: string, users: number, currency: string | undefined): string {
  const shown = amountWords(net, currency);
  const both = net.replace('-', '') === gross ? shown : `${shown}, gross ${amountWords(gross, currency)}`;
  return `${both}, ${counted(users, 'user')}`;
}

/** Says how many rows the balances contradict; null if there are none. */
export function discrepancyWords({ discrepancies }: BatchReport): string | null {
  if (discrepancies === 0) return null;
  return (
    `${counted(discrepancies, 'row')} made twice, or contradicted by the balance: ` +
    'look at the users on the server before you send more'
  );
}

/** Whether a person discarded the batch before anything of it was sent. */
export function isDiscarded({ discarded, counts }: Pick<BatchSummary, 'discarded' | 'counts'>): boolean {
  return discarded && counts.applied + counts.rejected + counts.unknown === 0;
}

/** The state as people read it: also for whom a plan waits, and whether the batch was taken back. */
export function stateWords(summary: BatchSummary): string {
  const { state, counts, rows, discrepancies, approval, reversals } = summary;
  if (isDiscarded(summary)) return 'discarded';
  if (state === 'applying') return 'sending';
  if (state === 'stopped') return 'stopped';
  if (state === 'planned') {
    if (counts.planned + counts.blocked === 0) return 'nothing to send';
    return approvalWords[approval?.state ?? 'not_needed'];
  }
  const takenBack = reversals.reduce((sum, { applied }) => sum + applied, 0);
  if (takenBack > 0) return takenBack === counts.applied ? 'reversed' : 'partly reversed';
  return counts.applied === rows && discrepancies === 0 ? 'done' : 'done, not all';
}

const approvalWords: Readonly<Record<ApprovalState, string>> = {
  not_needed: 'planned',
  not_submitted: 'planned, needs approval',
  waiting: 'waits for approval',
  approved: 'approved',
  denied: 'denied',
  expired: 'approval expired',
};

/** What an outcome rests on, for people; null if on nothing. */
export function evidenceWords({ state, evidence }: Pick<Intent, 'state' | 'evidence'>): string | null {
  if (evidence === null) return null;
  return (state === 'rejected' || state === 'not_applied' ? traces : proofs)[evidence];
}

const proofs = {
  token: 'its mark is on the server',
  record: 'a record on the server shows it',
  balance: 'the balance shows it',
  answer: 'the server said so, and shows nothing more',
  person: 'a person said so',
} as const;

/** Of what was not made. */
const traces = {
  token: 'its mark is not on the server',
  record: 'no record on the server shows it',
  balance: 'the balance did not change',
  answer: proofs.answer,
  person: proofs.person,
} as const;

/** What became of a row, in the words of whoever pays. */
export const outcomeWords: Readonly<Record<IntentState, string>> = {
  planned: 'not sent yet',
  invalid: 'wrong, so it is not sent',
  blocked: 'not sent yet, because an earlier row of this user comes first',
  skipped: 'not sent, and will not be',
  sending: 'on its way',
  acknowledged: 'sent and accepted by the server, and not checked yet',
  applied: 'done',
  rejected: 'refused by the server, so nothing was done',
  not_applied: 'sent, and not done',
  unknown: 'sent, and nobody knows yet whether it was done',
  needs_human: 'sent, but the server does not show clearly what was done. A person must look',
};

/** The state of the batch. If the process that sent it has died, it is stopped, whatever the journal says. */
async function stateOf(journal: SummaryJournal, batch: Batch): Promise<BatchState> {
  if (batch.state !== 'applying') return batch.state;
  return (await journal.lockOwner(batch.batch)) === undefined ? 'stopped' : 'applying';
}

/** Counts rows and sums amounts by type, in the order of the types' first rows. Rows without a type and amount do not count. */
export class TypeSums {
  readonly #totals = new Map<string, { rows: number; amount: Big }>();

  add({ parameters }: Pick<Intent, 'parameters'>): void {
    const type = parameters?.['type'];
    const amount = decimalOf(parameters?.['amount']);
    if (typeof type !== 'string' || amount === null) return;
    const { rows, amount: sum } = this.#totals.get(type) ?? { rows: 0, amount: new Big(0) };
    this.#totals.set(type, { rows: rows + 1, amount: sum.plus(amount) });
  }

  end() {
    return Array.from(this.#totals, ([type, { rows, amount }]) => ({ type, rows, amount: moneyText(amount) }));
  }
}
