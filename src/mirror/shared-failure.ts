/** The failure that all resources have in common, by which a command ends rather than as incomplete. */
import { KeyRefusedError, type OperatorError, UnreachableError } from '../model/errors.ts';

interface End {
  readonly error: OperatorError | null;
  /** Whether the server gave anything of it before. */
  readonly reached: boolean;
}

/** The first error where everything ended by a refused key, or by a server that gave nothing at all; undefined otherwise. */
export function sharedFailure(ends: readonly End[]): OperatorError | undefined {
  const [first] = ends;
  if (first === undefined || first.error === null) return undefined;
  if (ends.every(({ error }) => error instanceof KeyRefusedError)) return first.error;
  if (ends.every(({ error, reached }) => error instanceof UnreachableError && !reached)) return first.error;
  return undefined;
}
