/** The console over the mirror and the journal of the settings, as the command `serve` and every test open it. */
import type { ConsolePorts } from './route.ts';
import { randomBytes } from 'node:crypto';
import type { Sleep } from '../api/rate.ts';
import { realSleep } from '../api/rate.ts';
import { openReaders } from '../data/open.ts';
import { openJournal } from '../journal/open.ts';
import { hasRole, type Actor } from '../model/actor.ts';
import { Releases } from '../model/releases.ts';
import { isSameWord } from '../model/secret.ts';
import { openPeople } from '../people/open.ts';
import { type Clock, minuteMs } from '../model/time.ts';
import type { ServerReading, Surroundings } from '../settings/settings.ts';
import { ConsoleRuns } from '../worker/console-runs.ts';
import { commandRunner } from '../worker/command.ts';
import { openServerStates, openWholeStatus, type ServerState } from '../worker/open-status.ts';
import { openWorkerStore } from '../worker/open-store.ts';
import { openOidc } from './oidc.ts';
import { Planning, Uploads } from './planning.ts';
import { Sendings } from './sendings.ts';
import { type ConsoleAddress, listenFor } from './server.ts';

interface ConsoleOptions extends Pick<ConsolePorts, 'actor' | 'redact'> {
  /** How commands of this program are started. */
  readonly commands: Pick<Parameters<typeof commandRunner>[0], 'folder' | 'environment' | 'globalFlags'>;
  readonly address: ConsoleAddress;
  readonly actor: Actor;
  /** Takes a secret that a file of the settings holds; `redact` knows it from then on. */
  readonly keepSecret: (word: string) => void;
  /** How sending waits; in real time where it is left out. */
  readonly sleep?: Sleep;
  /** All of the config file; none where it is left out. */
  readonly servers?: readonly ServerReading[];
}

/** Opens it, and listens. Throws a UsageError or a FileError. */
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
  const planning = new Planning(surroundings);
  const uploads = releases.add(await new Uploads(surroundings, planning).open());
  const sendings = releases.add(new Sendings(surroundings, sleep));
  const ports = {
    consoleRuns: openByHand(surroundings, commands, releases),
    status: openWholeStatus(settings, clock),
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

/** Looking at a hundred servers takes a second: once a minute, for all readers, is enough. */
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

/** What still runs is waited for when it is released. */
function openByHand(
  { settings, clock, log, signal }: Surroundings,
  commands: ConsoleOptions['commands'],
  releases: Releases,
): ConsoleRuns {
  // Below it on the stack: the store is closed after the last run is on record.
  const opened = releases.add(new Releases());
  const openStore = () => openWorkerStore(settings, clock, opened);
  return releases.add(new ConsoleRuns({ run: commandRunner({ ...commands, log }), openStore, clock, log, signal }));
}

/** The link by which the first admin is made, once. */
export class FirstAccount {
  /** `/first/…` */
  readonly path = `/first/${randomBytes(24).toString('base64url')}`;
  #isUsed = false;

  /** Whether the path is that of the link, which may still be used. */
  isOpen(path: string): boolean {
    return !this.#isUsed && isSameWord(path, this.path);
  }

  /** Does it with the link, which cannot be used meanwhile, nor any more unless it fails. */
  async use<T>(doing: () => Promise<T>): Promise<T> {
    this.#isUsed = true;
    try {
      return await doing();
    } catch (error) {
      this.#isUsed = false;
      throw error;
    }
  }
}
