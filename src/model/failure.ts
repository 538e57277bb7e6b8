/** An error on its way between threads, where it loses its class: what an operator sees of it stays. */
import { type ExitCode, FileError, OperatorError, UsageError } from './errors.ts';

/** Plain data. `operator` is null for a bug. */
export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly stack: string | undefined;
  readonly operator: { readonly exitCode: ExitCode; readonly advice: string | undefined } | null;
}

class RelayedError extends OperatorError {
  override readonly name: string;
  override readonly exitCode: ExitCode;

  constructor(failure: Failure, operator: NonNullable<Failure['operator']>) {
    super(failure.message, { advice: operator.advice });
    this.name = failure.name;
    this.exitCode = operator.exitCode;
  }
}

export function failureOf(error: unknown): Failure {
  const known = error instanceof Error ? error : new Error(String(error));
  const operator = known instanceof OperatorError ? { exitCode: known.exitCode, advice: known.advice } : null;
  return { name: known.name, message: known.message, stack: known.stack, operator };
}

export function errorOf(failure: Failure): Error {
  if (failure.operator !== null) {
    const { advice } = failure.operator;
    // Whoever asks whether the question or the file is at fault, finds out here as well.
    if (failure.name === 'UsageError') return new UsageError(failure.message, { advice });
    if (failure.name === 'FileError') return new FileError(failure.message, { advice });
    return new RelayedError(failure, failure.operator);
  }
  const bug = new Error(failure.message);
  bug.name = failure.name;
  if (failure.stack !== undefined) bug.stack = failure.stack;
  return bug;
}
