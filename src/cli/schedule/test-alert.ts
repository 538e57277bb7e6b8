/** `schedule --test-alert`: one alert that means nothing, to see that it arrives. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { UnreachableError, UsageError } from '../../model/errors.ts';
import { systemClock, timestampOf } from '../../model/time.ts';
import { version } from '../../model/version.ts';
import { networkOf } from '../../settings/server.ts';
import { channelsOf, problemOf } from '../../worker/alerts/channels.ts';
import { payloadOf } from '../../worker/alerts/message.ts';
import type { CliContext } from '../context.ts';
import { printJson, printLine } from '../output.ts';
import { withoutSecrets } from './environment.ts';

/** Sends it once by each channel of the settings. Throws an UnreachableError where one could not take it. */
export async function sendTestAlert(context: CliContext): Promise<void> {
  const { openLog } = await import('../logger.ts');
  const { folder, environment, signal } = context;
  const settings = context.settings();
  const { alerts } = settings;
  const userAgent = `admin-mirror/${version()}`;
  const ports = { userAgent, folder, environment: withoutSecrets(environment), log: await openLog(context) };
  const channels = Object.entries(channelsOf({ ...alerts, network: networkOf(settings) }, ports));
  if (channels.length === 0) {
    throw new UsageError('there is nobody to alert', {
      advice: 'Set alerts.webhook or alerts.command in the config file, or ADMIN_MIRROR_ALERTS_WEBHOOK or …_COMMAND.',
    });
  }
  const results = await Promise.all(
    channels.map(async ([channel, deliver]) => {
      const payload = testPayload(context.settings().profile);
      return { channel, id: payload.id, problem: await problemOf(deliver(payload, signal)) };
    }),
  );
  if (context.json()) printJson(context, { alerts: results });
  for (const { channel, id, problem } of context.json() ? [] : results) {
    printLine(context, `${channel}: ${problem ?? `took it (${id})`}`);
  }
  const failed = results.filter(({ problem }) => problem !== null);
  if (failed.length > 0) {
    throw new UnreachableError(`the test alert did not arrive: ${failed.map(({ problem }) => problem).join('; ')}`);
  }
}

function testPayload(profile: string | undefined) {
  const at = timestampOf(systemClock.now());
  const none = { job: null, run: null, outcome: null, exitCode: null };
  const alert = { ...none, problem: 'test', kind: 'test', text: 'this is a test, nothing is wrong' } as const;
  const step = { kind: 'begins', alert: { ...alert, next: null, since: at, sentAt: at } } as const;
  return payloadOf(step, randomUUID(), at, { host: hostname(), profile: profile ?? null, version: version() });
}
