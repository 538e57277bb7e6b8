/** The server did what its measured capabilities rule out: they must be measured again. */
import { ForeignRecords } from '../api/errors.ts';
import { OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import type { MirrorStore } from './store/mirror-store.ts';

export class ContradictionError extends OperatorError {
  override readonly name = 'ContradictionError';
  override readonly exitCode = 5;
}

/** Puts on record, once a run, that a list shows what is not its own; any other error is left to who caught it. */
export function noteForeign(
  error: unknown,
  { store, run, resource }: { readonly store: MirrorStore; readonly run: string; readonly resource: ResourceName },
): void {
  if (!(error instanceof ForeignRecords)) return;
  store.recordEvent(run, { resource, kind: 'foreign_records', subject: run, detail: error.message });
}
