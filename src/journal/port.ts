/** What stands in the journal: batches, their rows as intents, approvals, and every write sent. Section "Writing" of docs/architecture.md. */
import type { Actor } from '../model/actor.ts';
import type { ApprovalPolicies, ApprovalPolicy, PlanTotals } from '../model/approval.ts';
import type { Caps, PlannedChange } from '../model/money.ts';
import type { Timestamp } from '../model/time.ts';

/**
 * `planned`: to be sent. `sending`: the request may be on its way. `acknowledged`: the server reported success, and that
 * was not looked at yet. `rejected`: refused, and looked at. `unknown`: it may have happened. `applied`: it did.
 * `not_applied`: it is proven that it did not. `needs_human`: what is seen fits neither. `blocked`: an earlier row of the
 * same user is open. `skipped`: not sent, for the reason on record. `invalid`: never to be sent.
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

/** `planned`: nothing was sent; `applying`: a process is at it, or died at it; `stopped`: there is more to do; `done`. */
export type BatchState = 'planned' | 'applying' | 'stopped' | 'done';

/** `refused`: the server looked at it and said no; `lost`: nothing that could be relied on. */
export type AnswerKind = 'accepted' | 'refused' | 'lost';

/** What a verdict rests on, the strongest first. */
export type Evidence = 'token' | 'record' | 'balance' | 'answer' | 'person';

/**
 * What an applied row left behind that does not fit: `balance`: the balance is not what the row should leave, and what is
 * shown does not explain it; `over_applied`: the write was made more than once.
 */
export type Discrepancy = 'balance' | 'over_applied';

/** What is wrong with one cell or row of a sheet. */
export interface JournalProblem {
  readonly row: number;
  /** The header of the column; null where it is the row as a whole. */
  readonly column: string | null;
  readonly problem: string;
}

export interface PlannedServer {
  readonly address: string;
  readonly keyMark: string;
  /** Id of the user behind the key; null where the server does not tell. */
  readonly owner: string | null;
}

export interface NewBatch {
  readonly batch: string;
  readonly action: string;
  /** As it was named; null where the rows did not come from a file. */
  readonly file: string | null;
  readonly fileBytes: number | null;
  /** SHA-256 of the file, in hexadecimal. */
  readonly fileHash: string | null;
  /** What is approved: another one where anything of the plan is another. */
  readonly hash: string;
  /** The same for two batches that would send the same rows, whatever the file. */
  readonly rowsDigest: string;
  readonly rows: number;
  readonly net: string;
  readonly columns: readonly string[];
  readonly problems: readonly JournalProblem[];
  readonly warnings: readonly string[];
  readonly server: PlannedServer;
  /** The batch whose rows these take back. */
  readonly undoOf: string | null;
  /** Why rows that were sent before shall be sent again. */
  readonly againReason: string | null;
}

/** What the journal goes by, of the settings. */
export interface JournalRules {
  readonly approval: ApprovalPolicies;
  /** The bounds in force; null where nothing is said of them, so that those of the plan hold. */
  readonly caps: Caps | null;
}

/** What was in force when a batch was planned, and what has made it more than was planned since. */
export interface BatchApproval {
  readonly policy: ApprovalPolicy;
  /** Rows that are sent again count once more. */
  readonly totals: PlanTotals;
  readonly caps: Caps | null;
  /** Rows that a person said shall be sent again, each as often as that was said. */
  readonly resent: readonly number[];
  /** The step by which a person last took this journal for the right one: it may not know what approvals of before were used for. */
  readonly accepted?: number | undefined;
  /** What was found when its rows were claimed last. */
  readonly claimed: { readonly hash: string; readonly needed: number } | null;
}

/**
 * `not_needed`: no threshold is passed; `not_submitted`: nobody has handed it over; `waiting`: approvals are missing;
 * `approved`; `denied`; `expired`: it waited, or its approvals held, for longer than the policy lets them.
 */
export type ApprovalState = 'not_needed' | 'not_submitted' | 'waiting' | 'approved' | 'denied' | 'expired';

export interface GivenApproval {
  readonly step: number;
  readonly by: Actor;
  readonly at: Timestamp;
  readonly until: Timestamp;
  /** Why it does not count, in words; null where it does. */
  readonly problem: string | null;
}

/** How it stands with the approval of a batch at one moment. */
export interface Approval {
  readonly state: ApprovalState;
  readonly needed: number;
  readonly missing: number;
  readonly reasons: readonly string[];
  /** What is approved: the plan, and whatever makes it more than was planned. */
  readonly hash: string;
  readonly submitted: { readonly by: Actor; readonly at: Timestamp; readonly note: string | null } | null;
  /** Of each account the last one since the last denial. */
  readonly given: readonly GivenApproval[];
  readonly denied: { readonly by: Actor; readonly at: Timestamp; readonly reason: string | null } | null;
  /** Accounts that can approve it now. */
  readonly approvers: readonly string[];
  /** Until when it is approved, or can be; null where it is neither. */
  readonly until: Timestamp | null;
}

/** Rows that shall go from the mirror although its brake holds them. */
export interface DeletionRequest {
  readonly server: PlannedServer;
  readonly resource: string;
  readonly rows: number;
  /** The same where the same rows of the same server would go. */
  readonly hash: string;
}

export interface Batch extends NewBatch {
  /** Null where no policy was in force when it was planned. */
  readonly approval: BatchApproval | null;
  readonly state: BatchState;
  readonly createdAt: Timestamp;
  /** When its sending was first approved. */
  readonly appliedAt: Timestamp | null;
  readonly finishedAt: Timestamp | null;
  /** Why the journal counts as older than the server, until the batch is reconciled; null where it does not. */
  readonly behind: string | null;
}

export interface NewIntent {
  readonly row: number;
  readonly state: 'planned' | 'invalid';
  /** Whose open write keeps others back: `user:42`, or what a new user will be known by; null of an invalid row. */
  readonly subject: string | null;
  readonly user: number | null;
  /** What the row named its user by, which must still be the user's: `email:anna@example.com`; null for an id. */
  readonly key: string | null;
  /** Goes out with the request; null of an invalid row. */
  readonly token: string | null;
  /** The same for two rows that would do the same to the same user; null of an invalid row. */
  readonly fingerprint: string | null;
  /** The user as the plan found it; null where there is none, or nothing was shown. */
  readonly plannedEmail: string | null;
  readonly plannedUsername: string | null;
  readonly parameters: Readonly<Record<string, unknown>> | null;
  /** The cells of the file, in the order of the batch's columns. */
  readonly cells: readonly string[];
  readonly plannedBefore: string | null;
  readonly plannedAfter: string | null;
  readonly problem: string | null;
  /** What deserves a look before it is approved, in words. */
  readonly notes: readonly string[];
  /** The row of the batch `undoOf` that this one takes back. */
  readonly undoOfRow: number | null;
}

export interface Intent extends Omit<NewIntent, 'state'> {
  readonly batch: string;
  readonly state: IntentState;
  /** When somebody consented to its sending; null where nobody has. */
  readonly claimedAt: Timestamp | null;
  /** How often it went into `sending`. */
  readonly attempts: number;
  readonly sentAt: Timestamp | null;
  readonly body: string | null;
  /** What was seen of the user just before the write, as the action keeps it. */
  readonly seenBefore: unknown;
  readonly before: string | null;
  readonly after: string | null;
  readonly answerKind: AnswerKind | null;
  readonly httpStatus: number | null;
  /** The response as it came, cut to a bound; null where none came. */
  readonly answer: string | null;
  readonly evidence: Evidence | null;
  /** Id of the record that the write left on the server, such as a transaction; null where none was seen. */
  readonly recordId: string | null;
  readonly discrepancy: Discrepancy | null;
}

/**
 * What changes with a step; what is left out stays. `claimedAt`: of a row that nobody consented to, and that was made.
 * `undoOfRow`: null of a row that was made although another one has taken that row back.
 */
export type IntentFields = Partial<
  Pick<Intent, 'sentAt' | 'claimedAt' | 'body' | 'seenBefore' | 'before' | 'after' | 'answerKind' | 'httpStatus'> &
    Pick<Intent, 'answer' | 'evidence' | 'problem' | 'recordId' | 'discrepancy'> & { readonly undoOfRow: null }
>;

export type RowPlace = Pick<Intent, 'batch' | 'row' | 'state'>;

/** A row that was found on the server, with what was seen of it. */
export interface AdoptedRow {
  readonly intent: NewIntent;
  readonly fields: IntentFields;
}

export interface Move {
  readonly batch: string;
  readonly row: number;
  readonly from: IntentState;
  readonly to: IntentState;
  readonly fields?: IntentFields;
  /** For the record of steps; a person's reason among others. */
  readonly note?: string;
}

export interface JournalStep {
  readonly step: number;
  readonly at: Timestamp;
  readonly actor: Actor;
  readonly row: number | null;
  /** The new state of the row, or of the batch, or what else was done: `added`, `again`, `approved`, `claimed`, `discarded`. */
  readonly kind: string;
  readonly note: string | null;
}

/** `confirmed`: whoever consented to its sending, by the total, by the hash of the plan or beforehand. */
export type BatchPeople = Readonly<
  Record<'planned' | 'submitted' | 'approved' | 'confirmed' | 'sent' | 'discarded', readonly Actor[]>
>;

/**
 * A row of another batch, or a write by hand, that does the same and was applied, may have been, or is about to be. A row
 * that is proven not applied is among them: its write may still be made late.
 */
export interface SentRow {
  readonly fingerprint: string;
  /** Null of a write by hand. */
  readonly batch: string | null;
  readonly row: number | null;
  /** When it was sent, or claimed where it was not sent yet. */
  readonly at: Timestamp;
  /** When somebody consented to it. */
  readonly claimedAt: Timestamp;
  readonly state: IntentState | WriteState;
  /** It was found on the server, and never sent from here: what it was for, only its text says. */
  readonly found: boolean;
}

export type ClaimedRow = Pick<Intent, 'row' | 'user' | 'fingerprint' | 'plannedBefore' | 'plannedAfter' | 'claimedAt'>;

/** What a claim is decided on, read in its transaction. */
export interface ClaimView {
  readonly rows: readonly ClaimedRow[];
  /** Other batches with the same file or the same rows, of which a row was sent or claimed. */
  readonly like: readonly Batch[];
  /** Rows and writes elsewhere that do the same as one of `rows`, since the time that the terms name. */
  readonly repeats: readonly SentRow[];
  /** What else went out within the day, or may: rows that were claimed, and not refused or left out since, and changes by hand. */
  readonly claimedToday: readonly PlannedChange[];
  /** A batch whose rows stand on the server although this journal never sent them. */
  readonly behind: Batch | undefined;
  /** A row that was made more than once, and that nobody has decided about. */
  readonly overApplied: { readonly batch: string; readonly row: number } | undefined;
}

/** What a person reads of a row. */
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
  | 'before'
  | 'after'
  | 'problem'
  | 'notes'
>;

/** What a row asks for, and its balances; of other actions, text that is no amount. */
export type RowChange = Pick<
  Intent,
  'state' | 'subject' | 'parameters' | 'plannedBefore' | 'plannedAfter' | 'before' | 'after' | 'discrepancy'
>;

export interface ClaimNote {
  readonly kind: 'consented' | 'again';
  readonly note: string;
}

export interface ClaimTerms {
  readonly repeatsSince: Timestamp;
  /** Since when claimed rows count for the day. */
  readonly daySince: Timestamp;
}

export interface NewWrite {
  readonly operation: string;
  readonly user: number | null;
  /** JSON text; a password is not in it. */
  readonly body: string;
  /** The fingerprint of a row that would do the same; null where no row could. */
  readonly fingerprint: string | null;
}

/** `nothing_done`: it is certain that the server did nothing, as where it said to come back later. */
type WriteState = 'sending' | 'done' | 'refused' | 'nothing_done' | 'unknown';

export interface WriteEnd {
  readonly state: Exclude<WriteState, 'sending'>;
  readonly httpStatus: number | null;
  readonly answer: string | null;
  readonly problem: string | null;
}

export interface SentWrite extends Omit<NewWrite, 'fingerprint'>, Pick<WriteEnd, 'httpStatus' | 'problem'> {
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
  readonly createdAt: Timestamp;
}

export type { Journal } from './journal.ts';
