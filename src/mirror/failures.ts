/** Failures of the engine's own, and what several failures have in common. */
import { ForeignRecords } from '../api/errors.ts';
import { KeyRefusedError, OperatorError, UnreachableError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import type { MirrorStore } from './store/mirror-store.ts';

/** The server did what its measured capabilities rule out: they must be measured again. */
export class ContradictionError extends OperatorError {
  override readonly name: string = 'ContradictionError';
  override readonly exitCode = 5;
}

/** Records came from beside the days that were requested, though ranges were measured to show exactly those. */
export class BesideRangeError extends ContradictionError {
  override readonly name = 'BesideRangeError';
}

/** Puts on record, once a run, that a list shows what is not its own; any other error is left to who caught it. */
export function noteForeign(
  error: unknown,
  { store, run, resource }: { readonly store: MirrorStore; readonly run: string; readonly resource: ResourceName },
): void {
  if (!(error instanceof ForeignRecords)) return;
  store.recordEvent(run, { resource, kind: 'foreign_records', subject: run, detail: error.message });
}

/** The one failure behind all of these ends: a refused key, or a server that gave nothing at all; else undefined. */
export function sharedFailure(
  ends: readonly { readonly error: OperatorError | null; readonly reached: boolean }[],
): OperatorError | undefined {
  const [first] = ends;
  if (first === undefined || first.error === null) return undefined;
  if (ends.every(({ error }) => error instanceof KeyRefusedError)) return first.error;
  if (ends.every(({ error, reached }) => error instanceof UnreachableError && !reached)) return first.error;
  return undefined;
}
