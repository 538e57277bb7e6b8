/** One request to an address that must not be told: bounded in time, redirects not followed, the answer not read. */
import { request } from 'undici';
import { type Network, openDispatcher } from '../../api/network.ts';
import { secondMs } from '../../model/time.ts';
import type { SecretAddress } from '../../model/secret.ts';

export const requestLimitMs = 10 * secondMs;

export interface SentRequest {
  readonly method: 'GET' | 'POST';
  /** JSON text. */
  readonly body?: string;
  readonly userAgent: string;
  readonly network?: Network;
}

/**
 * Sends it; resolves where it was answered with a 2xx. Rejects with an Error whose message names the host alone: the
 * transport's own messages may have the address in them.
 */
export async function sendRequest(address: SecretAddress, sent: SentRequest, signal: AbortSignal): Promise<void> {
  const status = await statusOf(address, sent, signal);
  if (status < 200 || status > 299) throw new Error(`${address.host} answered with ${status}`);
}

async function statusOf(
  address: SecretAddress,
  { method, body, userAgent, network = {} }: SentRequest,
  signal: AbortSignal,
): Promise<number> {
  const limit = AbortSignal.timeout(requestLimitMs);
  const dispatcher = openDispatcher(address.reveal(), network, { connectTimeoutMs: requestLimitMs });
  try {
    const answer = await request(address.reveal(), {
      method,
      dispatcher,
      body: body ?? null,
      headers: { 'user-agent': userAgent, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      signal: AbortSignal.any([signal, limit]),
      // Alerts are days apart: a connection kept alive would only be met at its end.
      reset: true,
    });
    await answer.body.dump({ limit: 65_536, signal: limit }).catch(() => {});
    return answer.statusCode;
  } catch (error) {
    // The cause is left out: it may have the address in it, and whoever logs an error logs its cause.
    // oxlint-disable-next-line preserve-caught-error
    if (limit.aborted) throw new Error(`${address.host} gave no answer within ${requestLimitMs / secondMs} s`);
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no connection';
    // oxlint-disable-next-line preserve-caught-error
    throw new Error(`${address.host} could not be reached (${code})`);
  } finally {
    await dispatcher.destroy();
  }
}
