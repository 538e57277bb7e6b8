/** What the sync engine reads of the server, over the client; every request of the engine goes through here. */
import type { RecordKey } from '../model/records.ts';
import { type Capabilities, measureCapabilities } from '../api/capabilities.ts';
import { coverageOf, type DayRange, eraEnd, eraStart, startsWithDay } from '../model/era.ts';
import { type ResourceName, resourceOf, type SortDirection } from '../model/resources.ts';
import type { RequestGate } from './allowance.ts';
import { joinPages, type MirrorPage, type PageTask, type PageWanted, type ReadPage, readPageOf } from './page.ts';
import { apiContact, type Look, lookAtRecord, type RequestedClient, type ServerContact } from './server-contact.ts';
import type { Extent } from './windows.ts';
import type { Client, Patience } from '../api/client.ts';
import { type ListPage, type Page, serverAheadOf } from '../api/envelope.ts';
import { isPageFailure, KeyRefused, RefusedInput } from '../api/errors.ts';
import { dateRange, type ListOptions } from '../api/list-query.ts';
import { type PageReading, Reach, readPage } from '../api/narrow.ts';
import { addDays, type Clock, type Day, dayOf, parseWritten } from '../model/time.ts';
import { BesideRangeError, ContradictionError } from './failures.ts';

export interface PageRequest {
  readonly page: number;
  readonly paginate: number;
  /** Days as the server reads them; null for records of all times. */
  readonly range: DayRange | null;
  /** Only emails that wait to be sent. */
  readonly unsent?: boolean;
  readonly include?: readonly string[];
}

export interface Source {
  /** The server itself rather than its lists; requests there count for no resource. */
  readonly contact: ServerContact;
  /** Requests for the resource so far; one that took several tries counts once. */
  requests(resource: ResourceName): number;
  /** Finds out how the server reads what the reference leaves open. @param before what was found out before, for an empty list */
  measure(resource: ResourceName, signal: AbortSignal, before?: Capabilities): Promise<Capabilities>;
  /** By how much the server's clock was ahead of this machine's at the last page; below 0 behind, 0 where it sends no time. */
  serverAheadMs(): number;
  /** Records beyond which pages of the resource were seen to fail; Infinity where none did. */
  readablePage(resource: ResourceName): number;
  /**
   * The page, in parts where the server cannot make it whole. Throws ContradictionError where records lie outside of the range.
   * @param wanted what of it is wanted beside the ids of its records
   */
  page(
    resource: ResourceName,
    request: PageRequest,
    capabilities: Capabilities,
    signal: AbortSignal,
    wanted?: PageWanted,
  ): Promise<MirrorPage>;
  /** What the server says against sending these related records with each record; undefined where it sends them. */
  includeProblem(resource: ResourceName, include: readonly string[], signal: AbortSignal): Promise<string | undefined>;
  /** Records that the server counts in the range. Throws ContradictionError as `page` does. */
  total(
    resource: ResourceName,
    range: DayRange | null,
    capabilities: Capabilities,
    signal: AbortSignal,
  ): Promise<number>;
  /** The days of the oldest and the newest record, as far as the server's order can be relied on. */
  extent(resource: ResourceName, capabilities: Capabilities, signal: AbortSignal): Promise<Extent>;
  /** The newest records of the range, some of them; undefined where they cannot be read. */
  newest(
    resource: ResourceName,
    range: DayRange | null,
    capabilities: Capabilities,
    signal: AbortSignal,
  ): Promise<Page | undefined>;
  /** Requests one record by itself. Throws where the response fails. */
  look(resource: ResourceName, id: RecordKey, signal: AbortSignal): Promise<Look>;
  /** The same source, which passes the gate with each request that it sends. */
  within(gate: RequestGate): Source;
}

/** @param pageSize records requested on a page at the most; the server may give fewer */
export function apiSource(client: Client, pageSize: number, clock: Clock): Source {
  return sourceOver({ client, pageSize, clock, requested: new Map(), ahead: { ms: 0 } });
}

interface SourceParts {
  readonly client: RequestedClient;
  readonly pageSize: number;
  readonly clock: Clock;
  readonly requested: Map<ResourceName, number>;
  readonly ahead: { ms: number };
}

/** The client, passing the gate with each request, for the resource or for none. */
function gated(
  client: RequestedClient,
  gate: RequestGate | undefined,
  whose: (resource: ResourceName) => ResourceName | null,
) {
  if (gate === undefined) return client;
  const leave = (resource: ResourceName | null) => {
    gate.take(resource);
    return { mayRetry: () => gate.mayRetry(resource) };
  };
  return {
    ...client,
    list: async (resource, options, signal, patience) =>
      client.list(resource, options, signal, { ...patience, ...leave(whose(resource)) }),
    listAs: async (resource, options, parse, signal, patience) =>
      client.listAs(resource, options, parse, signal, { ...patience, ...leave(whose(resource)) }),
    getUser: async (user, relations, signal) => client.getUser(user, relations, signal, leave(whose('users'))),
    auth: async (signal, patience) => client.auth(signal, { ...patience, ...leave(null) }),
  } satisfies RequestedClient;
}

function sourceOver(parts: SourceParts, gate?: RequestGate): Source {
  const { client, pageSize, clock, requested, ahead } = parts;
  const resources = gated(client, gate, (resource) => resource);
  const count = (resource: ResourceName): void => void requested.set(resource, (requested.get(resource) ?? 0) + 1);
  const noteTime = (page: ListPage): void => {
    ahead.ms = serverAheadOf(page, clock.now()) ?? ahead.ms;
  };
  // Every request of the engine for a resource goes through these, so that it is counted.
  const list: Client['list'] = async (resource, options, signal, patience) => {
    count(resource);
    const page = await resources.list(resource, options, signal, patience);
    noteTime(page);
    return page;
  };
  const pageAs = async (
    options: ListOptions,
    task: PageTask,
    signal: AbortSignal,
    patience?: Patience,
  ): Promise<ReadPage> => {
    count(task.resource);
    const page = await resources.listAs(task.resource, options, (each) => readPageOf(each, task), signal, patience);
    noteTime(page);
    return page;
  };
  const getUser: Client['getUser'] = (...user) => {
    count('users');
    return resources.getUser(...user);
  };

  /** What the first list that was measured has shown; undefined where it could not be. */
  let firstMeasured: Promise<Capabilities | undefined> | undefined;
  const reaches = new Map<ResourceName, Reach>();
  function reachOf(resource: ResourceName): Reach {
    const reach = reaches.get(resource) ?? new Reach();
    reaches.set(resource, reach);
    return reach;
  }

  function options(
    resource: ResourceName,
    capabilities: Capabilities,
    range: DayRange | null,
    direction: SortDirection = 'asc',
  ): ListOptions {
    const sorts = resourceOf(resource).walkOrder.map((key) => ({ key, direction }));
    const date =
      range === null || capabilities.ranges === 'none' ? null : dateRange(range.from, range.to, capabilities.ranges);
    // The keys come from the descriptor of this very resource.
    return { sorts, ...(date === null ? {} : { date }) } as ListOptions;
  }

  async function edge(
    resource: ResourceName,
    capabilities: Capabilities,
    direction: SortDirection,
    signal: AbortSignal,
    range: DayRange | null = null,
    paginate = 1,
  ): Promise<Page | undefined> {
    const requested = { ...options(resource, capabilities, range, direction), paginate };
    try {
      return await list(resource, requested, signal);
    } catch (error) {
      // The record that cannot be read may be this one: then nothing is known of it.
      if (isPageFailure(error)) return undefined;
      throw error;
    }
  }

  function dayOn(page: Page | undefined): Day | null {
    const created = parseWritten(page?.records[0]?.['created_at']);
    return created === undefined ? null : dayOf(created);
  }

  return {
    contact: apiContact(gated(client, gate, () => null)),
    within: (given) => sourceOver(parts, given),
    serverAheadMs: () => ahead.ms,
    requests: (resource) => requested.get(resource) ?? 0,
    measure: (resource, signal, before) => {
      reaches.delete(resource);
      const measured = { list, rateLimit: () => client.rateLimit(), maxBodyBytes: client.maxBodyBytes };
      const by = (known?: Capabilities) =>
        measureCapabilities(measured, resource, signal, { pageSize, clock, before, known });
      // One list after the first: what that has shown of the server need not be found out again, or may not show in this one.
      if (firstMeasured !== undefined) return firstMeasured.then(by);
      const found = by();
      firstMeasured = found.catch(() => undefined);
      return found;
    },
    page: async (
      resource,
      { page, paginate, range, unsent = false, include = [] },
      capabilities,
      signal,
      wanted = {},
    ) => {
      const requested = {
        ...options(resource, capabilities, range),
        ...including(include),
        ...(unsent ? unsentFilter : {}),
      };
      const reading: PageReading<ReadPage> = {
        requestOne: (number, size, patience, places) => {
          const { known, ...others } = wanted;
          // What is known is known of the page that was requested.
          const isWhole = number === page && size === paginate;
          const task = { ...others, known: isWhole ? known : null, resource, page: number, relations: include, places };
          return pageAs({ ...requested, page: number, paginate: size } as ListOptions, task, signal, patience);
        },
        count: ({ ids }) => ids.length,
        join: joinPages,
      };
      const read = wanted.isBehind
        ? await reading.requestOne(page, paginate, { pageAttempts: 2 })
        : await readPage(reading, page, paginate, reachOf(resource));
      checkRange(range, read.createdAt, capabilities);
      return read;
    },
    readablePage: (resource) => reachOf(resource).size,
    includeProblem: async (resource, include, signal) => {
      try {
        await list(resource, { paginate: 1, ...including(include) } as ListOptions, signal);
        return undefined;
      } catch (error) {
        if (isRefusal(error)) return error.message;
        throw error;
      }
    },
    total: async (resource, range, capabilities, signal) => {
      const requested = { ...options(resource, capabilities, range), paginate: 1 };
      try {
        const patience = reachOf(resource).lasting ? { pageAttempts: 2 } : {};
        return totalOn(range, await list(resource, requested, signal, patience), capabilities);
      } catch (error) {
        if (!isPageFailure(error)) throw error;
        // It may be the first record that cannot be read: one further on, or the end of the list, shows the same.
        const further = { ...requested, page: capabilities.pageSize + 1 };
        const page = await list(resource, further, signal, { pageAttempts: 2 }).catch(() => undefined);
        if (page === undefined) throw error;
        return totalOn(range, page, capabilities);
      }
    },
    extent: async (resource, capabilities, signal) => {
      if (capabilities.sorts !== 'kept') return { oldest: null, newest: null };
      const [oldest, newest] = await Promise.all([
        edge(resource, capabilities, 'asc', signal),
        edge(resource, capabilities, 'desc', signal),
      ]);
      return { oldest: dayOn(oldest), newest: dayOn(newest) };
    },
    newest: (resource, range, capabilities, signal) =>
      edge(resource, capabilities, 'desc', signal, range, Math.min(capabilities.pageSize, 100)),
    look: (resource, id, signal) => lookAtRecord({ list, getUser }, resource, id, signal),
  };
}

/** Else a total that counts everything would have a window cut without end. */
function checkRange(range: DayRange | null, createdAt: readonly unknown[], capabilities: Capabilities): void {
  if (range === null) return;
  const advice = 'Measure its rules again with `admin-mirror doctor --probe`, then sync.';
  const problem = `the server sent records created outside of ${range.from}..${range.to}`;
  if (createdAt.some(rangeBreaker(range))) throw new ContradictionError(problem, { advice });
  if (capabilities.dayShiftMinutes === 0 && createdAt.some(isBeside(range, capabilities)))
    throw new BesideRangeError(problem, { advice });
}

function totalOn(range: DayRange | null, { total, records }: Page, capabilities: Capabilities): number {
  checkRange(
    range,
    records.map((record) => record['created_at']),
    capabilities,
  );
  return total;
}

const unsentFilter = { filters: [{ key: 'is_sent', value: 0 }] } as const;

function including(include: readonly string[]): { include?: readonly string[] } {
  return include.length === 0 ? {} : { include };
}

/**
 * The two days to send for the half-open window; null where no range shows it. Where it was not measured how the server takes the
 * last day, or in which time zone, a day more is requested at either side; what lies outside is left alone.
 */
export function requestedRange(window: DayRange, capabilities: Capabilities): DayRange | null {
  if (coverageOf(window) !== 'days') return null;
  const shifted = capabilities.dayShiftMinutes !== 0;
  const from = shifted && window.from > eraStart ? addDays(window.from, -1) : window.from;
  const lastWhole = capabilities.rangeEnd === 'inclusive' ? addDays(window.to, -1) : window.to;
  const to = shifted && lastWhole < eraEnd ? addDays(lastWhole, 1) : lastWhole;
  return { from, to };
}

/** A function that reads the first page of the records that were created on some days, requested as walks do. */
export function dayReader(
  source: Pick<Source, 'page'>,
  resource: ResourceName,
  capabilities: Capabilities,
  signal: AbortSignal,
): (days: DayRange) => Promise<MirrorPage> {
  const paginate = capabilities.pageSize;
  return (days) =>
    source.page(resource, { page: 1, paginate, range: requestedRange(days, capabilities) }, capabilities, signal);
}

/** Days in which records of the range may have been created, whatever the server's rule. */
export function reachOf(range: DayRange): DayRange {
  return {
    from: range.from > eraStart ? addDays(range.from, -1) : eraStart,
    to: range.to < eraEnd ? addDays(range.to, 2) : eraEnd,
  };
}

/** Whether a record was created outside the range, whatever the server's rule; as text: it runs for every record. */
export function rangeBreaker(range: DayRange): (createdAt: unknown) => boolean {
  const from = range.from > eraStart ? addDays(range.from, -1) : '';
  // The day after the last possible one is no longer four digits of a year.
  const to = range.to < eraEnd ? addDays(range.to, 2) : null;
  return (createdAt) =>
    typeof createdAt === 'string' && startsWithDay(createdAt) && (createdAt < from || (to !== null && createdAt >= to));
}

/** Whether a record was created beside a range that shows exactly its days: then no window that owns it shows it. */
export function isBeside(
  { from, to }: DayRange,
  { rangeEnd }: Pick<Capabilities, 'rangeEnd'>,
): (createdAt: unknown) => boolean {
  // Whether midnight itself still belongs to a range that ends with it is another rule of each server's.
  const until = rangeEnd === 'exclusive' ? to : addDays(to, 1);
  return (createdAt) =>
    typeof createdAt === 'string' &&
    startsWithDay(createdAt) &&
    ((createdAt < from && from > eraStart) ||
      (createdAt >= until && to < eraEnd && !createdAt.startsWith('00:00:00', 'yyyy-mm-dd '.length)));
}

/** Whether the server has understood the request and does not want it; a 403 may be for the related records alone. */
export function isRefusal(error: unknown): error is RefusedInput | KeyRefused {
  return error instanceof RefusedInput || (error instanceof KeyRefused && error.status === 403);
}
