/** Setting up and checking: what a first run needs. A check has a name and finds one thing or several; it changes nothing. */
import { type ExitCode, OperatorError } from '../model/errors.ts';
import type { Settings, SettingsReading } from '../settings/settings.ts';
import type { ServerFindings } from './server-checks.ts';

export interface Check {
  /** Names what it finds, unless that has a name of its own. */
  readonly name: string;
  /** May throw an OperatorError, which is a failure. */
  readonly run: (place: Place) => readonly Finding[] | Promise<readonly Finding[]>;
  /** What to do if it fails and the error does not say it. */
  readonly advice?: string;
}

/** What the checks look at. */
export interface Place {
  readonly reading: SettingsReading;
  /** Without refused values. */
  readonly settings: Settings;
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  /** Asks the server, once. */
  readonly server: () => Promise<ServerFindings>;
}

export interface Finding {
  readonly name: string;
  /** `skipped`: it could not be checked; another check says why. */
  readonly state: 'ok' | 'warn' | 'fail' | 'skipped';
  readonly finding: string;
  /** What to do about it, and where. */
  readonly advice?: string | undefined;
  /** The exit code for it; only with `fail`. */
  readonly exitCode?: ExitCode;
}

export function ok(name: string, finding: string): Finding {
  return { name, state: 'ok', finding };
}

export function warn(name: string, finding: string, advice?: string): Finding {
  return { name, state: 'warn', finding, advice };
}

export function skipped(name: string, finding: string): Finding {
  return { name, state: 'skipped', finding };
}

/** Turns an OperatorError into a failure. Throws anything else, which is a bug. */
export function failed(name: string, error: unknown, advice?: string): Finding {
  if (!(error instanceof OperatorError)) throw error;
  return { name, state: 'fail', finding: error.message, advice: error.advice ?? advice, exitCode: error.exitCode };
}

/** Runs the checks one after the other, and returns what they find in their order. */
export async function runChecks(checks: readonly Check[], place: Place): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for (const { name, run, advice } of checks) {
    try {
      // One at a time: they share the disk and the server, and there are few.
      found.push(...(await run(place)));
    } catch (error) {
      place.signal.throwIfAborted();
      found.push(failed(name, error, advice));
    }
  }
  return found;
}
