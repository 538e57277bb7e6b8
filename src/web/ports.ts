/** What the pages work with: everything is opened once, by the command `serve`. */
import type { Readers } from '../data/readers.ts';
import type { FirstAccount } from './first-account.ts';
import type { Oidc } from './oidc.ts';
import type { Settings } from '../settings/settings.ts';
import type { Log } from '../model/log.ts';
import type { Actor } from '../model/actor.ts';
import type { Clock } from '../model/time.ts';
import type { ByHand } from '../worker/by-hand.ts';
import type { ServerState, WholeStatus } from '../worker/open-status.ts';
import type { Journal } from '../journal/port.ts';
import type { People } from '../people/port.ts';
import type { Sessions } from '../people/sessions.ts';
import type { Sendings } from './sendings.ts';
import type { Planning } from './planning.ts';
import type { Uploads } from './uploads.ts';

export interface ConsolePorts {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborted when the console stops. */
  readonly signal: AbortSignal;
  /** The text without the key and other secrets. */
  readonly redact: (text: string) => string;
  /** The profile and the address of the server, for the foot of every page. */
  readonly serverName: string;
  /** The account of the system that the console runs under. */
  readonly actor: Actor;
  readonly people: People;
  readonly sessions: Sessions;
  readonly journal: Journal;
  /** Syncs and comparisons that people start. */
  readonly byHand: ByHand;
  /** The state of everything for the first page, read once for all who ask within a second. */
  readonly status: () => Promise<WholeStatus>;
  /** Of every server of the config file, the worst first. */
  readonly servers: () => Promise<readonly ServerState[]>;
  /** Of the mirror. */
  readonly readers: Readers;
  readonly planning: Planning;
  readonly uploads: Uploads;
  readonly sendings: Sendings;
  /** How the first admin is made; null where there is one. */
  readonly first: FirstAccount | null;
  /** Null where nobody signs in by another service. */
  readonly oidc: Oidc | null;
}
