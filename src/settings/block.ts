/** Blocks of settings in the config file, such as a job or a policy of approval: each value with its line, read by its kind. */
import { nearestNames, suggestion, UsageError } from '../model/errors.ts';
import { valueText } from '../model/text.ts';
import type { Kind } from './kinds.ts';

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
