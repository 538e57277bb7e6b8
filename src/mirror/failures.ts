/** The engine's own errors, and the failure that several resources share. */
import { ForeignRecords, KeyRefused, NotTheApi, Unreachable } from '../api/errors.ts';
import {
  type ErrorOptions,
  FileError,
  IncompleteError,
  KeyRefusedError,
  OperatorError,
  UnreachableError,
} from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import type { WindowCause } from '../store/mirror-types.ts';
import { SpentError } from './run-bounds.ts';
import type { MirrorStore } from './store/mirror-store.ts';

/** A response contradicts the measured profile: it must be measured again. */
export class ContradictionError extends OperatorError {
  override readonly name = 'ContradictionError';
  override readonly exitCode = 5;
  /**
   * `beside`: records came from just beside the requested days, though ranges were measured to show exactly their days. `refused`:
   * the server refuses, or fails on, what it took before.
   */
  readonly what: 'beside' | 'refused' | 'other';

  constructor(
    message: string,
    { what = 'other', ...options }: ErrorOptions & { readonly what?: ContradictionError['what'] } = {},
  ) {
    super(message, options);
    this.what = what;
  }
}

/** Records, once a run, that a list shows records of another resource. Does nothing for any other error. */
export function noteForeign(
  error: unknown,
  { store, run, resource }: { readonly store: MirrorStore; readonly run: string; readonly resource: ResourceName },
): void {
  if (!(error instanceof ForeignRecords)) return;
  store.recordEvent(run, { resource, kind: 'foreign_records', subject: run, detail: error.message });
}

/** Returns why the window could not be read, by the error that ended its walk. */
export function causeOf(error: OperatorError): WindowCause {
  if (error instanceof KeyRefusedError) return 'key_refused';
  if (error instanceof Unreachable) return 'server_unreachable';
  if (error instanceof SpentError) return 'requests_spent';
  if (error instanceof IncompleteError || error instanceof ContradictionError) return 'list_contradicts_itself';
  return error instanceof FileError ? 'not_read' : 'server_failed';
}

/** Whether every other request of the resource would fail in the same way. */
export function isHopeless(error: unknown): boolean {
  return [KeyRefused, Unreachable, NotTheApi, SpentError, FileError].some((kind) => error instanceof kind);
}

/** Returns the failure that all of these ends share: a refused key, or a server that gave nothing at all; else undefined. */
export function sharedFailure(
  ends: readonly { readonly error: OperatorError | null; readonly reached: boolean }[],
): OperatorError | undefined {
  const [first] = ends;
  if (first === undefined || first.error === null) return undefined;
  if (ends.every(({ error }) => error instanceof KeyRefusedError)) return first.error;
  if (ends.every(({ error, reached }) => error instanceof UnreachableError && !reached)) return first.error;
  return undefined;
}
