/** The server and the key are tried, and what the server can do is measured. Nothing is written. */
import type { Secret } from '../../model/secret.ts';
import { silentLog } from '../../model/log.ts';
import { systemClock } from '../../model/time.ts';
import { networkOf } from '../../settings/server.ts';
import type { Settings } from '../../settings/settings.ts';
import type { CliContext } from '../context.ts';
import type { Check } from '../doctor/check.ts';

/** Looks at the server, the key, and each list. Throws only where the command was stopped. */
export async function tryServer(
  context: CliContext,
  base: Settings,
  baseUrl: string,
  key: Secret,
): Promise<readonly Check[]> {
  const [{ checkServer }, { checkLists }, { openApi, withReleases }] = await Promise.all([
    import('../doctor/server-checks.ts'),
    import('../doctor/list-checks.ts'),
    import('../../app.ts'),
  ]);
  const { signal } = context;
  const { timeoutMs, pageSize } = base.api;
  const { checks, usable } = await checkServer({
    baseUrl,
    key,
    timeoutMs,
    network: networkOf(base),
    clock: systemClock,
    signal,
  });
  if (!usable) return checks;
  const settings = { ...base, api: { ...base.api, baseUrl, key } };
  const lists = await withReleases(async (releases) =>
    checkLists({
      client: await openApi({ settings, log: silentLog, clock: systemClock }, releases),
      pageSize,
      stored: () => null,
      clock: systemClock,
      signal,
    }),
  );
  return [...checks, ...lists.checks];
}
