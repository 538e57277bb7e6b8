/** The server's lists as the engine reads them. Every request of the engine goes through here, and is counted. */
import type { Client } from '../api/operations.ts';
import type { Patience } from '../api/retry.ts';
import type { ListPage } from '../api/body.ts';
import type { HttpResponse } from '../api/http.ts';
import { dateRange, type ListOptions } from '../api/lists.ts';
import { serverAheadOf } from '../api/headers.ts';
import { isPageFailure, KeyRefused, RefusedInput } from '../api/errors.ts';
import { type PageReading, Reach, readPage } from '../api/narrow.ts';
import type { DayRange } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import { recordKey, type RecordKey } from '../model/records.ts';
import { type ResourceName, resourceOf, type SortDirection } from '../model/resources.ts';
import { type Clock, type Day, dayOf, parseWritten } from '../model/time.ts';
import { ContradictionError } from './failures.ts';
import { joinPages, type MirrorPage, type PageTask, type PageWanted, type ReadPage, readPageOf } from './page.ts';
import { measureProfile } from './measure.ts';
import type { Profile } from './profile.ts';
import type { RequestGate } from './run-bounds.ts';
import { type Look, lookAtRecord } from './look.ts';
import { type Extent, requestedRange, strayIn } from './windows.ts';

interface PageRequest {
  readonly page: number;
  readonly paginate: number;
  /** The days as the server reads them; null for records of all times. */
  readonly range: DayRange | null;
  readonly include?: readonly string[];
}

/** One server. All functions throw what the client throws. */
export interface Source {
  /** The base address, without the key or any other credential. */
  readonly address: string;
  /** Returns the same source with a gate that each request must pass. */
  within(gate: RequestGate): Source;
  /** By how much the server's clock was ahead of this machine's at the last page, negative if behind; 0 if it sends no time. */
  serverAheadMs(): number;
  /** How many requests were sent for the resource. Retries do not count. */
  requests(resource: ResourceName): number;
  measure(resource: ResourceName, signal: AbortSignal): Promise<Profile>;
  /**
   * Reads a page, in parts if the server cannot make it whole. Throws a ContradictionError if records lie outside of the range.
   * @param wanted what to take from the page besides the ids of its records
   */
  page(
    resource: ResourceName,
    request: PageRequest,
    profile: Profile,
    signal: AbortSignal,
    wanted?: PageWanted,
  ): Promise<MirrorPage>;
  /** Whether the host makes a page of the newest records of this size. */
  makesPage(resource: ResourceName, size: number, profile: Profile, signal: AbortSignal): Promise<boolean>;
  /** Pages of the resource with more records than this were seen to fail; Infinity if none did. */
  readablePage(resource: ResourceName): number;
  /** What the list has shown in this run: whether it ever counted a record, and which records it showed while it was measured. */
  met(resource: ResourceName): { readonly some: boolean; readonly ids: ReadonlySet<RecordKey> };
  /** Returns why the server does not send these related records; undefined if it does. */
  includeProblem(resource: ResourceName, include: readonly string[], signal: AbortSignal): Promise<string | undefined>;
  /** Returns how many records the server counts on these days, or in all. Throws a ContradictionError like `page`. */
  total(resource: ResourceName, days: DayRange | null, profile: Profile, signal: AbortSignal): Promise<number>;
  /** Returns the days of the oldest and the newest record, if lists are ordered. */
  extent(resource: ResourceName, profile: Profile, signal: AbortSignal): Promise<Extent>;
  /** Returns the ids of some of the newest records of these days; null if lists are not ordered. */
  newest(
    resource: ResourceName,
    days: DayRange,
    profile: Profile,
    signal: AbortSignal,
  ): Promise<readonly RecordKey[] | null>;
  /** Requests one record by itself. One that the server fails on is neither there nor absent. */
  look(resource: ResourceName, id: RecordKey, signal: AbortSignal): Promise<Look>;
}

/** @param pageSize the most records to request per page; the server may give fewer */
export function apiSource(client: Client, pageSize: number, clock: Clock): Source {
  return sourceOver({ client, pageSize, clock, shared: { requested: new Map(), aheadMs: 0 } });
}

type RequestedClient = Pick<Client, 'list' | 'listAs' | 'getUser' | 'address' | 'maxBodyBytes'>;

interface SourceParts {
  readonly client: RequestedClient;
  readonly pageSize: number;
  readonly clock: Clock;
  /** What a source shares with those made from it by `within`. */
  readonly shared: { readonly requested: Map<ResourceName, number>; aheadMs: number };
}

/** Returns the client with a gate that each request must pass. */
function gated(client: RequestedClient, gate: RequestGate | undefined): RequestedClient {
  if (gate === undefined) return client;
  const pass = (resource: ResourceName): Patience => {
    gate.take(resource);
    return { mayRetry: () => gate.mayRetry(resource) };
  };
  return {
    ...client,
    list: async (resource, options, signal, patience) =>
      client.list(resource, options, signal, { ...patience, ...pass(resource) }),
    listAs: async (resource, options, parse, signal, patience) =>
      client.listAs(resource, options, parse, signal, { ...patience, ...pass(resource) }),
    getUser: async (user, relations, signal) => client.getUser(user, relations, signal, pass('users')),
  };
}

/** The requests of one source: each is counted, and shows the server's time and whether the list has records. */
function requestsOf({ client, clock, shared }: SourceParts, gate: RequestGate | undefined) {
  const resources = gated(client, gate);
  /** Resources whose list has counted some record. */
  const counted = new Set<ResourceName>();
  const count = (resource: ResourceName): void => {
    shared.requested.set(resource, (shared.requested.get(resource) ?? 0) + 1);
  };
  const noted = <P extends ListPage>(resource: ResourceName, page: P): P => {
    shared.aheadMs = serverAheadOf(page, clock.now()) ?? shared.aheadMs;
    if (page.total > 0) counted.add(resource);
    return page;
  };
  const list: Client['list'] = async (resource, ...request) => {
    count(resource);
    return noted(resource, await resources.list(resource, ...request));
  };
  const pageAs = async (
    options: ListOptions,
    task: PageTask,
    signal: AbortSignal,
    patience?: Patience,
  ): Promise<ReadPage> => {
    count(task.resource);
    const parse = (response: HttpResponse) => readPageOf(response, task);
    return noted(task.resource, await resources.listAs(task.resource, options, parse, signal, patience));
  };
  const getUser: Client['getUser'] = (...user) => {
    count('users');
    return resources.getUser(...user);
  };
  /** Returns the day of the first record in that direction; null if the server fails on it: then nothing is known of it. */
  const edgeDay = async (
    resource: ResourceName,
    profile: Profile,
    direction: SortDirection,
    signal: AbortSignal,
  ): Promise<Day | null> => {
    try {
      const { records } = await list(resource, { ...queryOf(resource, profile, null, direction), paginate: 1 }, signal);
      const created = parseWritten(records[0]?.['created_at']);
      return created === undefined ? null : dayOf(created);
    } catch (error) {
      if (isPageFailure(error)) return null;
      throw error;
    }
  };
  return { list, pageAs, getUser, edgeDay, counted };
}

function sourceOver(parts: SourceParts, gate?: RequestGate): Source {
  const { client, pageSize, clock, shared } = parts;
  const { list, pageAs, getUser, edgeDay, counted } = requestsOf(parts, gate);
  /** Records that lists showed while they were measured. */
  const measuredIds = new Map<ResourceName, Set<RecordKey>>();
  const reaches = new Map<ResourceName, Reach>();
  const reachOf = (resource: ResourceName): Reach => {
    const reach = reaches.get(resource) ?? new Reach();
    reaches.set(resource, reach);
    return reach;
  };

  return {
    address: client.address,
    within: (given) => sourceOver(parts, given),
    serverAheadMs: () => shared.aheadMs,
    requests: (resource) => shared.requested.get(resource) ?? 0,
    measure: (resource, signal) => {
      const ids = new Set<RecordKey>();
      measuredIds.set(resource, ids);
      const listNoted: Client['list'] = async (...request) => {
        const page = await list(...request);
        for (const id of page.records.map(recordKey)) if (id !== undefined) ids.add(id);
        return page;
      };
      const measured = { list: listNoted, maxBodyBytes: client.maxBodyBytes };
      return measureProfile({ client: measured, resource, signal, pageSize, clock });
    },
    page: async (resource, request, profile, signal, wanted = {}) => {
      const { page, paginate, range, include = [] } = request;
      const query = { ...queryOf(resource, profile, range), ...including(include) };
      const reading: PageReading<ReadPage> = {
        requestOne: (number, size, patience) => {
          const { known, ...others } = wanted;
          // The known page is the one that was requested, not a part of it.
          const isWhole = number === page && size === paginate;
          const task = { ...others, known: isWhole ? known : null, resource, page: number, relations: include };
          return pageAs({ ...query, page: number, paginate: size } as ListOptions, task, signal, patience);
        },
        count: ({ ids }) => ids.length,
        join: joinPages,
      };
      const read = wanted.isBehind
        ? await reading.requestOne(page, paginate, { pageAttempts: 2 })
        : await readPage(reading, page, paginate, reachOf(resource));
      checkRange(range, read.createdAt, profile);
      return read;
    },
    makesPage: async (resource, size, profile, signal) => {
      const query = { ...queryOf(resource, profile, null, 'desc'), paginate: size };
      try {
        const { perPage, records } = await list(resource, query, signal, { pageAttempts: 1 });
        return perPage === size && records.length > profile.pageSize;
      } catch (error) {
        if (isPageFailure(error) || isRefusal(error)) return false;
        throw error;
      }
    },
    readablePage: (resource) => reachOf(resource).size,
    met: (resource) => ({ some: counted.has(resource), ids: measuredIds.get(resource) ?? new Set() }),
    includeProblem: async (resource, include, signal) => {
      try {
        await list(resource, { paginate: 1, ...including(include) } as ListOptions, signal);
        return undefined;
      } catch (error) {
        if (isRefusal(error)) return error.message;
        // Reading the pages will report what else is wrong with the server.
        if (error instanceof OperatorError && !signal.aborted) return undefined;
        throw error;
      }
    },
    total: async (resource, days, profile, signal) => {
      const range = days === null ? null : requestedRange(days, profile);
      const query = { ...queryOf(resource, profile, range), paginate: 1 };
      const read = (page: number, patience: Patience) => list(resource, { ...query, page }, signal, patience);
      const first = await read(1, reachOf(resource).lasting ? { pageAttempts: 2 } : {}).catch((error: unknown) => {
        // The server may fail on the first record. The place behind a page shows the same total.
        if (isPageFailure(error)) return read(profile.pageSize + 1, { pageAttempts: 2 });
        throw error;
      });
      checkRange(
        range,
        first.records.map((record) => record['created_at']),
        profile,
      );
      return first.total;
    },
    extent: async (resource, profile, signal) => {
      if (!profile.ordered) return { oldest: null, newest: null };
      const days = (['asc', 'desc'] as const).map((direction) => edgeDay(resource, profile, direction, signal));
      const [oldest = null, newest = null] = await Promise.all(days);
      return { oldest, newest };
    },
    newest: async (resource, days, profile, signal) => {
      if (!profile.ordered) return null;
      const query = queryOf(resource, profile, requestedRange(days, profile), 'desc');
      const { records } = await list(resource, { ...query, paginate: Math.min(profile.pageSize, 10) }, signal);
      return records.map(recordKey).filter((id) => id !== undefined);
    },
    look: (resource, id, signal) => lookAtRecord({ list, getUser }, resource, id, signal),
  };
}

function queryOf(
  resource: ResourceName,
  { dates }: Profile,
  range: DayRange | null,
  direction: SortDirection = 'asc',
): ListOptions {
  const sorts = resourceOf(resource).walkOrder.map((key) => ({ key, direction }));
  const date = range === null || dates === 'none' ? {} : { date: dateRange(range.from, range.to, dates) };
  // The keys come from the description of this very resource.
  return { sorts, ...date } as ListOptions;
}

/** Throws if a record lies where the range can show none: otherwise a window would count it as read, or be cut without end. */
function checkRange(range: DayRange | null, createdAt: readonly unknown[], profile: Profile): void {
  if (range === null) return;
  const stray = strayIn(range, profile);
  for (const each of createdAt) {
    const kind = stray(each);
    if (kind === undefined) continue;
    throw new ContradictionError(`the server sent records created outside of ${range.from}..${range.to}`, {
      what: kind === 'beside' ? 'beside' : 'other',
      advice: 'Run `admin-mirror sync` again: it measures the list anew.',
    });
  }
}

function including(include: readonly string[]): { include?: readonly string[] } {
  return include.length === 0 ? {} : { include };
}

/** Whether the server understood the request and refused it. A 403 may be for the related records alone. */
function isRefusal(error: unknown): error is RefusedInput | KeyRefused {
  return error instanceof RefusedInput || (error instanceof KeyRefused && error.status === 403);
}

/** Returns a function that reads the first page of the records created on some days, requested as in a walk. */
export function dayReader(
  source: Pick<Source, 'page'>,
  resource: ResourceName,
  profile: Profile,
  signal: AbortSignal,
): (days: DayRange) => Promise<MirrorPage> {
  const paginate = profile.pageSize;
  return (days) => source.page(resource, { page: 1, paginate, range: requestedRange(days, profile) }, profile, signal);
}
