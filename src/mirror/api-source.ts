/** The sync engine's source over the API client. */
import { measureCapabilities, type Capabilities } from '../api/capabilities.ts';
import type { Client } from '../api/client.ts';
import type { RequestGate } from './allowance.ts';
import type { Page } from '../api/envelope.ts';
import { isPageFailure } from '../api/errors.ts';
import { dateRange, type ListOptions } from '../api/list-query.ts';
import { type AskPage, Reach, readPage } from '../api/narrow.ts';
import type { DayRange } from '../model/era.ts';
import { resourceOf, type ResourceName, type SortDirection } from '../model/resources.ts';
import { dayOf, parseInstant, type Clock, type Day } from '../model/time.ts';
import { ContradictionError } from './contradiction.ts';
import { isRefusal } from './includes.ts';
import { createdAtOn } from './page-entries.ts';
import { rangeBreaker } from './range.ts';
import { apiContact, lookAtRecord, type AskedClient } from './server-contact.ts';
import type { Source } from './source.ts';

/** @param pageSize records asked for on a page at the most; the server may give fewer */
export function apiSource(client: Client, pageSize: number, clock: Clock): Source {
  return sourceOver(client, pageSize, clock, new Map(), { ms: 0 });
}

/** The client, taking leave at the gate before each request, for the resource or for none. */
function gated(
  client: AskedClient,
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
    list: async (resource, options, signal, reading) =>
      client.list(resource, options, signal, { ...reading, ...leave(whose(resource)) }),
    getUser: async (user, relations, signal) => client.getUser(user, relations, signal, leave(whose('users'))),
    auth: async (signal, patience) => client.auth(signal, { ...patience, ...leave(null) }),
  } satisfies AskedClient;
}

function sourceOver(
  client: AskedClient,
  pageSize: number,
  clock: Clock,
  asked: Map<ResourceName, number>,
  ahead: { ms: number },
  gate?: RequestGate,
): Source {
  const resources = gated(client, gate, (resource) => resource);
  const count = (resource: ResourceName): void => void asked.set(resource, (asked.get(resource) ?? 0) + 1);
  // Everything the engine asks about a resource goes through these two, so that it is counted.
  const list: Client['list'] = async (resource, options, signal, reading) => {
    count(resource);
    const page = await resources.list(resource, options, signal, reading);
    if (page.serverTime !== undefined) {
      // The header is cut to whole seconds, and was written halfway through the wait.
      ahead.ms = Math.round(page.serverTime + 500 - (clock.now() - page.milliseconds / 2));
    }
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
    const asked = { ...options(resource, capabilities, null, direction), paginate: 1 };
    try {
      const { records } = await list(resource, asked, signal);
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
    within: (given) => sourceOver(client, pageSize, clock, asked, ahead, given),
    serverAheadMs: () => ahead.ms,
    requests: (resource) => asked.get(resource) ?? 0,
    measure: (resource, signal, before) => {
      reaches.delete(resource);
      const measured = { list, rateLimit: () => client.rateLimit() };
      return measureCapabilities(measured, resource, signal, { pageSize, clock, before });
    },
    page: async (resource, { page, paginate, range, unsent = false, include = [] }, capabilities, signal, wish) => {
      const asked = {
        ...options(resource, capabilities, range),
        ...including(include),
        ...(unsent ? unsentFilter : {}),
      };
      const ask: AskPage = (number, size, patience) => {
        // What is made on the way is made of whole pages: parts are put together here.
        const wished = number === page && size === paginate && wish !== undefined ? { wish } : {};
        const reading = { ...patience, ...wished };
        return list(resource, { ...asked, page: number, paginate: size } as ListOptions, signal, reading);
      };
      return withinRange(range, await readPage(ask, page, paginate, reachOf(resource)));
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
      const asked = { ...options(resource, capabilities, range), paginate: 1 };
      try {
        const patience = reachOf(resource).lasting ? { attempts: 2 } : {};
        return withinRange(range, await list(resource, asked, signal, patience)).total;
      } catch (error) {
        if (!isPageFailure(error)) throw error;
        // It may be the first record that cannot be read: one further on, or the end of the list, tells the same.
        const further = { ...asked, page: capabilities.pageSize + 1 };
        const page = await list(resource, further, signal, { attempts: 2 }).catch(() => undefined);
        if (page === undefined) throw error;
        return withinRange(range, page).total;
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
 * The page, unless a record on it was created outside of the days asked for: then neither its records nor its total
 * say anything about them. A total that counts everything would have a window cut without end.
 */
function withinRange(range: DayRange | null, page: Page): Page {
  if (range === null) return page;
  const breaksRange = rangeBreaker(range);
  if (!createdAtOn(page).some(breaksRange)) return page;
  throw new ContradictionError(`the server answered with records created outside of ${range.from}..${range.to}`, {
    advice: 'Measure its rules again with `admin-mirror doctor --probe`, then sync.',
  });
}

const unsentFilter = { filters: [{ key: 'is_sent', value: 0 }] } as const;

function including(include: readonly string[]): { include?: readonly string[] } {
  return include.length === 0 ? {} : { include };
}
