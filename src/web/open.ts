/** The console over the mirror and the journal of the settings, as the command `serve` and every test open it. */
import { randomBytes } from 'node:crypto';
import type { Sleep } from '../api/rate.ts';
import { realSleep } from '../api/transmission.ts';
import { openReaders } from '../data/open.ts';
import { openJournal } from '../journal/open.ts';
import { hasRole } from '../model/account.ts';
import type { Actor } from '../model/actor.ts';
import type { Releases } from '../model/releases.ts';
import { openPeople } from '../people/open.ts';
import type { Surroundings } from '../settings/settings.ts';
import { openByHand } from '../worker/by-hand.ts';
import { openWholeStatus } from '../worker/open-status.ts';
import { FirstAccount } from './first-account.ts';
import { openOidc } from './oidc.ts';
import type { ConsolePorts } from './ports.ts';
import { Sendings } from './sendings.ts';
import { type ConsoleAddress, listenFor } from './server.ts';
import { Uploads } from './uploads.ts';

interface ConsoleOptions extends Pick<ConsolePorts, 'actor' | 'redact'> {
  /** How commands of this program are started. */
  readonly commands: Parameters<typeof openByHand>[1];
  readonly address: ConsoleAddress;
  readonly actor: Actor;
  /** How sending waits; in real time where it is left out. */
  readonly sleep?: Sleep;
}

interface OpenedConsole {
  /** `http://127.0.0.1:8080` */
  readonly url: string;
  /** How the first admin is made; null where there is one. */
  readonly first: FirstAccount | null;
}

/** Opens it, and listens. Throws a UsageError or a FileError. */
export async function openConsole(
  { settings, log, clock, signal }: Surroundings,
  { address, actor, redact, commands, sleep = realSleep }: ConsoleOptions,
  releases: Releases,
): Promise<OpenedConsole> {
  const people = await openPeople(settings, actor, clock, releases);
  const journal = await openJournal(settings, actor, clock, releases);
  const hasAdmin = (await people.accounts()).some((each) => hasRole(each, 'admin'));
  const first = hasAdmin ? null : new FirstAccount(randomBytes(24).toString('base64url'));
  const { profile, api } = settings;
  const serverName = [profile, api.baseUrl].filter((each) => each !== undefined).join(' · ');
  const { sessions } = people;
  const surroundings = { settings, log, clock, signal };
  const uploads = releases.add(await new Uploads(surroundings).open());
  const sendings = releases.add(new Sendings(surroundings, sleep));
  const ports = {
    byHand: openByHand(surroundings, commands, releases),
    status: openWholeStatus(settings, clock),
    settings,
    clock,
    log,
    signal,
    redact,
    serverName,
    actor,
    people,
    sessions,
    journal,
    readers: openReaders(settings, releases),
    uploads,
    sendings,
    first,
    oidc: openOidc(settings, clock, releases),
  };
  const { url } = releases.add(await listenFor(address, ports));
  return { url, first };
}
