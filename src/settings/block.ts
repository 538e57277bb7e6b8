/** Blocks of settings in the config file, such as a job: each value with its line, read by its kind; and those of `bulk.approval`. */
import {
  type ApprovalPolicy,
  type ApprovalSubject,
  approvalSubjects,
  defaultGoodFor,
  mostApprovers,
  movesMoney,
} from '../model/approval.ts';
import { nearestNames, suggestion, UsageError } from '../model/errors.ts';
import type { Money } from '../model/money.ts';
import { valueText } from '../model/text.ts';
import { parseDuration } from '../model/time.ts';
import { amount, count, duration, type Kind } from './kinds.ts';

/** What stands at one place of the config file. */
export interface Placed {
  /** Without YAML's own objects. */
  readonly value: unknown;
  /** `config/admin-mirror.yaml:12` */
  readonly origin: string;
  /** If it is a map: what each name stands for, with the line of the name. */
  readonly entries?: ReadonlyMap<string, Placed>;
  /** If it is a list. */
  readonly items?: readonly Placed[];
}

/** Whether nothing stands after the colon. */
export function isEmpty({ value }: Placed): boolean {
  return value === null || value === undefined;
}

/**
 * Reads the entries. Those without a value count as left out.
 * @param title what it is, in errors: `job "nightly"`
 * @param of which block it is: ` of sync`
 */
export function readBlock(
  entries: ReadonlyMap<string, Placed>,
  kinds: Readonly<Record<string, Kind<unknown>>>,
  title: string,
  of = '',
): { readonly values: Readonly<Record<string, unknown>>; readonly problems: UsageError[] } {
  const values: Record<string, unknown> = {};
  const problems: UsageError[] = [];
  for (const [key, placed] of entries) {
    const { value, origin } = placed;
    if (isEmpty(placed)) continue;
    const kind = kinds[key];
    if (kind === undefined) {
      const advice = suggestion(key, Object.keys(kinds));
      problems.push(new UsageError(`${origin}: ${title}: there is no setting "${key}"${of}`, { advice }));
      continue;
    }
    const { success, data } = kind.type.safeParse(value);
    if (success) values[key] = data;
    else {
      const message = `${origin}: ${title}: ${key} is ${valueText(value)}: expected ${kind.expected}`;
      problems.push(new UsageError(message, { advice: `Correct it there.${nearHint(value, kind.names)}` }));
    }
  }
  return { values, problems };
}

/** Returns ` Did you mean "sync"?` if the value is near to a known name. */
export function nearHint(value: unknown, known: readonly string[] = []): string {
  return typeof value === 'string' && nearestNames(value, known).length > 0 ? ` ${suggestion(value, known)}` : '';
}

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
