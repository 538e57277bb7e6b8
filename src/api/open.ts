/** Opens the client from the settings. */
import type { Releases } from '../model/releases.ts';
import { version } from '../model/program.ts';
import { networkOf, serverOf } from '../settings/server.ts';
import type { Surroundings } from '../settings/settings.ts';
import { type Client, openClient } from './operations.ts';

/** Opens the client of the server that the settings name. Throws a UsageError if the address or the key is missing. */
export function openApi({ settings, log, clock }: Omit<Surroundings, 'signal'>, releases: Releases): Client {
  const { baseUrl, key, warnings } = serverOf(settings);
  for (const warning of warnings) log.warn({}, warning);
  const { timeoutMs, concurrency, attempts, requestsPerSecond, pageSize } = settings.api;
  const client = openClient({
    baseUrl,
    key: key.reveal(),
    userAgent: `admin-mirror/${version()}`,
    timeoutMs,
    concurrency,
    attempts,
    requestsPerSecond,
    pageSize,
    network: networkOf(settings),
    log,
    clock,
    elapsed: () => performance.now(),
  });
  return releases.add(client);
}
