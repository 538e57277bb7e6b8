/** How every server of the config file is, in a few words each, the worst first. */
import { setImmediate } from 'node:timers/promises';
import { openStatus } from '../mirror/open-status.ts';
import { type ExitCode, FileError, type OperatorError, rankOf } from '../model/errors.ts';
import { withReleases } from '../model/releases.ts';
import type { Clock, Timestamp } from '../model/time.ts';
import type { ServerReading } from '../settings/settings.ts';
import { openWorkerStatus } from './open-status.ts';
import { checkCode, type StatusProblem, statusProblems } from './status-problems.ts';

export interface ServerState {
  /** null: the server outside of the profiles. */
  readonly profile: string | null;
  /** What `status --check` ends with for it alone. */
  readonly check: ExitCode;
  /** Null where it was never read whole. */
  readonly fresh_as_of: Timestamp | null;
  /** Whether a sync is under way. */
  readonly is_running: boolean;
  /** Whether a worker is there for its jobs. */
  readonly has_worker: boolean;
  /** The worst first. */
  readonly problems: readonly StatusProblem[];
}

/** The state of each, the worst first, then the stalest. One after the other: the files of one are open at a time. */
export async function openServerStates(all: readonly ServerReading[], clock: Clock): Promise<ServerState[]> {
  const states: ServerState[] = [];
  for (const each of all) {
    states.push(await stateOf(each, clock));
    // A console serves others meanwhile.
    await setImmediate();
  }
  return states.sort(
    (a, b) => rankOf(a.check) - rankOf(b.check) || (a.fresh_as_of ?? '').localeCompare(b.fresh_as_of ?? ''),
  );
}

async function stateOf(
  { profile, reading: { settings, problems } }: ServerReading,
  clock: Clock,
): Promise<ServerState> {
  const none = { profile, check: 2, fresh_as_of: null, is_running: false, has_worker: false } as const;
  if (settings === undefined) return { ...none, problems: problems.map((error) => problemOf('settings', error)) };
  try {
    return await withReleases(async (releases) => {
      const mirror = openStatus(settings, releases);
      const worker = await openWorkerStatus(settings, clock, releases);
      const problems = statusProblems(mirror, worker);
      return {
        profile,
        check: checkCode(problems),
        fresh_as_of: mirror.fresh_as_of,
        is_running: mirror.running !== null,
        has_worker: worker.worker !== null,
        problems,
      };
    });
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return { ...none, problems: [problemOf('no_mirror', error)] };
  }
}

function problemOf(kind: 'settings' | 'no_mirror', { message, advice = '' }: OperatorError): StatusProblem {
  return { kind, problem: message, next: advice };
}
