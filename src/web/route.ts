/** The types of the console's routes: path, access, and reply. routes.ts has the table of all routes. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Readers } from '../data/readers.ts';
import type { Journal } from '../journal/port.ts';
import type { Account, Role, Actor } from '../model/actor.ts';
import { type OperatorError, UsageError } from '../model/errors.ts';
import { type Clock, momentForms, parseMoment, secondMs, type Timestamp, timestampOf } from '../model/time.ts';
import type { People } from '../people/people.ts';
import type { Session, Sessions } from '../people/sign-in.ts';
import type { Surroundings } from '../settings/settings.ts';
import type { ConsoleRuns } from '../worker/console-runs.ts';
import type { ServerState, WholeStatus } from '../worker/open-status.ts';
import type { FirstAccount } from './open.ts';
import type { Html } from './html.ts';
import type { Oidc } from './oidc.ts';
import type { Planning } from './planning.ts';
import type { Sendings } from './sendings.ts';
import type { Uploads } from './uploads.ts';

/** What the pages work with. The command `serve` opens everything once. */
export interface ConsolePorts extends Surroundings {
  /** Removes the key and other secrets from the text. */
  readonly redact: (text: string) => string;
  /** The profile and the address of the server, for the foot of every page. */
  readonly serverName: string;
  /** The operating-system account under which the console runs. */
  readonly actor: Actor;
  readonly people: People;
  readonly sessions: Sessions;
  readonly journal: Journal;
  /** Syncs and comparisons that people start. */
  readonly consoleRuns: ConsoleRuns;
  /** The state of everything, for the first page. All requests within a second share one reading. */
  readonly status: () => Promise<WholeStatus>;
  /** The state of every server of the config file, the worst first. */
  readonly servers: () => Promise<readonly ServerState[]>;
  /** Read the mirror. */
  readonly readers: Readers;
  readonly planning: Planning;
  readonly uploads: Uploads;
  readonly sendings: Sendings;
  /** The link that creates the first admin; null if there is an admin. */
  readonly first: FirstAccount | null;
  /** Null if OpenID Connect is not set up. */
  readonly oidc: Oidc | null;
}

/** The signed-in person who sends the request. */
export interface Caller {
  readonly account: Account;
  readonly session: Session;
}

/** One request, as the pages see it. */
export interface Visit {
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** The fields of the form; empty if there is no form. */
  readonly form: URLSearchParams;
  /** Null if nobody is signed in. */
  readonly caller: Caller | null;
  /** The address of the console as the browser knows it, without a path. */
  readonly origin: string;
  /** The ticket that the browser kept while the person was at the OpenID provider; null if there is none. */
  readonly ticket: string | null;
  /** The IP address of the browser, for the record. */
  readonly address: string;
  /** Why the form was refused, if its page is shown again. The reason appears on top of the page. */
  readonly refusal: OperatorError | null;
  /** Whether the caller has the role. */
  readonly may: (role: Role) => boolean;
  /** Whether the caller may use this route of the table. A read-only console lacks the routes that change something. */
  readonly offers: (method: Route['method'], path: string) => boolean;
  /** Turns a path into the address for the browser, which a proxy may have put into a folder. */
  readonly link: (path: string, query?: Readonly<Record<string, string | number | null | undefined>>) => string;
  /** Aborted when the browser has gone or the console stops. */
  readonly signal: AbortSignal;
  /** The files of the form. The next file is read only after the previous one was consumed. */
  readonly uploads: () => AsyncIterable<Upload>;
}

export interface Upload {
  readonly field: string;
  readonly name: string;
  readonly bytes: AsyncIterable<Uint8Array>;
  /** The fields before the file in the form. */
  readonly fields: Readonly<Record<string, string>>;
}

export type Reply =
  | {
      readonly kind: 'page';
      readonly title: string;
      readonly body: Html;
      readonly status?: number;
      /** Without scripts, the browser loads the page again after this many seconds. */
      readonly refresh?: number;
    }
  | { readonly kind: 'redirect'; readonly to: string; readonly cookie?: SessionCookie; readonly ticket?: string }
  /** A page that opens the next one by itself. A redirect would still come from the provider, and the browser would send no session. */
  | { readonly kind: 'onward'; readonly to: string; readonly cookie?: SessionCookie }
  | { readonly kind: 'file'; readonly name: string; readonly type: string; readonly chunks: AsyncIterable<Uint8Array> }
  /** A picture, shown in the page. */
  | { readonly kind: 'picture'; readonly svg: string }
  /** Server-sent events, each with one line of JSON. */
  | { readonly kind: 'events'; readonly events: AsyncIterable<unknown> };

/** The token for the browser to keep; null ends the session. */
interface SessionCookie {
  readonly token: string | null;
}

/** `anybody`: even without signing in; `signed-in`: with any roles or none; otherwise with one of these roles. */
export type Access = 'anybody' | 'signed-in' | readonly Role[];

export type Handle = (visit: Visit, ports: ConsolePorts) => Reply | Promise<Reply>;

export interface Route {
  readonly method: 'GET' | 'POST';
  /** Parts that begin with a colon are parameters. */
  readonly path: string;
  readonly access: Access;
  readonly handle: Handle;
  /** If an OperatorError refuses the request, this page is shown with the reason. */
  readonly refused?: Handle;
  /** Takes files, whose bytes are read as they arrive. */
  readonly takesFiles?: true;
  /** A read-only console lacks this route. */
  readonly changes?: true;
}

/** Whether somebody with these roles, or nobody, may use the route. */
export function isAllowed(access: Access, roles: readonly Role[] | null): boolean {
  if (access === 'anybody') return true;
  if (roles === null) return false;
  return access === 'signed-in' || access.some((role) => roles.includes(role));
}

/** Nothing exists at that address. */
export class NotFoundError extends UsageError {}

export function notFound(what = 'there is no such page'): NotFoundError {
  return new NotFoundError(what, { advice: 'It may have been removed, or the address has a mistake.' });
}

/**
 * Returns the time in the field; undefined if it is empty. Throws a UsageError: ignoring a mistake would show the wrong time.
 * @param dayEnd a day stands for its end
 */
export function timeIn(
  query: URLSearchParams,
  field: string,
  clock: Clock,
  dayEnd: 'day end' | null = null,
): Timestamp | undefined {
  const text = query.get(field)?.trim() ?? '';
  if (text === '') return undefined;
  const moment = parseMoment(text, clock.now(), dayEnd !== null);
  if (moment !== undefined) return timestampOf(moment);
  throw new UsageError(`"${text}" is not a time`, { advice: `Write ${momentForms}.` });
}

export function page(title: string, body: Html, more: { status?: number; refresh?: number } = {}): Reply {
  return { kind: 'page', title, body, ...more };
}

/** Calls `read` each second and yields what has changed. When `read` returns null, yields `{ done: true }` and ends. */
export async function* everySecond(signal: AbortSignal, read: () => Promise<object | null>): AsyncGenerator {
  let last = '';
  while (!signal.aborted) {
    const event = (await read()) ?? { done: true };
    const text = JSON.stringify(event);
    if (text !== last) yield event;
    if ('done' in event && event.done === true) return;
    last = text;
    await wait(secondMs, undefined, { signal }).catch(() => {});
  }
}

export function redirect(to: string): Reply {
  return { kind: 'redirect', to };
}

/** Returns the signed-in person. Only for routes that need one. */
export function callerOf({ caller }: Pick<Visit, 'caller'>): Caller {
  if (caller === null) throw new Error('the route is for people who are signed in');
  return caller;
}

/** Returns the person who acts on a page, for the record. */
export function actorOf(visit: Pick<Visit, 'caller'>, { actor }: ConsolePorts): Actor {
  return { ...actor, account: callerOf(visit).account.name };
}
