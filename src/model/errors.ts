/**
 * Errors for the person at the command line. Each says what was done, to what, why it failed and what to do next, and knows its
 * exit code. Anything else that is thrown is a bug, and only a bug shows a stack trace. Also "Did you mean …": the known names
 * closest to an unknown one.
 */
import { distance } from 'fastest-levenshtein';

/** The exit codes of the process, and what each means: in docs/commands.md, and of a job that ended with it. */
export const exitMeanings = {
  0: 'done',
  1: 'a bug in admin-mirror; please report it',
  2: 'wrong usage, settings or input, or a file that cannot be used',
  3: 'the server refused the key',
  4: 'the server could not be reached',
  5: 'finished, but a part failed',
  6: 'the mirror and the server differ',
  7: 'another run holds the lock',
  8: 'something was sent, and nobody knows whether it happened',
  130: 'stopped by SIGINT (Ctrl+C)',
  143: 'stopped by SIGTERM',
} as const;
export type ExitCode = keyof typeof exitMeanings;

/** The worst first: bugs, money whose outcome is unknown, what a person must fix, then what a retry may fix. */
const worstFirst: readonly ExitCode[] = [1, 8, 3, 2, 4, 7, 6, 5, 130, 143, 0];

/** Returns the rank of an exit code, 0 for the worst. A command that ended without one has a bug. */
export function rankOf(exitCode: number | null): number {
  const rank = worstFirst.indexOf(exitCode as ExitCode);
  return rank === -1 ? 0 : rank;
}

/** Returns the exit code of a command that did several things. */
export function worstOf(exitCodes: readonly (number | null)[]): ExitCode {
  return worstFirst[Math.min(worstFirst.length - 1, ...exitCodes.map(rankOf))] ?? 1;
}

export interface ErrorOptions {
  /** What to do next, as a full sentence. */
  readonly advice?: string | undefined;
  readonly cause?: unknown;
}

export abstract class OperatorError extends Error {
  abstract override readonly name: string;
  abstract readonly exitCode: ExitCode;
  readonly advice: string | undefined;

  constructor(message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.advice = options.advice;
  }
}

/** Wrong usage, settings or input. */
export class UsageError extends OperatorError {
  override readonly name: string = 'UsageError';
  override readonly exitCode = 2;
}

/** A change must not be sent. Before the first one, nothing was; later, nothing more is. */
export class NotSentError extends UsageError {
  /** Without what became of the rest. */
  readonly why: string;

  constructor(why: string, options?: ErrorOptions) {
    super(`${why}; nothing was sent`, options);
    this.why = why;
  }
}

/** A file of ours cannot be used: unreadable, unwritable, full, not ours, of a newer version. */
export class FileError extends OperatorError {
  override readonly name = 'FileError';
  override readonly exitCode = 2;
}

/** The server refused the key: 401, or 403 for every request. */
export class KeyRefusedError extends OperatorError {
  override readonly name: string = 'KeyRefusedError';
  override readonly exitCode = 3;
}

/** The server could not be reached, or every try of every request failed. */
export class UnreachableError extends OperatorError {
  override readonly name: string = 'UnreachableError';
  override readonly exitCode = 4;
}

/** The work ended, but a part of it failed. */
export class IncompleteError extends OperatorError {
  override readonly name: string = 'IncompleteError';
  override readonly exitCode = 5;
}

/** Returns the error of a failure after a part of the work was done: an unreachable server then counts as incomplete work. */
export function afterPart<E>(error: E): E | IncompleteError {
  if (!(error instanceof UnreachableError)) return error;
  return new IncompleteError(error.message, { advice: error.advice, cause: error });
}

/** Another run holds the lock. */
export class LockHeldError extends OperatorError {
  override readonly name = 'LockHeldError';
  override readonly exitCode = 7;
}

/** A write was sent and nobody knows whether it happened. */
export class OutcomeUnknownError extends OperatorError {
  override readonly name: string = 'OutcomeUnknownError';
  override readonly exitCode = 8;
}

/** The operator stopped the command with a signal. */
export class InterruptedError extends OperatorError {
  override readonly name = 'InterruptedError';
  override readonly exitCode: 130 | 143;

  constructor(signal: 'SIGINT' | 'SIGTERM') {
    super(`stopped by ${signal}`);
    this.exitCode = signal === 'SIGINT' ? 130 : 143;
  }
}

/** Returns the message of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns the stack if there is one, for bugs. */
export function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

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
    // Callers ask by class whether the input or a file is at fault.
    if (failure.name === 'UsageError') return new UsageError(failure.message, { advice });
    if (failure.name === 'FileError') return new FileError(failure.message, { advice });
    return new RelayedError(failure, failure.operator);
  }
  const bug = new Error(failure.message);
  bug.name = failure.name;
  if (failure.stack !== undefined) bug.stack = failure.stack;
  return bug;
}

/** Returns whether one is likely to be a typo of the other. */
export function isSlip(name: string, known: string): boolean {
  return distance(name.toLowerCase(), known.toLowerCase()) <= Math.max(2, Math.floor(known.length / 3));
}

/** Returns up to three known names that could have been meant, nearest first. */
export function nearestNames(name: string, known: readonly string[]): string[] {
  const typed = name.toLowerCase();
  return known
    .map((each) => ({ each, far: distance(typed, each.toLowerCase()), within: each.toLowerCase().includes(typed) }))
    .filter(({ each, within }) => isSlip(typed, each) || (within && typed.length > 2))
    .sort((a, b) => a.far - b.far)
    .slice(0, 3)
    .map(({ each }) => each);
}

/** Returns `Did you mean "created_at"?`, or the list of known names if none is near. */
export function suggestion(name: string, known: readonly string[]): string {
  const near = nearestNames(name, known);
  if (near.length > 0) return `Did you mean ${near.map((each) => `"${each}"`).join(' or ')}?`;
  return `Known: ${known.join(', ')}.`;
}

/**
 * Returns the member with this name. Throws a UsageError that suggests the nearest name.
 * @param none begins the message: `there is no action`
 */
export function oneNamed<T extends { readonly name: string }>(all: readonly T[], name: string, none: string): T {
  const found = all.find((each) => each.name === name);
  if (found !== undefined) return found;
  const names = all.map((each) => each.name);
  throw new UsageError(`${none} "${name}"`, { advice: suggestion(name, names) });
}
