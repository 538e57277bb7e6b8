/** The sync engine's source over the API client. */
import { measureCapabilities, type Capabilities } from '../api/capabilities.ts';
import type { Client, Patience } from '../api/client.ts';
import type { ListPage, Page } from '../api/envelope.ts';
import type { RequestGate } from './allowance.ts';
import { isPageFailure } from '../api/errors.ts';
import { dateRange, type ListOptions } from '../api/list-query.ts';
import { type PageReading, Reach, readPage } from '../api/narrow.ts';
import type { DayRange } from '../model/era.ts';
import { resourceOf, type ResourceName, type SortDirection } from '../model/resources.ts';
import { dayOf, parseInstant, type Clock, type Day } from '../model/time.ts';
import { ContradictionError } from './contradiction.ts';
import { isRefusal } from './includes.ts';
import { joinPages, type PageTask, readPageOf, type ReadPage } from './page.ts';
import { rangeBreaker } from './range.ts';
import { apiContact, lookAtRecord, type RequestedClient } from './server-contact.ts';
import type { Source } from './source.ts';

/** @param pageSize records requested on a page at the most; the server may give fewer */
export function apiSource(client: Client, pageSize: number, clock: Clock): Source {
  return sourceOver({ client, pageSize, clock, requested: new Map(), ahead: { ms: 0 } });
}

interface SourceParts {
  readonly client: RequestedClient;
  readonly pageSize: number;
  readonly clock: Clock;
  /** Requests so far. */
  readonly requested: Map<ResourceName, number>;
  readonly ahead: { ms: number };
}

/** The client, taking leave at the gate before each request, for the resource or for none. */
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
  const { client, pageSize, clock, requested: asked, ahead } = parts;
  const resources = gated(client, gate, (resource) => resource);
  const count = (resource: ResourceName): void => void asked.set(resource, (asked.get(resource) ?? 0) + 1);
  const noteTime = ({ serverTime, milliseconds }: Pick<ListPage, 'serverTime' | 'milliseconds'>): void => {
    // The header is cut to whole seconds, and was written halfway through the wait.
    if (serverTime !== undefined) ahead.ms = Math.round(serverTime + 500 - (clock.now() - milliseconds / 2));
  };
  // Everything the engine asks about a resource goes through these, so that it is counted.
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
  ): Promise<Day | null> {
    const requested = { ...options(resource, capabilities, null, direction), paginate: 1 };
    try {
      const { records } = await list(resource, requested, signal);
      const created = parseInstant(records[0]?.['created_at']);
      return created === undefined ? null : dayOf(created);
    } catch (error) {
      // The record that cannot be read may be this one: then its day is not known.
      if (isPageFailure(error)) return null;
      throw error;
    }
  }

  return {
    contact: apiContact(gated(client, gate, () => null)),
    within: (given) => sourceOver(parts, given),
    serverAheadMs: () => ahead.ms,
    requests: (resource) => asked.get(resource) ?? 0,
    measure: (resource, signal, before) => {
      reaches.delete(resource);
      const measured = { list, rateLimit: () => client.rateLimit(), maxBodyBytes: client.maxBodyBytes };
      return measureCapabilities(measured, resource, signal, { pageSize, clock, before });
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
      const read = await readPage(reading, page, paginate, reachOf(resource));
      checkRange(range, read.createdAt);
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
        const patience = reachOf(resource).lasting ? { attempts: 2 } : {};
        return totalOn(range, await list(resource, requested, signal, patience));
      } catch (error) {
        if (!isPageFailure(error)) throw error;
        // It may be the first record that cannot be read: one further on, or the end of the list, tells the same.
        const further = { ...requested, page: capabilities.pageSize + 1 };
        const page = await list(resource, further, signal, { attempts: 2 }).catch(() => undefined);
        if (page === undefined) throw error;
        return totalOn(range, page);
      }
    },
    extent: async (resource, capabilities, signal) => {
      if (capabilities.sorts !== 'kept') return { oldest: null, newest: null };
      const [oldest, newest] = await Promise.all([
        edge(resource, capabilities, 'asc', signal),
        edge(resource, capabilities, 'desc', signal),
      ]);
      return { oldest, newest };
    },
    look: (resource, id, signal) => lookAtRecord({ list, getUser }, resource, id, signal),
  };
}

/**
 * Throws where a record was created outside of the days requested: then neither the records of the page nor its total
 * say anything about them. A total that counts everything would have a window cut without end.
 */
function checkRange(range: DayRange | null, createdAt: readonly unknown[]): void {
  if (range === null || !createdAt.some(rangeBreaker(range))) return;
  throw new ContradictionError(`the server answered with records created outside of ${range.from}..${range.to}`, {
    advice: 'Measure its rules again with `admin-mirror doctor --probe`, then sync.',
  });
}

/** The total of a page with one record, which must be of the range. */
function totalOn(range: DayRange | null, { total, records }: Page): number {
  checkRange(
    range,
    records.map((record) => record['created_at']),
  );
  return total;
}

const unsentFilter = { filters: [{ key: 'is_sent', value: 0 }] } as const;

function including(include: readonly string[]): { include?: readonly string[] } {
  return include.length === 0 ? {} : { include };
}
