/** The dead man's ping: asked after each complete sync, so that somebody else notices when none comes any more. */
import type { Network } from '../../api/network.ts';
import type { Log } from '../../model/log.ts';
import type { SecretAddress } from '../../model/secret.ts';
import type { Sleep } from '../run-job.ts';
import { problemOf } from './courier.ts';
import { pauseAfter } from './message.ts';
import { sendRequest } from './request.ts';

/** The next complete sync pings again; until then a receiver that is down for a quarter of an hour must not cry wolf. */
const mostAttempts = 5;

export interface PingPorts {
  readonly network?: Network;
  readonly userAgent: string;
  readonly sleep: Sleep;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Asks the address until it says yes, or often enough. Never rejects. */
export async function ping(
  address: SecretAddress,
  { network = {}, userAgent, sleep, log, signal }: PingPorts,
): Promise<void> {
  for (let attempt = 1; !signal.aborted; attempt += 1) {
    const problem = await problemOf(sendRequest(address, { method: 'GET', userAgent, network }, signal));
    if (problem === null || signal.aborted) return;
    const isLast = attempt === mostAttempts;
    log.warn({ attempt }, `the ping was not taken: ${problem}${isLast ? '; the next complete sync pings again' : ''}`);
    if (isLast) return;
    await sleep(pauseAfter(attempt), signal);
  }
}
