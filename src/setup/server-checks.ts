/** Checks of the server: reachable, this API, accepts the key, a clock that agrees, and what its lists can do. */
import { bodyOf, UnreadableResponse } from '../api/body.ts';
import { type HttpResponse, openHttp } from '../api/http.ts';
import { whenOf } from '../api/headers.ts';
import type { Client } from '../api/operations.ts';
import {
  isPageFailure,
  KeyRefused,
  NotTheApi,
  refusalOf,
  RefusedInput,
  type RequestName,
  Unreachable,
  adviceFor,
} from '../api/errors.ts';
import { dateRange, type ListOptions } from '../api/lists.ts';
import { type Network, TransportError } from '../api/transport.ts';
import { openApi } from '../api/open.ts';
import { silentLog } from '../model/log.ts';
import type { Settings } from '../settings/settings.ts';
import { capabilityWords, sizeWords, type CapabilityStatus, describeProfile } from '../mirror/open-status.ts';
import { measureProfile } from '../mirror/measure.ts';
import { type Check, type Finding, failed, ok, skipped, warn } from './check.ts';
import type { Releases } from '../model/releases.ts';
import { eraEnd, eraStart } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import { operationOf } from '../model/operations.ts';
import { type ResourceName, resourceNames, resourceOf } from '../model/resources.ts';
import type { Secret } from '../model/secret.ts';
import { clockDifference, systemClock, timestampOf } from '../model/time.ts';
import { version } from '../model/program.ts';

/** Enough for any user with all related records. */
const maxBodyBytes = 4 * 1024 * 1024;

/** Which server to try, and how to reach it. Without a key, only the connection can be checked. */
interface ServerToTry {
  readonly settings: Settings;
  readonly baseUrl: string;
  readonly key: Secret | undefined;
  readonly network: Network;
  readonly signal: AbortSignal;
}

/** What the server and its lists can do. */
export interface ServerFindings {
  readonly findings: readonly Finding[];
  /** Whether more can be read with this key. */
  readonly usable: boolean;
  /** What the lists can do, whether on record or measured now. */
  readonly capabilities: Readonly<Partial<Record<ResourceName, CapabilityStatus>>>;
}

/** Requests the user that owns the key, once. Throws only if the signal is aborted. */
async function checkServer(server: ServerToTry): Promise<Omit<ServerFindings, 'capabilities'>> {
  const { baseUrl, key, network, settings, signal } = server;
  const http = openHttp({
    baseUrl,
    key: key?.reveal() ?? 'none',
    userAgent: `admin-mirror/${version()}`,
    timeoutMs: settings.api.timeoutMs,
    network,
    maxBodyBytes,
    connections: 1,
  });
  const { method, path } = operationOf('users.auth');
  const name: RequestName = { request: `${method} ${http.address}${path}`, redact: http.redact };
  try {
    return judgeServer(await http.send({ method, path }, signal), server, name);
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof TransportError)) throw error;
    const unreachable = new Unreachable(`${http.address} cannot be reached: ${error.message}`, {
      advice: adviceFor(error),
      cause: error,
    });
    return { findings: [failed('server', unreachable), skipped('key on the server', 'not requested')], usable: false };
  } finally {
    await http.close();
  }
}

function judgeServer(
  response: HttpResponse,
  server: ServerToTry,
  name: RequestName,
): Omit<ServerFindings, 'capabilities'> {
  const reached = ok('server', `${server.baseUrl} responds in ${Math.round(response.milliseconds)} ms`);
  const key = checkResponse(response, server, name);
  // If the key was not accepted, the clock may be that of something in front of the server.
  const about = key.state === 'fail' ? [] : checkClock(response);
  const isServerFault = key.exitCode === 4;
  const first = isServerFault ? [{ ...key, name: 'server' }, skipped(key.name, 'not requested')] : [reached, key];
  return { findings: [...first, ...about], usable: server.key !== undefined && key.state !== 'fail' };
}

function checkResponse(response: HttpResponse, server: ServerToTry, name: RequestName): Finding {
  const check = 'key on the server';
  const { status } = response;
  if (server.key === undefined && (status === 401 || status === 403)) return skipped(check, 'there is no key to try');
  // The key may be allowed to list, but not to see its own user.
  if (status === 403) return warn(check, refusalOf(response, name).message, 'Lists are tried anyway.');
  if (status < 200 || status >= 300) return failed(check, refusalOf(response, name));
  try {
    return ok(check, `accepted${ownerOf(bodyOf(response))}`);
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    const advice = 'Check the base address: the server that has /api/v1, without /api/v1.';
    return failed(check, new NotTheApi(`${name.request}: ${error.message}`, { advice }));
  }
}

/** Names the owner of the key. The shape of the response is not documented: a user, or one inside `data` or `user`. */
function ownerOf(body: unknown): string {
  if (typeof body !== 'object' || body === null) return '';
  const inner = 'data' in body ? body.data : 'user' in body ? body.user : body;
  if (typeof inner !== 'object' || inner === null || !('username' in inner)) return '';
  return `; it belongs to ${String(inner.username)}`;
}

function checkClock(response: HttpResponse): Finding[] {
  const theirs = whenOf(response).serverTime;
  if (theirs === undefined) return [ok('clock', 'the server sends no time')];
  const difference = clockDifference(theirs - systemClock.now());
  if (difference === null) return [ok('clock', 'the two clocks agree')];
  const words = `the server's clock is ${difference} this machine's`;
  return [warn('clock', words, "Check which of the two is wrong. Sync uses the server's clock.")];
}

interface ListsToCheck {
  readonly client: Client;
  readonly pageSize: number;
  /** Returns what is on record about the list; null to measure it. */
  readonly stored: (resource: ResourceName) => CapabilityStatus | null;
  readonly signal: AbortSignal;
}

export const serverCheck: Check = {
  name: 'server',
  run: async ({ server }) => (await server()).findings,
};

/** Returns undefined if reading fails: another check reports what is wrong with the key or the certificates. */
export function orNone<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Checks that the server responds, accepts the key and returns its lists. @param stored what is on record; omit it to measure */
export async function tryServer(
  server: ServerToTry,
  releases: Releases,
  stored: ListsToCheck['stored'] = () => null,
): Promise<ServerFindings> {
  const { settings, baseUrl, key, signal } = server;
  const tried = await checkServer(server);
  if (!tried.usable || key === undefined) return { ...tried, capabilities: {} };
  const there = { ...settings, api: { ...settings.api, baseUrl, key, keyFile: undefined } };
  const client = openApi({ settings: there, log: silentLog, clock: systemClock }, releases);
  const lists = await checkLists({ client, pageSize: settings.api.pageSize, stored, signal });
  return { ...tried, ...lists, findings: [...tried.findings, ...lists.findings] };
}

/** Checks every list. It is a warning if the key may not see a list, and a failure if it may see none. */
async function checkLists(lists: ListsToCheck): Promise<Omit<ServerFindings, 'usable'>> {
  const checks: Finding[] = [];
  const refusals: Finding[] = [];
  const capabilities: Partial<Record<ResourceName, CapabilityStatus>> = {};
  for (const resource of resourceNames) {
    try {
      const status = (await storedOne(lists, resource)) ?? (await measureOne(lists, resource));
      capabilities[resource] = status;
      checks.push(judgeList(resource, status, lists.pageSize));
    } catch (error) {
      lists.signal.throwIfAborted();
      if (!(error instanceof OperatorError)) throw error;
      if (error instanceof KeyRefused) refusals.push(failed(`${resource} list`, error));
      else checks.push(failed(`${resource} list`, error));
    }
  }
  const all = refusals.length === resourceNames.length;
  const reported = all ? refusals : refusals.map(({ name, finding, advice }) => warn(name, finding, advice));
  return { findings: [...reported, ...checks], capabilities };
}

/** Returns what is on record, after requesting a page as a sync does. If only that request fails, adds a note. */
async function storedOne(
  { client, stored, signal }: ListsToCheck,
  resource: ResourceName,
): Promise<CapabilityStatus | null> {
  const status = stored(resource);
  if (status === null) return null;
  const { page_size: paginate, ranges, notes } = status;
  const sorts = resourceOf(resource).walkOrder.map((key) => ({ key, direction: 'asc' as const }));
  const date = ranges === null ? {} : { date: dateRange(eraStart, eraEnd, ranges === 'YYYY-MM-DD' ? 'iso' : 'dmy') };
  try {
    // The sort keys come from the descriptor of the same resource.
    await client.list(resource, { paginate, sorts, ...date } as ListOptions, signal, { attempts: 2 });
    return status;
  } catch (error) {
    if (!isPageFailure(error) && !(error instanceof RefusedInput)) throw error;
    await client.list(resource, { paginate: 1 }, signal, { attempts: 2 });
    return { ...status, notes: [...notes, `${failsNow}: ${error.message}`] };
  }
}

const failsNow = 'a page like the one measured fails now';

async function measureOne(
  { client, pageSize, signal }: ListsToCheck,
  resource: ResourceName,
): Promise<CapabilityStatus> {
  const profile = await measureProfile({ client, resource, signal, pageSize, clock: systemClock });
  return describeProfile(profile, timestampOf(systemClock.now()));
}

function judgeList(resource: ResourceName, status: CapabilityStatus, requested: number): Finding {
  const name = `${resource} list`;
  const why = status.notes.map((note) => note.replace(`${resource}: `, '')).join('; ');
  const remarks = `(${[why, `measured ${status.measured_at}`].filter((each) => each !== '').join('; ')})`;
  const found = `${capabilityWords(status, requested)} ${remarks}`;
  if (why.includes(failsNow)) return warn(name, found, 'Run `sync`: it measures the list again.');
  if (status.ordered && status.ranges !== null) return ok(name, found);
  // An empty list is fine.
  if (why.includes('no record')) return ok(name, `${sizeWords(status, requested)} ${remarks}`);
  return warn(name, found, 'The mirror stays right, but `sync` needs more requests.');
}
