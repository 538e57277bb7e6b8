/** Names of columns, where a format cannot have one twice. */
import { UsageError } from '../model/errors.ts';
import type { ResultColumn } from '../store/reading-types.ts';

/** Throws a UsageError where two columns have one name. */
export function distinct(columns: readonly ResultColumn[], holder = 'a JSON object'): readonly ResultColumn[] {
  const names = columns.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return columns;
  throw new UsageError(`two columns are called "${twice}", and ${holder} can hold only one of them`, {
    advice: 'Give one of them another name with AS.',
  });
}
