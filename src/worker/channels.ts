/** The channels of alerts, a webhook and the operator's own program; and the ping after each complete sync. */
import { execFile, type ExecFileException } from 'node:child_process';
import { promisify } from 'node:util';
import { request } from 'undici';
import { type Network, openDispatcher } from '../api/transport.ts';
import type { Log } from '../model/log.ts';
import type { SecretAddress } from '../model/secret.ts';
import { minuteMs, secondMs, type Sleep } from '../model/time.ts';
import { type AlertPayload, type Channels, retryDelay } from './alerts.ts';
import { messageOf } from '../model/errors.ts';

export interface ChannelSettings {
  readonly webhook: SecretAddress | undefined;
  readonly command: readonly string[] | undefined;
  readonly network?: Network;
}

export interface ChannelPorts {
  readonly userAgent: string;
  readonly log: Log;
  /** Working folder and environment of the alert command; the environment contains none of our secrets. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export function channelsOf({ webhook, command, network = {} }: ChannelSettings, ports: ChannelPorts): Channels {
  const { userAgent } = ports;
  return {
    ...(webhook && {
      webhook: (payload, signal) =>
        problemOf(sendRequest(webhook, { method: 'POST', body: JSON.stringify(payload), userAgent, network }, signal)),
    }),
    ...(command && { command: (payload, signal) => problemOf(runAlertCommand(command, payload, ports, signal)) }),
  };
}

const problemOf = (trying: Promise<void>): Promise<string | null> => trying.then(() => null, messageOf);

const requestLimitMs = 10 * secondMs;

interface SentRequest {
  readonly method: 'GET' | 'POST';
  readonly body?: string;
  readonly userAgent: string;
  readonly network?: Network;
}

/**
 * Sends one request, with a time limit, to a secret address. Errors name only the host, since the messages of the transport may
 * contain the address. Resolves if the status is 2xx; follows no redirect.
 */
export async function sendRequest(
  address: SecretAddress,
  { method, body, userAgent, network = {} }: SentRequest,
  signal: AbortSignal,
): Promise<void> {
  const limit = AbortSignal.timeout(requestLimitMs);
  const dispatcher = openDispatcher(address.reveal(), network, { connectTimeoutMs: requestLimitMs });
  let status: number;
  try {
    const response = await request(address.reveal(), {
      method,
      dispatcher,
      body: body ?? null,
      headers: { 'user-agent': userAgent, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      signal: AbortSignal.any([signal, limit]),
      // Alerts are days apart, so keeping the connection is useless.
      reset: true,
    });
    await response.body.dump({ limit: 65_536, signal: limit }).catch(() => {});
    status = response.statusCode;
  } catch (error) {
    // Without the cause, which may contain the address: a logged error is logged with its cause.
    // oxlint-disable-next-line preserve-caught-error
    if (limit.aborted) throw new Error(`${address.host} gave no response within ${requestLimitMs / secondMs} s`);
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no connection';
    // oxlint-disable-next-line preserve-caught-error
    throw new Error(`${address.host} could not be reached (${code})`);
  } finally {
    await dispatcher.destroy();
  }
  if (status < 200 || status > 299) throw new Error(`${address.host} responded with ${status}`);
}

const commandLimitMs = minuteMs;

const maxOutputLength = 4_096;

interface CommandPorts extends Omit<ChannelPorts, 'userAgent'> {
  /** One minute by default. */
  readonly limitMs?: number;
}

/** Runs the program without a shell. Kills it after the limit or when the signal is aborted. Rejects unless it ends with 0. */
export async function runAlertCommand(
  [program = '', ...words]: readonly string[],
  payload: AlertPayload,
  { folder, environment, log, limitMs = commandLimitMs }: CommandPorts,
  signal: AbortSignal,
): Promise<void> {
  const env = { ...environment, ...variablesOf(payload) };
  const running = run(program, words, { cwd: folder, env, signal, timeout: limitMs, killSignal: 'SIGKILL' });
  // The program does not have to read its input.
  running.child.stdin?.on('error', () => {}).end(`${JSON.stringify(payload)}\n`);
  const ended = await running.catch((error: RunError) => error);
  const printed = `${ended.stdout ?? ''}${ended.stderr ?? ''}`.trim().slice(0, maxOutputLength);
  if (printed !== '') log.info({ alert: payload.id }, `the alert command printed: ${printed}`);
  if (!(ended instanceof Error)) return;
  const { killed, code, signal: endedBy } = ended;
  if (killed === true) throw new Error(`the alert command took longer than ${limitMs / secondMs} s`);
  if (typeof code === 'string') throw new Error(`the alert command ${program} could not be run (${code})`);
  throw new Error(`the alert command ended with ${code ?? endedBy ?? 'a signal'}`);
}

const run = promisify(execFile);

type RunError = Error &
  Pick<ExecFileException, 'killed' | 'signal' | 'stdout' | 'stderr'> & { readonly code?: string | number | null };

/** What a script needs that reads no JSON. */
function variablesOf({ id, problem, code, resolved, text }: AlertPayload): Readonly<Record<string, string>> {
  return {
    ALERT_ID: id,
    ALERT_PROBLEM: problem,
    ALERT_CODE: code,
    ALERT_RESOLVED: resolved ? '1' : '0',
    ALERT_TEXT: text,
  };
}

/** With the pauses, about a quarter of an hour. After that, the next complete sync pings again. */
const maxPings = 5;

interface PingPorts {
  readonly network?: Network;
  readonly userAgent: string;
  readonly sleep: Sleep;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Pings the address until it responds with 2xx, or gives up. Never rejects. */
export async function ping(
  address: SecretAddress,
  { network = {}, userAgent, sleep, log, signal }: PingPorts,
): Promise<void> {
  for (let attempt = 1; !signal.aborted; attempt += 1) {
    const problem = await problemOf(sendRequest(address, { method: 'GET', userAgent, network }, signal));
    if (problem === null || signal.aborted) return;
    const isLast = attempt === maxPings;
    log.warn({ attempt }, `the ping failed: ${problem}${isLast ? '; the next complete sync pings again' : ''}`);
    if (isLast) return;
    await sleep(retryDelay(attempt), signal);
  }
}
