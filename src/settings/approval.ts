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
import { type Placed, readBlock, type Reader, refused, textReader } from './block.ts';
import { amountIn, isCount } from './kinds.ts';

export interface PlacedPolicy {
  readonly subject: ApprovalSubject;
  readonly origin: string;
  readonly policy: ApprovalPolicy;
}

const amount: Reader<Money> = {
  expected: 'an amount such as 500 or 99.50',
  read: (given) => amountIn(given) ?? refused,
};
const count: Reader<number> = {
  expected: 'a whole number from 0',
  read: (given) => (isCount(given, 0) ? given : refused),
};
const plain = {
  rows: count,
  alone_per_day: { ...count, read: (given: unknown) => (isCount(given, 0) ? String(given) : refused) },
  approvers: {
    expected: `a whole number from 1 to ${mostApprovers}`,
    read: (given: unknown) => (isCount(given, 1, mostApprovers) ? given : refused),
  },
  good_for: textReader('a duration such as 72h or 7d', (given) => parseDuration(given) || refused),
};
/** Amounts are only thresholds of what moves money. */
const ofMoney = { ...plain, row_amount: amount, net: amount, gross: amount, alone_per_day: amount };

interface PolicyValues {
  readonly row_amount?: Money;
  readonly net?: Money;
  readonly gross?: Money;
  readonly rows?: number;
  readonly alone_per_day?: Money;
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
    const block = readBlock(entries, movesMoney(subject) ? ofMoney : plain, `bulk.approval.${subject}`);
    problems.push(...block.problems);
    if (block.problems.length > 0) continue;
    const values = block.values as PolicyValues;
    const policy = Object.freeze({
      rowAmount: values.row_amount,
      net: values.net,
      gross: values.gross,
      rows: values.rows,
      alonePerDay: values.alone_per_day,
      approvers: values.approvers ?? 1,
      goodForMs: values.good_for ?? parseDuration(defaultGoodFor) ?? 0,
    });
    policies.push({ subject, origin, policy });
  }
  return { policies, problems };
}
