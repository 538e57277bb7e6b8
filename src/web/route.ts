/** What a route of the console is: its path, who may use it, and what it gives. The table of all of them is routes.ts. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Readers } from '../data/reading-process.ts';
import type { Journal } from '../journal/port.ts';
import type { Account, Role, Actor } from '../model/actor.ts';
import { type OperatorError, UsageError } from '../model/errors.ts';
import { type Day, parseDay, secondMs } from '../model/time.ts';
import type { People } from '../people/people.ts';
import type { Session, Sessions } from '../people/sessions.ts';
import type { Surroundings } from '../settings/settings.ts';
import type { ConsoleRuns } from '../worker/console-runs.ts';
import type { ServerState, WholeStatus } from '../worker/open-status.ts';
import type { FirstAccount } from './open.ts';
import type { Html } from './html.ts';
import type { Oidc } from './oidc.ts';
import type { Planning, Uploads } from './planning.ts';
import type { Sendings } from './sendings.ts';

/** What the pages work with: everything is opened once, by the command `serve`. */
export interface ConsolePorts extends Surroundings {
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
  readonly consoleRuns: ConsoleRuns;
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

/** Whoever is signed in. */
export interface Caller {
  readonly account: Account;
  readonly session: Session;
}

/** One request, as the pages see it. */
export interface Visit {
  readonly path: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** The fields of a form; empty where none was sent. */
  readonly form: URLSearchParams;
  /** Null of whoever is not signed in. */
  readonly caller: Caller | null;
  /** The address of the console as the browser has it, without a path. */
  readonly origin: string;
  /** What the browser kept on its way to a provider of sign-ins; null where there is none. */
  readonly ticket: string | null;
  /** Where the request came from, for the record. */
  readonly address: string;
  /** Why a form was refused, where its page is shown again; the reason stands on top of it. */
  readonly refusal: OperatorError | null;
  /** Whether the caller has the role. */
  readonly may: (role: Role) => boolean;
  /** Whether the caller may use the route with this method and path of the table; it may be left out as it changes something. */
  readonly offers: (method: Route['method'], path: string) => boolean;
  /** The path as a browser asks for it: behind a proxy there may be a folder before it. */
  readonly link: (path: string, query?: Readonly<Record<string, string | number | null | undefined>>) => string;
  /** Aborted when the browser has gone, or the console stops. */
  readonly signal: AbortSignal;
  /** The files of a form, one after the other; the next is read when the one before was taken. */
  readonly uploads: () => AsyncIterable<Upload>;
}

export interface Upload {
  readonly field: string;
  readonly name: string;
  readonly bytes: AsyncIterable<Uint8Array>;
  /** The fields that stood before the file in the form. */
  readonly fields: Readonly<Record<string, string>>;
}

export type Reply =
  | {
      readonly kind: 'page';
      readonly title: string;
      readonly body: Html;
      readonly status?: number;
      /** Without scripts, the page is requested again after so many seconds. */
      readonly refresh?: number;
    }
  | { readonly kind: 'redirect'; readonly to: string; readonly cookie?: SessionCookie; readonly ticket?: string }
  /** A page that leads on by itself: after a redirect from a provider, the browser would send no session. */
  | { readonly kind: 'onward'; readonly to: string; readonly cookie?: SessionCookie }
  | { readonly kind: 'file'; readonly name: string; readonly type: string; readonly chunks: AsyncIterable<Uint8Array> }
  /** A picture: shown in the page rather than kept. */
  | { readonly kind: 'picture'; readonly svg: string }
  /** One line of JSON after the other, each as an event of the stream. */
  | { readonly kind: 'events'; readonly events: AsyncIterable<unknown> };

/** The token that is to be kept by the browser; null ends it. */
interface SessionCookie {
  readonly token: string | null;
}

/** `anybody`: also who is not signed in; `signed-in`: whatever the roles; else whoever has one of these. */
export type Access = 'anybody' | 'signed-in' | readonly Role[];

export type Handle = (visit: Visit, ports: ConsolePorts) => Reply | Promise<Reply>;

export interface Route {
  readonly method: 'GET' | 'POST';
  /** Parts that begin with a colon are parameters. */
  readonly path: string;
  readonly access: Access;
  readonly handle: Handle;
  /** The page that is shown again, with the reason, where an OperatorError refuses the request. */
  readonly refused?: Handle;
  /** Takes files; their bytes are read as they come. */
  readonly takesFiles?: true;
  /** Left out where the console is read-only; every POST but signing in and out. */
  readonly changes?: true;
}

/** Whether somebody with these roles, or nobody, may use the route. */
export function isAllowed(access: Access, roles: readonly Role[] | null): boolean {
  if (access === 'anybody') return true;
  if (roles === null) return false;
  return access === 'signed-in' || access.some((role) => roles.includes(role));
}

/** There is nothing at that address. */
export class NotFoundError extends UsageError {}

export function notFound(what = 'there is no such page'): NotFoundError {
  return new NotFoundError(what, { advice: 'It may have been removed, or the address has a mistake.' });
}

/** The day in the field; undefined where it is empty. Throws a UsageError: what is not of the day asked for looks as if it were. */
export function dayIn(query: URLSearchParams, field: string): Day | undefined {
  const text = query.get(field)?.trim() ?? '';
  const day = parseDay(text);
  if (day !== undefined || text === '') return day;
  throw new UsageError(`"${text}" is not a day`, { advice: 'Write it as 2026-03-11.' });
}

/** A page. */
export function page(title: string, body: Html, more: { status?: number; refresh?: number } = {}): Reply {
  return { kind: 'page', title, body, ...more };
}

/** What is news each second, for a page that follows something; null where that is over. */
export async function* everySecond(signal: AbortSignal, news: () => Promise<object | null>): AsyncGenerator {
  let shown = '';
  while (!signal.aborted) {
    const event = (await news()) ?? { done: true };
    if (JSON.stringify(event) !== shown) yield event;
    if ('done' in event && event.done === true) return;
    shown = JSON.stringify(event);
    await wait(secondMs, undefined, { signal }).catch(() => {});
  }
}

export function redirect(to: string): Reply {
  return { kind: 'redirect', to };
}

/** Whoever is signed in, where the table of routes lets nobody else pass. */
export function callerOf({ caller }: Pick<Visit, 'caller'>): Caller {
  if (caller === null) throw new Error('the route is for people who are signed in');
  return caller;
}

/** Who acts where somebody does something on a page. */
export function actorOf(visit: Pick<Visit, 'caller'>, { actor }: ConsolePorts): Actor {
  return { ...actor, account: callerOf(visit).account.name };
}
