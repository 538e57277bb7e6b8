/** Blocks of settings in the config file, such as a job or a policy of approval: each value with its line, read by its kind. */
import { nearestNames, suggestion, UsageError } from '../model/errors.ts';
import { valueText } from '../model/text.ts';

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

/** Returned for a value that is not accepted, since a value can itself be undefined: `off`. */
export const refused = Symbol('refused');

/** How a value is read. */
export interface Reader<T> {
  readonly read: (given: unknown) => T | typeof refused;
  /** The words after "expected" in an error. */
  readonly expected: string;
  /** The names that it accepts, to suggest one; left out if it takes no names, or any. */
  readonly names?: readonly string[];
}

/** Makes the reader of a text. Anything else is refused. */
export function textReader<T>(expected: string, read: (text: string) => T | typeof refused): Reader<T> {
  return { expected, read: (given) => (typeof given === 'string' ? read(given) : refused) };
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
  readers: Readonly<Record<string, Reader<unknown>>>,
  title: string,
  of = '',
): { readonly values: Readonly<Record<string, unknown>>; readonly problems: UsageError[] } {
  const values: Record<string, unknown> = {};
  const problems: UsageError[] = [];
  for (const [key, placed] of entries) {
    const { value, origin } = placed;
    if (isEmpty(placed)) continue;
    const reader = readers[key];
    if (reader === undefined) {
      const advice = suggestion(key, Object.keys(readers));
      problems.push(new UsageError(`${origin}: ${title}: there is no setting "${key}"${of}`, { advice }));
      continue;
    }
    const read = reader.read(value);
    if (read !== refused) values[key] = read;
    else {
      const message = `${origin}: ${title}: ${key} is ${valueText(value)}: expected ${reader.expected}`;
      problems.push(new UsageError(message, { advice: `Correct it there.${nearHint(value, reader.names)}` }));
    }
  }
  return { values, problems };
}

/** Returns ` Did you mean "sync"?` if the value is near to a known name. */
export function nearHint(value: unknown, known: readonly string[] = []): string {
  return typeof value === 'string' && nearestNames(value, known).length > 0 ? ` ${suggestion(value, known)}` : '';
}
