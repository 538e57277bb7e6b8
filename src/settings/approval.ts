/** Reads and checks `bulk.approval` of the config file. Each problem names its line. */
import {
  type ApprovalPolicy,
  type ApprovalSubject,
  approvalSubjects,
  defaultGoodFor,
  mostApprovers,
  movesMoney,
} from '../model/approval.ts';
import { suggestion, UsageError } from '../model/errors.ts';
import type { Money } from '../model/money.ts';
import { parseDuration } from '../model/time.ts';
import { type Placed, readBlock } from './block.ts';
import { amount, count, duration, type Kind } from './kinds.ts';

export interface PlacedPolicy {
  readonly subject: ApprovalSubject;
  readonly origin: string;
  readonly policy: ApprovalPolicy;
}

/** What a policy may say of an action. Amounts are only thresholds of what moves money. */
export function thresholdsOf(subject: ApprovalSubject): Readonly<Record<string, Kind<unknown>>> {
  const rows = count({ least: 0 });
  const rest = { approvers: count({ most: mostApprovers }), good_for: duration() };
  if (!movesMoney(subject)) return { rows, alone_per_day: rows, ...rest };
  return { row_amount: amount, net: amount, gross: amount, rows, alone_per_day: amount, ...rest };
}

interface PolicyValues {
  readonly row_amount?: Money;
  readonly net?: Money;
  readonly gross?: Money;
  readonly rows?: number;
  readonly alone_per_day?: Money | number;
  readonly approvers?: number;
  readonly good_for?: number;
}

/** Reads the policies and leaves out those with a problem. */
export function readApproval(written: ReadonlyMap<string, Placed>): {
  readonly policies: readonly PlacedPolicy[];
  readonly problems: readonly UsageError[];
} {
  const problems: UsageError[] = [];
  const policies: PlacedPolicy[] = [];
  for (const [word, { origin, entries = new Map<string, Placed>() }] of written) {
    const subject = approvalSubjects.find((known) => known === word);
    if (subject === undefined) {
      const advice = suggestion(word, approvalSubjects);
      problems.push(new UsageError(`${origin}: there is no action "${word}" to approve`, { advice }));
      continue;
    }
    const block = readBlock(entries, thresholdsOf(subject), `bulk.approval.${subject}`);
    problems.push(...block.problems);
    if (block.problems.length > 0) continue;
    const values = block.values as PolicyValues;
    const policy = Object.freeze({
      rowAmount: values.row_amount,
      net: values.net,
      gross: values.gross,
      rows: values.rows,
      alonePerDay: values.alone_per_day === undefined ? undefined : (String(values.alone_per_day) as Money),
      approvers: values.approvers ?? 1,
      goodForMs: values.good_for ?? parseDuration(defaultGoodFor) ?? 0,
    });
    policies.push({ subject, origin, policy });
  }
  return { policies, problems };
}
