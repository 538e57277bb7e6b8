/**
 * When a second pair of eyes is needed before money moves or records go: the policy of the config file, and what it says of
 * a batch. Amounts are exact decimals. Pure.
 */
import { Big } from 'big.js';
import { counted } from './counted.ts';
import type { Money } from './money.ts';

/** What may need approval: the actions of `bulk`, and the removal of more rows than the mirror's brake lets go. */
export const approvalSubjects = ['balance', 'notify', 'email', 'create', 'update', 'delete', 'deletions'] as const;
export type ApprovalSubject = (typeof approvalSubjects)[number];

/** Whether rows of it change balances, so that amounts can be a threshold. */
export function movesMoney(subject: ApprovalSubject): boolean {
  return subject === 'balance';
}

export const mostApprovers = 3;
export const defaultGoodFor = '72h';

/** Approval is needed above a threshold, not at it. Undefined is not set; where none is set, it is always needed. */
export interface ApprovalPolicy {
  /** The largest change of a balance that one row makes, without its sign. */
  readonly rowAmount: Money | undefined;
  /** The sum of all changes, without its sign. */
  readonly net: Money | undefined;
  /** The sum of all changes without their signs. */
  readonly gross: Money | undefined;
  readonly rows: number | undefined;
  /** What one person may send within 24 hours without approval: the gross total where money moves, else rows. */
  readonly alonePerDay: Money | undefined;
  /** How many different people must approve. */
  readonly approvers: number;
  /** How long an approval holds. A batch that waited longer is expired. */
  readonly goodForMs: number;
}

export type ApprovalPolicies = Readonly<Partial<Record<ApprovalSubject, ApprovalPolicy>>>;

export interface ApprovalTotals {
  /** Null where no money moves. */
  readonly money: { readonly rowAmount: Money; readonly net: Money; readonly gross: Money } | null;
  readonly rows: number;
  /** What the same person has sent without approval within the last 24 hours, apart from this: gross, or rows. */
  readonly aloneToday: string;
}

/** How many people must approve; 0 where nobody has to. */
export function approvalsNeeded(policy: ApprovalPolicy | undefined, totals: ApprovalTotals): number {
  return policy === undefined || approvalReasons(policy, totals).length === 0 ? 0 : policy.approvers;
}

/** Why approval is needed, each reason in words; none where it is not. */
export function approvalReasons(policy: ApprovalPolicy, { money, rows, aloneToday }: ApprovalTotals): string[] {
  const { alonePerDay } = policy;
  const limits = [policy.rowAmount, policy.net, policy.gross, policy.rows, alonePerDay];
  if (limits.every((limit) => limit === undefined)) return ['it always needs approval'];
  const reasons: string[] = [];
  const compare = (limit: Money | undefined, amount: string | undefined, what: string): void => {
    if (limit === undefined || amount === undefined || new Big(amount).abs().lte(limit)) return;
    reasons.push(`${what} ${new Big(amount).abs().toFixed()}, more than ${limit}`);
  };
  compare(policy.rowAmount, money?.rowAmount, 'one row changes a balance by');
  compare(policy.net, money?.net, 'the net total is');
  compare(policy.gross, money?.gross, 'the gross total is');
  if (policy.rows !== undefined && rows > policy.rows) {
    reasons.push(`there are ${counted(rows, 'row')}, more than ${policy.rows}`);
  }
  const today = new Big(aloneToday).plus(money === null ? rows : new Big(money.gross).abs());
  const unit = money === null ? 'rows' : 'in all';
  if (alonePerDay !== undefined && today.gt(alonePerDay)) {
    reasons.push(
      `with it, one person would have sent ${today.toFixed()} ${unit} alone within 24 hours, more than ${alonePerDay}`,
    );
  }
  return reasons;
}
