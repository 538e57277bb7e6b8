/**
 * Errors for the person at the command line. Each says what was done, to what, why it failed and what to do next;
 * each knows its exit code. Anything else that is thrown is a bug, and only a bug shows a stack trace. Below: "Did you mean …", the
 * names closest to one that is not known.
 */
import { distance } from 'fastest-levenshtein';

/** What the process ends with; the meaning of each number is in docs/commands.md, "Exit codes". */
export type ExitCode = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 130 | 143;

/** The worst first: bugs, money whose outcome is open, what a person must set right, then what another try may bring. */
const worstFirst: readonly ExitCode[] = [1, 8, 3, 2, 4, 7, 6, 5, 130, 143, 0];

/** How bad an exit code is among others; the smallest is the worst. What ended without one is a bug. */
export function rankOf(exitCode: number | null): number {
  const rank = worstFirst.indexOf(exitCode as ExitCode);
  return rank === -1 ? 0 : rank;
}

/** What a command that did several things ends with. */
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

/** A file of ours cannot be used: unreadable, unwritable, full, not ours, of a newer version. */
export class FileError extends OperatorError {
  override readonly name = 'FileError';
  override readonly exitCode = 2;
}

/** The server refused the key: 401, or 403 for everything that was requested. */
export class KeyRefusedError extends OperatorError {
  override readonly name: string = 'KeyRefusedError';
  override readonly exitCode = 3;
}

/** The server could not be reached, or every try failed, for everything that was requested. */
export class UnreachableError extends OperatorError {
  override readonly name: string = 'UnreachableError';
  override readonly exitCode = 4;
}

/** The work ended, and a part of it failed. */
export class IncompleteError extends OperatorError {
  override readonly name: string = 'IncompleteError';
  override readonly exitCode = 5;
}

/** The same failure after a part of the work was done: a server that is lost then was not lost for everything. */
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

/** What whatever was thrown says of itself. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The same with where it was thrown, for what is a bug. */
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

/** So few changes lead from one to the other that the hand may have slipped. */
export function isSlip(name: string, known: string): boolean {
  return distance(name.toLowerCase(), known.toLowerCase()) <= Math.max(2, Math.floor(known.length / 3));
}

/** Up to three known names that a slip of the hand could have meant, nearest first. */
export function nearestNames(name: string, known: readonly string[]): string[] {
  const wanted = name.toLowerCase();
  return known
    .map((each) => ({ each, far: distance(wanted, each.toLowerCase()), within: each.toLowerCase().includes(wanted) }))
    .filter(({ each, within }) => isSlip(wanted, each) || (within && wanted.length > 2))
    .sort((a, b) => a.far - b.far)
    .slice(0, 3)
    .map(({ each }) => each);
}

/** `Did you mean "created_at"?`, or the list of what is known where nothing is near. */
export function suggestion(name: string, known: readonly string[]): string {
  const near = nearestNames(name, known);
  if (near.length > 0) return `Did you mean ${near.map((each) => `"${each}"`).join(' or ')}?`;
  return `Known: ${known.join(', ')}.`;
}

/** The one of that name. Throws a UsageError that names the nearest. @param none such as `there is no action` */
export function oneNamed<T extends { readonly name: string }>(all: readonly T[], name: string, none: string): T {
  const found = all.find((each) => each.name === name);
  if (found !== undefined) return found;
  const names = all.map((each) => each.name);
  throw new UsageError(`${none} "${name}"`, { advice: suggestion(name, names) });
}
