/** What the sync engine reads from the server. Every request of the engine goes through here. */
import { recordKey, type RecordKey } from '../model/records.ts';
import { type Capabilities, measureCapabilities } from '../api/capabilities.ts';
import { coverageOf, type DayRange, eraEnd, eraStart, startsWithDay } from '../model/era.ts';
import { type ResourceName, resourceOf, type SortDirection } from '../model/resources.ts';
import type { RequestGate } from './run-bounds.ts';
import { joinPages, type MirrorPage, type PageTask, type PageWanted, type ReadPage, readPageOf } from './page.ts';
import { apiContact, lookAtRecord, type RequestedClient } from './server-contact.ts';
import type { Extent } from './plan.ts';
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
  /** The days as the server reads them; null for records of all times. */
  readonly range: DayRange | null;
  /** Only emails that wait to be sent. */
  readonly unsent?: boolean;
  readonly include?: readonly string[];
}

export interface Source extends ReturnType<typeof sourceOver> {}

/** @param pageSize the most records to request per page; the server may give fewer */
export function apiSource(client: Client, pageSize: number, clock: Clock): Source {
  return sourceOver({ client, pageSize, clock, requested: new Map(), ahead: { ms: 0 } });
}

/** What a source shares with the sources made from it by `within`. */
interface SourceParts {
  readonly client: RequestedClient;
  readonly pageSize: number;
  readonly clock: Clock;
  readonly requested: Map<ResourceName, number>;
  readonly ahead: { ms: number };
}

/** Returns the client with a gate that each request must pass. @param whose the resource that a request counts for, if any */
function gated(
  client: RequestedClient,
  gate: RequestGate | undefined,
  whose: (resource: ResourceName) => ResourceName | null,
) {
  if (gate === undefined) return client;
  const pass = (resource: ResourceName | null) => {
    gate.take(resource);
    return { mayRetry: () => gate.mayRetry(resource) };
  };
  return {
    ...client,
    list: async (resource, options, signal, patience) =>
      client.list(resource, options, signal, { ...patience, ...pass(whose(resource)) }),
    listAs: async (resource, options, parse, signal, patience) =>
      client.listAs(resource, options, parse, signal, { ...patience, ...pass(whose(resource)) }),
    getUser: async (user, relations, signal) => client.getUser(user, relations, signal, pass(whose('users'))),
    auth: async (signal, patience) => client.auth(signal, { ...patience, ...pass(null) }),
  } satisfies RequestedClient;
}

function sourceOver(parts: SourceParts, gate?: RequestGate) {
  const { client, pageSize, clock, requested, ahead } = parts;
  const resources = gated(client, gate, (resource) => resource);
  const count = (resource: ResourceName): void => void requested.set(resource, (requested.get(resource) ?? 0) + 1);
  const noteTime = (page: ListPage): void => {
    ahead.ms = serverAheadOf(page, clock.now()) ?? ahead.ms;
  };
  // Every request for a resource goes through these three functions, so that it is counted.
  const list: Client['list'] = async (resource, options, signal, patience) => {
    count(resource);
    const page = await resources.list(resource, options, signal, patience);
    noteTime(page);
    if (page.total > 0) counted.add(resource);
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
    if (page.total > 0) counted.add(task.resource);
    return page;
  };
  const getUser: Client['getUser'] = (...user) => {
    count('users');
    return resources.getUser(...user);
  };

  /** Lists that have counted some record. */
  const counted = new Set<ResourceName>();
  /** Records that lists showed while they were measured. */
  const measuredIds = new Map<ResourceName, Set<RecordKey>>();
  /** The capabilities of the list that was measured first; undefined if that failed. */
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
    // The keys come from the description of this very resource.
    return { sorts, ...(date === null ? {} : { date }) } as ListOptions;
  }

  /** Reads the first records in that direction; undefined if the server fails on them. */
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
      // It may fail on this very record: then nothing is known of it.
      if (isPageFailure(error)) return undefined;
      throw error;
    }
  }

  function dayOn(page: Page | undefined): Day | null {
    const created = parseWritten(page?.records[0]?.['created_at']);
    return created === undefined ? null : dayOf(created);
  }

  return {
    /** The server itself rather than its lists. These requests count for no resource. */
    contact: apiContact(gated(client, gate, () => null)),
    /** Returns the same source with a gate that each of its requests must pass. */
    within: (given: RequestGate): Source => sourceOver(parts, given),
    /** By how much the server's clock was ahead of this machine's at the last page, negative if behind; 0 if it sends no time. */
    serverAheadMs: () => ahead.ms,
    /** How many requests were sent for the resource. Retries do not count. */
    requests: (resource: ResourceName) => requested.get(resource) ?? 0,
    /**
     * Measures how the server reads what the API's reference leaves open.
     * @param before what was measured before, for an empty list
     */
    measure: (resource: ResourceName, signal: AbortSignal, before?: Capabilities) => {
      reaches.delete(resource);
      const ids = new Set<RecordKey>();
      measuredIds.set(resource, ids);
      const listNoted: Client['list'] = async (...requested) => {
        const page = await list(...requested);
        for (const id of page.records.map(recordKey)) if (id !== undefined) ids.add(id);
        return page;
      };
      const measured = { list: listNoted, rateLimit: () => client.rateLimit(), maxBodyBytes: client.maxBodyBytes };
      const by = (known?: Capabilities) =>
        measureCapabilities(measured, resource, signal, { pageSize, clock, before, known });
      // The other lists wait for the first one: what it has shown of the server need not be measured again, and may not show in
      // them.
      if (firstMeasured !== undefined) return firstMeasured.then(by);
      const found = by();
      firstMeasured = found.catch(() => undefined);
      return found;
    },
    /**
     * Reads a page, in parts if the server cannot make it whole. Throws ContradictionError if records lie outside of the range.
     * @param wanted what to take from the page besides the ids of its records
     */
    page: async (
      resource: ResourceName,
      { page, paginate, range, unsent = false, include = [] }: PageRequest,
      capabilities: Capabilities,
      signal: AbortSignal,
      wanted: PageWanted = {},
    ): Promise<MirrorPage> => {
      const requested = {
        ...options(resource, capabilities, range),
        ...including(include),
        ...(unsent ? unsentFilter : {}),
      };
      const reading: PageReading<ReadPage> = {
        requestOne: (number, size, patience, places) => {
          const { known, ...others } = wanted;
          // The known page is the one that was requested, not a part of it.
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
    /** Pages of the resource with more records than this were seen to fail; Infinity if none did. */
    readablePage: (resource: ResourceName) => reachOf(resource).size,
    /** What the list has shown in this run: whether it ever counted a record, and which records it showed while it was measured. */
    met: (resource: ResourceName): { readonly some: boolean; readonly ids: ReadonlySet<RecordKey> } => ({
      some: counted.has(resource),
      ids: measuredIds.get(resource) ?? new Set(),
    }),
    /** Whether the host makes a page of the newest records of this size, with more than came on a page before. */
    makesPage: async (resource: ResourceName, size: number, capabilities: Capabilities, signal: AbortSignal) => {
      const requested = { ...options(resource, capabilities, null, 'desc'), paginate: size };
      try {
        const { perPage, records } = await list(resource, requested, signal, { pageAttempts: 1 });
        return perPage === size && records.length > capabilities.pageSize;
      } catch (error) {
        if (isPageFailure(error) || isRefusal(error)) return false;
        throw error;
      }
    },
    /** Returns why the server does not send these related records; undefined if it does. */
    includeProblem: async (resource: ResourceName, include: readonly string[], signal: AbortSignal) => {
      try {
        await list(resource, { paginate: 1, ...including(include) } as ListOptions, signal);
        return undefined;
      } catch (error) {
        if (isRefusal(error)) return error.message;
        throw error;
      }
    },
    /** Returns how many records the server counts in the range. Throws ContradictionError like `page`. */
    total: async (resource: ResourceName, range: DayRange | null, capabilities: Capabilities, signal: AbortSignal) => {
      const requested = { ...options(resource, capabilities, range), paginate: 1 };
      try {
        const patience = reachOf(resource).lasting ? { pageAttempts: 2 } : {};
        return totalOn(range, await list(resource, requested, signal, patience), capabilities);
      } catch (error) {
        if (!isPageFailure(error)) throw error;
        // The server may fail on the first record. A later one, or the end of the list, shows the same total.
        const further = { ...requested, page: capabilities.pageSize + 1 };
        const page = await list(resource, further, signal, { pageAttempts: 2 }).catch(() => undefined);
        if (page === undefined) throw error;
        return totalOn(range, page, capabilities);
      }
    },
    /** Returns the days of the oldest and the newest record, if the server keeps the requested order. */
    extent: async (resource: ResourceName, capabilities: Capabilities, signal: AbortSignal): Promise<Extent> => {
      if (capabilities.sorts !== 'kept') return { oldest: null, newest: null };
      const [oldest, newest] = await Promise.all([
        edge(resource, capabilities, 'asc', signal),
        edge(resource, capabilities, 'desc', signal),
      ]);
      return { oldest: dayOn(oldest), newest: dayOn(newest) };
    },
    /** Reads some of the newest records of the range; undefined if they cannot be read. */
    newest: (resource: ResourceName, range: DayRange | null, capabilities: Capabilities, signal: AbortSignal) =>
      edge(resource, capabilities, 'desc', signal, range, Math.min(capabilities.pageSize, 100)),
    /** Requests one record by itself. Throws if the response fails. */
    look: (resource: ResourceName, id: RecordKey, signal: AbortSignal) =>
      lookAtRecord({ list, getUser }, resource, id, signal),
  };
}

/** Throws if records lie outside of the range: otherwise a total that counts everything would have a window cut without end. */
function checkRange(range: DayRange | null, createdAt: readonly unknown[], capabilities: Capabilities): void {
  if (range === null) return;
  const advice = 'Measure its rules again with `admin-mirror doctor --probe`, then sync.';
  const problem = `the server sent records created outside of ${range.from}..${range.to}`;
  if (createdAt.some(isOutside(range))) throw new ContradictionError(problem, { advice });
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
 * Returns the two days to send for a half-open window; null if no range shows it. If the server's last day or time zone was not
 * measured, the range is one day wider on each side, and the caller leaves out what lies outside of the window.
 */
export function requestedRange(window: DayRange, capabilities: Capabilities): DayRange | null {
  if (coverageOf(window) !== 'days') return null;
  const shifted = capabilities.dayShiftMinutes !== 0;
  const from = shifted && window.from > eraStart ? addDays(window.from, -1) : window.from;
  const lastWhole = capabilities.rangeEnd === 'inclusive' ? addDays(window.to, -1) : window.to;
  const to = shifted && lastWhole < eraEnd ? addDays(lastWhole, 1) : lastWhole;
  return { from, to };
}

/** Returns a function that reads the first page of the records created on some days, requested as in a walk. */
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

/** Returns the days in which records of the range may have been created, whatever the server's rule. */
export function possibleDays(range: DayRange): DayRange {
  return {
    from: range.from > eraStart ? addDays(range.from, -1) : eraStart,
    to: range.to < eraEnd ? addDays(range.to, 2) : eraEnd,
  };
}

/**
 * Whether a record was created outside of the range, whatever the server's rule. Compares text, since it runs for every record.
 */
export function isOutside(range: DayRange): (createdAt: unknown) => boolean {
  const from = range.from > eraStart ? addDays(range.from, -1) : '';
  // A range that reaches the end of the era has no bound there.
  const to = range.to < eraEnd ? addDays(range.to, 2) : null;
  return (createdAt) =>
    typeof createdAt === 'string' && startsWithDay(createdAt) && (createdAt < from || (to !== null && createdAt >= to));
}

/** Whether a record was created beside a range that shows exactly its days. Then no window that owns the record shows it. */
export function isBeside(
  { from, to }: DayRange,
  { rangeEnd }: Pick<Capabilities, 'rangeEnd'>,
): (createdAt: unknown) => boolean {
  // Servers differ in whether midnight belongs to the range that ends with it.
  const until = rangeEnd === 'exclusive' ? to : addDays(to, 1);
  return (createdAt) =>
    typeof createdAt === 'string' &&
    startsWithDay(createdAt) &&
    ((createdAt < from && from > eraStart) ||
      (createdAt >= until && to < eraEnd && !createdAt.startsWith('00:00:00', 'yyyy-mm-dd '.length)));
}

/** Whether the server understood the request and refused it. A 403 may be for the related records alone. */
export function isRefusal(error: unknown): error is RefusedInput | KeyRefused {
  return error instanceof RefusedInput || (error instanceof KeyRefused && error.status === 403);
}
