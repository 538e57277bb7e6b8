/** The failure that everything asked for has in common, and by which a command ends rather than by an incomplete answer. */
import { KeyRefusedError, type OperatorError, UnreachableError } from '../model/errors.ts';

/** The first of the errors where all of them are refused keys, or all a lost server; undefined otherwise. */
export function sharedFailure(errors: readonly (OperatorError | null)[]): OperatorError | undefined {
  for (const kind of [KeyRefusedError, UnreachableError]) {
    const [first] = errors;
    if (first instanceof kind && errors.every((error) => error instanceof kind)) return first;
  }
  return undefined;
}
