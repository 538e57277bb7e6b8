/** The client of the server that the settings name. */
import type { Releases } from '../model/releases.ts';
import { version } from '../model/version.ts';
import { networkOf } from '../settings/network.ts';
import { serverOf } from '../settings/server.ts';
import type { Surroundings } from '../settings/settings.ts';
import { type Client, openClient } from './client.ts';

/** The client of the server that the settings name. Throws a UsageError where address or key are missing. */
export function openApi({ settings, log, clock }: Omit<Surroundings, 'signal'>, releases: Releases): Client {
  const { baseUrl, key, warnings } = serverOf(settings);
  for (const warning of warnings) log.warn({}, warning);
  const { timeoutMs, concurrency, attempts, requestsPerSecond, pageSize } = settings.api;
  const network = networkOf(settings);
  const options = { timeoutMs, concurrency, attempts, requestsPerSecond, pageSize, network, log, clock };
  const server = { baseUrl, key: key.reveal(), userAgent: `admin-mirror/${version()}` };
  return releases.add(openClient({ ...server, ...options }));
}
