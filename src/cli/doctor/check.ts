/** One thing that the doctor looked at. */
import { type ExitCode, OperatorError } from '../../model/errors.ts';
import type { CliContext } from '../context.ts';
import { paint, pasteable } from '../output.ts';

export interface Check {
  readonly name: string;
  /** `skipped`: it could not be looked at, because of another check that says why. */
  readonly state: 'ok' | 'warn' | 'fail' | 'skipped';
  readonly finding: string;
  /** What to do about it, and where. */
  readonly advice?: string | undefined;
  /** What the command ends with because of it; only with `fail`. */
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

/** An OperatorError as a failed check; throws on anything else, which is a bug. */
export function failed(name: string, error: unknown): Check {
  if (!(error instanceof OperatorError)) throw error;
  return { name, state: 'fail', finding: error.message, advice: error.advice, exitCode: error.exitCode };
}

/** What the look finds; an OperatorError is a failed check. */
export async function checking(name: string, look: () => Check[] | Promise<Check[]>): Promise<Check[]> {
  try {
    return await look();
  } catch (error) {
    return [failed(name, error)];
  }
}

const styles = { ok: 'green', warn: 'yellow', fail: 'red', skipped: 'dim' } as const;

/** A line a check, and what to do about it below. */
export function checkLines(context: CliContext, checks: readonly Check[], stream: NodeJS.WriteStream): string[] {
  const width = Math.max(...checks.map((each) => each.name.length));
  return checks.flatMap(({ name, state, finding, advice }) => [
    `${paint(context, styles[state], state.padEnd(7), stream)}  ${name.padEnd(width)}  ${pasteable(context, finding)}`,
    ...(advice === undefined ? [] : [`${' '.repeat(width + 11)}${pasteable(context, advice)}`]),
  ]);
}
