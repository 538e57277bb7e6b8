/** What the worker does at its times: one command line each, as a person could type it. */

export const jobKinds = ['sync', 'export', 'report', 'verify', 'certify', 'snapshot', 'backup', 'publish'] as const;
export type JobKind = (typeof jobKinds)[number];

/** A job of the settings. Plain data. */
export interface Job {
  readonly name: string;
  readonly run: JobKind;
  /** Arguments of `admin-mirror`: `['export', 'users', '--output', 'users.csv']`. */
  readonly commandLine: readonly string[];
  readonly cron: string;
  /** The time zone whose clock the expression means. */
  readonly timezone: string;
  /** Each occurrence begins up to so many ms later, always the same for the same one. */
  readonly jitterMs: number;
  /** The profile that the job is of: the same job of another has other delays. */
  readonly profile?: string;
  /** Jobs that must be done with the same night before this one begins; they are jobs of the same settings. */
  readonly after: readonly string[];
  /** Whether it is left out where one of those was not complete. */
  readonly requireComplete: boolean;
  readonly catchUp: boolean;
  /** Stopped when it takes longer, ms; undefined: it may take as long as it takes. */
  readonly timeoutMs: number | undefined;
}

/** As a person would type it. */
export function commandText(commandLine: readonly string[]): string {
  return ['admin-mirror', ...commandLine].map(quoted).join(' ');
}

/** A word as a shell takes it for one. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
