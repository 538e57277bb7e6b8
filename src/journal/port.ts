/**
 * The records of the journal: batches, their rows as intents, approvals, and every write that was sent. Section "Writing" of
 * docs/architecture.md.
 */
import type { Actor } from '../model/actor.ts';
import type { ApprovalPolicies, ApprovalPolicy, PlanTotals } from '../model/approval.ts';
import type { Caps, PlannedChange } from '../model/money.ts';
import type { Timestamp } from '../model/time.ts';

/**
 * `planned`: to be sent. `sending`: the request may be on its way. `acknowledged`: the server reported success, not checked
 * yet. `rejected`: refused, and checked. `unknown`: the write may have happened. `applied`: it happened. `not_applied`: proven
 * not to have happened. `needs_human`: what the server shows fits neither. `blocked`: an earlier row of the same user is open, or
 * was sent and not made and nobody has decided about it.
 * `skipped`: not sent, for the recorded reason. `invalid`: never to be sent.
 */
export type IntentState =
  | 'planned'
  | 'sending'
  | 'acknowledged'
  | 'rejected'
  | 'unknown'
  | 'applied'
  | 'not_applied'
  | 'needs_human'
  | 'blocked'
  | 'skipped'
  | 'invalid';

/** `planned`: nothing was sent. `applying`: a process works on it, or died doing so. `stopped`: there is more to do. */
export type BatchState = 'planned' | 'applying' | 'stopped' | 'done';

/** `refused`: the server processed the request and said no. `lost`: no response that can be relied on. */
export type AnswerKind = 'accepted' | 'refused' | 'lost';

/** What a verdict rests on, the strongest first. */
export type Evidence = 'token' | 'record' | 'balance' | 'answer' | 'person';

/**
 * What is wrong with an applied row. `balance`: the balance is not what the row should leave, and no visible change explains
 * it. `over_applied`: the write was made more than once.
 */
export type Discrepancy = 'balance' | 'over_applied';

/** What is wrong with a cell or row of a sheet. */
export interface JournalProblem {
  readonly row: number;
  /** The header of the column; null if the problem is the row as a whole. */
  readonly column: string | null;
  readonly problem: string;
}

export interface PlannedServer {
  readonly address: string;
  readonly keyMark: string;
  /** Id of the user who owns the key; null if the server does not tell. */
  readonly owner: string | null;
}

export interface NewBatch {
  readonly batch: string;
  readonly action: string;
  /** What people call it. Part of what is approved. */
  readonly title: string;
  /** As the user named it; null if the rows did not come from a file. */
  readonly file: string | null;
  readonly fileBytes: number | null;
  /** SHA-256 of the file, in hexadecimal. */
  readonly fileHash: string | null;
  /** What is approved: changes with anything in the plan. */
  readonly hash: string;
  /** Equal for two batches that would send the same rows, whatever the file. */
  readonly rowsDigest: string;
  readonly rows: number;
  readonly net: string;
  readonly columns: readonly string[];
  readonly problems: readonly JournalProblem[];
  readonly warnings: readonly string[];
  readonly server: PlannedServer;
  /** The batch whose rows this one takes back. */
  readonly undoOf: string | null;
  /** Why rows that were sent before are to be sent again. */
  readonly againReason: string | null;
}

/** The settings that the journal enforces. */
export interface JournalRules {
  readonly approval: ApprovalPolicies;
  /** The bounds in force; null to keep those of the plan. */
  readonly caps: Caps | null;
}

/** The policy of a batch from when it was planned, and what has added to the plan since. */
export interface BatchApproval {
  readonly policy: ApprovalPolicy;
  /** A row that is sent again counts again. */
  readonly totals: PlanTotals;
  readonly caps: Caps | null;
  /** Rows that a person wants to be sent again, once for each time. */
  readonly resent: readonly number[];
  /** The step by which a person last accepted this journal. It may not know what earlier approvals were used for. */
  readonly accepted?: number | undefined;
  /** What the last claim of its rows rested on. */
  readonly claimed: { readonly hash: string; readonly needed: number } | null;
}

/**
 * `not_needed`: no threshold is exceeded. `not_submitted`: nobody submitted it. `waiting`: approvals are missing. `expired`: it
 * waited longer, or its approvals are older, than the policy allows.
 */
export type ApprovalState = 'not_needed' | 'not_submitted' | 'waiting' | 'approved' | 'denied' | 'expired';

export interface GivenApproval {
  readonly step: number;
  readonly by: Actor;
  readonly at: Timestamp;
  readonly until: Timestamp;
  /** Why the approval does not count; null if it counts. */
  readonly problem: string | null;
}

/** The state of a batch's approval at one moment. */
export interface Approval {
  readonly state: ApprovalState;
  readonly needed: number;
  readonly missing: number;
  readonly reasons: readonly string[];
  /** What is approved: the plan, and everything that adds to it. */
  readonly hash: string;
  readonly submitted: { readonly by: Actor; readonly at: Timestamp; readonly note: string | null } | null;
  /** The newest approval of each account since the last denial. */
  readonly given: readonly GivenApproval[];
  readonly denied: { readonly by: Actor; readonly at: Timestamp; readonly reason: string | null } | null;
  /** Accounts that can approve it now. */
  readonly approvers: readonly string[];
  /** How long it stays approved, or can be approved; null if neither. */
  readonly until: Timestamp | null;
}

export interface Batch extends NewBatch {
  /** Null if no policy was in force when it was planned. */
  readonly approval: BatchApproval | null;
  readonly state: BatchState;
  readonly createdAt: Timestamp;
  /** When somebody first consented to sending it. */
  readonly appliedAt: Timestamp | null;
  readonly finishedAt: Timestamp | null;
  /** Why the journal counts as older than the server until the batch is reconciled; null if it does not. */
  readonly behind: string | null;
}

export interface NewIntent {
  readonly row: number;
  readonly state: 'planned' | 'invalid';
  /** Only one row of a subject may be open: `user:42`, or what identifies a new user. Null for an invalid row. */
  readonly subject: string | null;
  readonly user: number | null;
  /** How the row named its user, which must still match: `email:anna@example.com`. Null for an id. */
  readonly key: string | null;
  /** Goes out with the request; null for an invalid row. */
  readonly token: string | null;
  /** Equal for two rows that would do the same to the same user; null for an invalid row. */
  readonly fingerprint: string | null;
  /** The user as the plan found it; null if there is none, or the server showed nothing. */
  readonly plannedEmail: string | null;
  readonly plannedUsername: string | null;
  readonly parameters: Readonly<Record<string, unknown>> | null;
  /** The cells of the file, in the order of the batch's columns. */
  readonly cells: readonly string[];
  readonly plannedBefore: string | null;
  readonly plannedAfter: string | null;
  readonly problem: string | null;
  /** What deserves a look before the approval. */
  readonly notes: readonly string[];
  /** The row of the batch `undoOf` that this row takes back. */
  readonly undoOfRow: number | null;
}

export interface Intent extends Omit<NewIntent, 'state'> {
  readonly batch: string;
  readonly state: IntentState;
  /** When somebody consented to sending the row; null if nobody has. */
  readonly claimedAt: Timestamp | null;
  /** How often the row became `sending`. */
  readonly attempts: number;
  readonly sentAt: Timestamp | null;
  readonly body: string | null;
  /** What the server showed of the user just before the write, in the action's own form. */
  readonly seenBefore: unknown;
  readonly before: string | null;
  readonly after: string | null;
  readonly answerKind: AnswerKind | null;
  readonly httpStatus: number | null;
  /** The text of the response, cut to a maximum length; null if none came. */
  readonly answer: string | null;
  readonly evidence: Evidence | null;
  /** Id of the record that the write left on the server, such as a transaction; null if none was seen. */
  readonly recordId: string | null;
  readonly discrepancy: Discrepancy | null;
}

/**
 * What changes with a step; anything left out stays. `claimedAt`: for a row that was made although nobody consented to it.
 * `undoOfRow`: null for a row that was made although another row has taken that row back.
 */
export type IntentFields = Partial<
  Pick<Intent, 'sentAt' | 'claimedAt' | 'body' | 'seenBefore' | 'before' | 'after' | 'answerKind' | 'httpStatus'> &
    Pick<Intent, 'answer' | 'evidence' | 'problem' | 'recordId' | 'discrepancy'> & { readonly undoOfRow: null }
>;

export type RowPlace = Pick<Intent, 'batch' | 'row' | 'state'>;

/** A row that was found on the server, and what was seen of it. */
export interface AdoptedRow {
  readonly intent: NewIntent;
  /** `needs_human` if it was made more than once. Stored as applied if another row of its user is open. */
  readonly state: 'applied' | 'needs_human';
  readonly fields: IntentFields;
}

export interface Move {
  readonly batch: string;
  readonly row: number;
  readonly from: IntentState;
  readonly to: IntentState;
  readonly fields?: IntentFields;
  /** For the record of steps, for example a person's reason. */
  readonly note?: string;
}

export interface JournalStep {
  readonly step: number;
  readonly at: Timestamp;
  readonly actor: Actor;
  readonly row: number | null;
  /** The new state of the row or batch, or another event: `added`, `again`, `approved`, `claimed`, `discarded`. */
  readonly kind: string;
  readonly note: string | null;
}

/** `confirmed`: who consented to sending it, by typing the total, by the hash of the plan, or beforehand. */
export type BatchPeople = Readonly<
  Record<'planned' | 'submitted' | 'approved' | 'confirmed' | 'sent' | 'discarded', readonly Actor[]>
>;

/**
 * A row of another batch, or a write by hand, that does the same and was applied, may have been, or is about to be. This
 * includes rows proven not applied: their write may still be made late.
 */
export interface SentRow {
  readonly fingerprint: string;
  /** Null for a write by hand. */
  readonly batch: string | null;
  readonly row: number | null;
  /** When it was sent, or claimed if it was not sent yet. */
  readonly at: Timestamp;
  /** When somebody consented to it. */
  readonly claimedAt: Timestamp;
  readonly state: IntentState | WriteState;
  /** It was found on the server and never sent from here. Only its text says what it was for. */
  readonly found: boolean;
}

export type ClaimedRow = Pick<Intent, 'row' | 'user' | 'fingerprint' | 'plannedBefore' | 'plannedAfter' | 'claimedAt'>;

/** What a claim decides on, read in its transaction. */
export interface ClaimView {
  readonly rows: readonly ClaimedRow[];
  /** Other batches with the same file or the same rows, if a row of theirs was sent or claimed. */
  readonly like: readonly Batch[];
  /** Rows and writes elsewhere that do the same as one of `rows`, since `repeatsSince`. */
  readonly repeats: readonly SentRow[];
  /** All other changes that went out since `daySince` or may: rows claimed and not refused or skipped, writes by hand. */
  readonly claimedToday: readonly PlannedChange[];
  /** A batch whose rows are on the server although this journal never sent them. */
  readonly behind: Batch | undefined;
  /** A row that was made more than once and that nobody has decided about. */
  readonly overApplied: { readonly batch: string; readonly row: number } | undefined;
}

/**
 * What a person reads of a row, and what the totals are made of. A row that was just planned has no `before`, `after` and
 * `discrepancy`. For actions other than `balance`, the balances are texts that are no amounts.
 */
export type RowView = Pick<
  Intent,
  | 'row'
  | 'state'
  | 'subject'
  | 'user'
  | 'plannedEmail'
  | 'plannedUsername'
  | 'parameters'
  | 'plannedBefore'
  | 'plannedAfter'
  | 'problem'
  | 'notes'
> &
  Partial<Pick<Intent, 'before' | 'after' | 'discrepancy'>>;

export interface ClaimNote {
  readonly kind: 'consented' | 'again';
  readonly note: string;
}

export interface ClaimTerms {
  readonly repeatsSince: Timestamp;
  /** Rows claimed since then count towards `bulk.max_day`. */
  readonly daySince: Timestamp;
}

export interface NewWrite {
  readonly operation: string;
  readonly user: number | null;
  /** JSON text, without any password. */
  readonly body: string;
  /** The fingerprint of a row that would do the same; null if no row could. */
  readonly fingerprint: string | null;
  /** The balance of the user just before; null or left out if it is not known or does not matter. */
  readonly balance?: string | null;
}

/**
 * `refused`: the server said no, and nobody has checked. `not_made`: the server said no, and the user was read afterwards.
 * `nothing_done`: the server certainly did nothing, for example because it said to come back later.
 */
type WriteState = 'sending' | 'done' | 'refused' | 'not_made' | 'nothing_done' | 'unknown';

export interface WriteEnd {
  readonly state: Exclude<WriteState, 'sending'>;
  readonly httpStatus: number | null;
  readonly answer: string | null;
  readonly problem: string | null;
}

export interface SentWrite extends Omit<NewWrite, 'fingerprint' | 'balance'>, Pick<WriteEnd, 'httpStatus' | 'problem'> {
  readonly write: number;
  readonly at: Timestamp;
  readonly state: WriteState;
}

export interface UserRow extends Pick<
  Intent,
  'batch' | 'row' | 'state' | 'parameters' | 'before' | 'after' | 'sentAt'
> {
  /** Of the batch. */
  readonly action: string;
  readonly title: string;
  readonly createdAt: Timestamp;
}

/** A row that was sent and not made, and holds back `later` rows of its user until a person decides. */
export type HoldingRow = Pick<Intent, 'row' | 'user' | 'problem'> & { readonly later: number };

export type { Journal } from './journal.ts';
