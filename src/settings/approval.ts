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
import { valueText } from '../model/text.ts';
import { parseDuration } from '../model/time.ts';
import type { Placed } from './jobs.ts';
import { amountIn, isCount } from './kinds.ts';

/** The block of one action under `bulk.approval`, unchecked. */
export interface WrittenPolicy {
  readonly subject: string;
  /** `config/admin-mirror.yaml:12` */
  readonly origin: string;
  readonly entries: ReadonlyMap<string, Placed>;
}

export interface PlacedPolicy {
  readonly subject: ApprovalSubject;
  readonly origin: string;
  readonly policy: ApprovalPolicy;
}

type Reader = (value: unknown) => string | number | undefined;

function count(value: unknown, least = 0, most?: number): number | undefined {
  return isCount(value, least, most) ? value : undefined;
}

function duration(value: unknown): number | undefined {
  return typeof value === 'string' ? parseDuration(value) || undefined : undefined;
}

const anAmount = 'an amount such as 500 or 99.50';
const aCount = 'a whole number from 0';

/** Returns the settings of a policy: how each is read, and the words after "expected" in an error. */
function optionsOf(
  subject: ApprovalSubject,
): Readonly<Record<string, { readonly read: Reader; readonly expected: string }>> {
  const money = movesMoney(subject);
  return {
    ...(money && {
      row_amount: { read: amountIn, expected: anAmount },
      net: { read: amountIn, expected: anAmount },
      gross: { read: amountIn, expected: anAmount },
    }),
    rows: { read: (value) => count(value), expected: aCount },
    alone_per_day: {
      read: money ? amountIn : (value) => count(value)?.toString(),
      expected: money ? anAmount : aCount,
    },
    approvers: {
      read: (value) => count(value, 1, mostApprovers),
      expected: `a whole number from 1 to ${mostApprovers}`,
    },
    good_for: { read: duration, expected: 'a duration such as 72h or 7d' },
  };
}

/** Reads the policies and leaves out those with a problem. A later policy for the same subject, which is the profile's, replaces the earlier. */
export function readApproval(written: readonly WrittenPolicy[]): {
  readonly policies: readonly PlacedPolicy[];
  readonly problems: readonly UsageError[];
} {
  const problems: UsageError[] = [];
  const read = new Map<ApprovalSubject, PlacedPolicy>();
  for (const each of written) {
    const subject = approvalSubjects.find((known) => known === each.subject);
    if (subject === undefined) {
      const advice = suggestion(each.subject, approvalSubjects);
      problems.push(new UsageError(`${each.origin}: there is no action "${each.subject}" to approve`, { advice }));
      continue;
    }
    const policy = readPolicy(subject, each, problems);
    if (policy !== undefined) read.set(subject, { subject, origin: each.origin, policy });
  }
  return { policies: [...read.values()], problems };
}

function readPolicy(
  subject: ApprovalSubject,
  { entries }: WrittenPolicy,
  problems: UsageError[],
): ApprovalPolicy | undefined {
  const before = problems.length;
  const options = optionsOf(subject);
  const values: Record<string, unknown> = {};
  for (const [key, { value, origin }] of entries) {
    const place = `${origin}: bulk.approval.${subject}`;
    const option = options[key];
    if (option === undefined) {
      const isForMoney = key in optionsOf('balance');
      const problem = isForMoney ? ` has no "${key}": it moves no money` : `: there is no setting "${key}"`;
      problems.push(new UsageError(`${place}${problem}`, { advice: suggestion(key, Object.keys(options)) }));
      continue;
    }
    values[key] = option.read(value);
    if (values[key] === undefined) {
      const message = `${place}: ${key} is ${valueText(value)}: expected ${option.expected}`;
      problems.push(new UsageError(message, { advice: 'Correct it there.' }));
    }
  }
  if (problems.length > before) return undefined;
  const given = values as {
    readonly [name in 'row_amount' | 'net' | 'gross' | 'alone_per_day']?: Money;
  } & { readonly rows?: number; readonly approvers?: number; readonly good_for?: number };
  return Object.freeze({
    rowAmount: given.row_amount,
    net: given.net,
    gross: given.gross,
    rows: given.rows,
    alonePerDay: given.alone_per_day,
    approvers: given.approvers ?? 1,
    goodForMs: given.good_for ?? parseDuration(defaultGoodFor) ?? 0,
  });
}
