/** The checks of `doctor`, and how they are printed. */
import { type ExitCode, OperatorError } from '../../model/errors.ts';
import type { CliContext } from '../context.ts';
import { paint, pasteable } from '../output.ts';

export interface Check {
  readonly name: string;
  /** `skipped`: it could not be checked; another check says why. */
  readonly state: 'ok' | 'warn' | 'fail' | 'skipped';
  readonly finding: string;
  /** What to do about it, and where. */
  readonly advice?: string | undefined;
  /** The exit code for it; only with `fail`. */
  readonly exitCode?: ExitCode;
}

export function ok(name: string, finding: string): Check {
  return { name, state: 'ok', finding };
}

export function warn(name: string, finding: string, advice?: string): Check {
  return { name, state: 'warn', finding, advice };
}

export function skipped(name: string, finding: string): Check {
  return { name, state: 'skipped', finding };
}

/** Turns an OperatorError into a failed check. Throws anything else, which is a bug. */
export function failed(name: string, error: unknown): Check {
  if (!(error instanceof OperatorError)) throw error;
  return { name, state: 'fail', finding: error.message, advice: error.advice, exitCode: error.exitCode };
}

/** Returns what `check` finds, or a failed check if it throws an OperatorError. */
export async function checking(name: string, check: () => Check[] | Promise<Check[]>): Promise<Check[]> {
  try {
    return await check();
  } catch (error) {
    return [failed(name, error)];
  }
}

const styles = { ok: 'green', warn: 'yellow', fail: 'red', skipped: 'dim' } as const;

/** Returns a line for each check, and below it what to do. */
export function checkLines(context: CliContext, checks: readonly Check[], stream: NodeJS.WriteStream): string[] {
  const width = Math.max(...checks.map((each) => each.name.length));
  return checks.flatMap(({ name, state, finding, advice }) => [
    `${paint(context, styles[state], state.padEnd(7), stream)}  ${name.padEnd(width)}  ${pasteable(context, finding)}`,
    ...(advice === undefined ? [] : [`${' '.repeat(width + 11)}${pasteable(context, advice)}`]),
  ]);
}
