/** Opens the console over the mirror and the journal of the settings, for the command `serve` and for tests. */
import type { ConsolePorts } from './route.ts';
import { randomBytes } from 'node:crypto';
import { type Sleep, realSleep } from '../api/gate.ts';
import { openReaders } from '../data/open.ts';
import { openJournal } from '../journal/open.ts';
import { hasRole, type Actor } from '../model/actor.ts';
import { Releases } from '../model/releases.ts';
import { isSameWord } from '../model/secret.ts';
import { openPeople } from '../people/open.ts';
import { type Clock, minuteMs } from '../model/time.ts';
import type { ServerReading, Surroundings } from '../settings/settings.ts';
import { ConsoleRuns } from '../worker/console-runs.ts';
import { type GivenSettings, passedToChild, withoutSecrets } from '../settings/passed.ts';
import { type GivenData, jobRunner, type RunJob } from '../worker/run-job.ts';
import { openServerStates, openWholeStatus, type ServerState } from '../worker/open-status.ts';
import { openWorkerStore } from '../worker/open-store.ts';
import { openOidc } from './oidc.ts';
import { Planning } from './planning.ts';
import { Sendings } from './sendings.ts';
import type { ConsoleAddress } from './app.ts';
import { listenFor } from './server.ts';
import { Uploads } from './uploads.ts';

interface ConsoleOptions extends Pick<ConsolePorts, 'actor' | 'redact'> {
  /** How to start commands of this program. */
  readonly commands: {
    readonly folder: string;
    readonly environment: Readonly<Record<string, string | undefined>>;
    readonly settings: GivenSettings;
  };
  readonly address: ConsoleAddress;
  readonly actor: Actor;
  /** Makes `redact` remove this secret too. */
  readonly keepSecret: (word: string) => void;
  /** How sending waits; in real time by default. */
  readonly sleep?: Sleep;
  /** All servers of the config file; none by default. */
  readonly servers?: readonly ServerReading[];
}

/** Opens the console and starts to listen. Throws a UsageError or a FileError. */
export async function openConsole(
  { settings, log, clock, signal }: Surroundings,
  { address, actor, redact, keepSecret, commands, sleep = realSleep, servers = [] }: ConsoleOptions,
  releases: Releases,
) {
  const people = await openPeople(settings, actor, clock, releases);
  const journal = await openJournal(settings, actor, clock, releases);
  const hasAdmin = (await people.accounts()).some((each) => hasRole(each, 'admin'));
  const first = hasAdmin ? null : new FirstAccount();
  const { profile, api } = settings;
  const serverName = [profile, api.baseUrl].filter((each) => each !== undefined).join(' · ');
  const { sessions } = people;
  const surroundings = { settings, log, clock, signal };
  const { folder, environment } = commands;
  const run = jobRunner({ folder, environment: withoutSecrets(environment), log });
  const given = passedToChild(commands.settings);
  const planning = new Planning({ run, given });
  const uploads = releases.add(await new Uploads(surroundings, planning).open());
  const sendings = releases.add(new Sendings(surroundings, sleep));
  const ports = {
    consoleRuns: openConsoleRuns(surroundings, run, given, releases),
    status: () => openWholeStatus(settings, clock),
    servers: statesOf(servers, clock),
    settings,
    clock: journal.clock,
    log,
    signal,
    redact,
    serverName,
    actor,
    people,
    sessions,
    journal,
    readers: openReaders(settings, releases),
    planning,
    uploads,
    sendings,
    first,
    oidc: openOidc({ settings, clock, redact, keepSecret }, releases),
  };
  const { url } = releases.add(await listenFor(address, ports));
  return { url, first };
}

/** Reads the states once a minute, for all readers: with a hundred servers, that takes a second. */
function statesOf(servers: readonly ServerReading[], clock: Clock): ConsolePorts['servers'] {
  let last: { readonly at: number; readonly states: Promise<readonly ServerState[]> } | undefined;
  return () => {
    const now = clock.now();
    if (last === undefined || Math.abs(now - last.at) > minuteMs) {
      last = { at: now, states: openServerStates(servers, clock) };
    }
    return last.states;
  };
}

/** The release waits for the runs that have not ended. */
function openConsoleRuns(
  { settings, clock, log, signal }: Surroundings,
  run: RunJob,
  given: GivenData,
  releases: Releases,
): ConsoleRuns {
  // Below the runs on the stack, so that the store is closed after the last run is recorded.
  const opened = releases.add(new Releases());
  const openStore = () => openWorkerStore(settings, clock, opened);
  return releases.add(new ConsoleRuns({ given, run, openStore, clock, log, signal }));
}

/** The link that creates the first admin, once. */
export class FirstAccount {
  /** `/first/…` */
  readonly path = `/first/${randomBytes(24).toString('base64url')}`;
  #isUsed = false;

  /** Whether this is the path of the link and the link can still be used. */
  isOpen(path: string): boolean {
    return !this.#isUsed && isSameWord(path, this.path);
  }

  /** Uses the link up. If `work` fails, the link can be used again. */
  async use<T>(work: () => Promise<T>): Promise<T> {
    this.#isUsed = true;
    try {
      return await work();
    } catch (error) {
      this.#isUsed = false;
      throw error;
    }
  }
}
