/** Opens the client from the settings. */
import type { SharedStore } from '../model/address.ts';
import { markOf } from '../model/secret.ts';
import type { Releases } from '../model/releases.ts';
import { version } from '../model/program.ts';
import { networkOf, sharedStoreOf, serverOf } from '../settings/server.ts';
import type { Surroundings } from '../settings/settings.ts';
import type { BudgetOptions } from '../store/request-budget.ts';
import { type Client, openClient } from './operations.ts';
import type { SharedBudget } from './gate.ts';

/** Opens the client of the server that the settings name. Throws a UsageError if the address or the key is missing. */
export function openApi({ settings, log, clock }: Omit<Surroundings, 'signal'>, releases: Releases): Client {
  const { baseUrl, key, warnings } = serverOf(settings);
  for (const warning of warnings) log.warn({}, warning);
  const { timeoutMs, concurrency, attempts, requestsPerSecond, pageSize } = settings.api;
  const store = sharedStoreOf(settings);
  const budget =
    store && budgetIn(store, { address: baseUrl, keyMark: markOf(key.reveal()), requestsPerSecond, log }, releases);
  const client = openClient({
    baseUrl,
    key: key.reveal(),
    userAgent: `admin-mirror/${version()}`,
    timeoutMs,
    concurrency,
    attempts,
    requestsPerSecond,
    budget,
    pageSize,
    network: networkOf(settings),
    log,
    clock,
    elapsed: () => performance.now(),
  });
  return releases.add(client);
}

/** Returns the request budget in the shared store, and connects to the store at the first request. */
function budgetIn(store: SharedStore, options: BudgetOptions, releases: Releases): SharedBudget {
  const opening = async () => {
    const [{ connectTo }, { openRequestBudget }] = await Promise.all([
      import('../store/postgres.ts'),
      import('../store/request-budget.ts'),
    ]);
    return releases.add(openRequestBudget(connectTo(store), options));
  };
  let opened: ReturnType<typeof opening> | undefined;
  return {
    next: async () => (await (opened ??= opening())).next(),
    refused: (waitMs) => void opened?.then((budget) => budget.refused(waitMs)),
  };
}
