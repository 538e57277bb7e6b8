/** The channels of alerts, a webhook and the operator's own program; and the ping after each complete sync. */
import { spawn } from 'node:child_process';
import { request } from 'undici';
import { type Network, openDispatcher } from '../api/transport.ts';
import type { Log } from '../model/log.ts';
import type { SecretAddress } from '../model/secret.ts';
import { minuteMs, secondMs } from '../model/time.ts';
import { killGroup } from './run-job.ts';
import { type AlertPayload, type Channels, retryDelay } from './alerts.ts';
import type { Sleep } from './sleep.ts';
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
export function runAlertCommand(
  [program = '', ...words]: readonly string[],
  payload: AlertPayload,
  { folder, environment, log, limitMs = commandLimitMs }: CommandPorts,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, {
      cwd: folder,
      env: { ...environment, ...variablesOf(payload) },
      stdio: 'pipe',
      // Its own process group, so that everything that it starts can be killed with it.
      detached: true,
    });
    let output = '';
    // Registered before the streams are used: without free file descriptors, the child has no streams.
    child.once('error', (error: NodeJS.ErrnoException) =>
      settle(`the alert command ${program} could not be run (${error.code ?? 'unknown'})`),
    );
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output = `${output}${text}`.slice(0, maxOutputLength);
      });
    }
    function settle(problem: string | undefined): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      if (output.trim() !== '') log.info({ alert: payload.id }, `the alert command printed: ${output.trim()}`);
      if (problem === undefined) resolve();
      else reject(new Error(problem));
    }
    const end = (): void => {
      killGroup(child);
      // A process that it moved into another group may keep the streams open for ever.
      for (const stream of [child.stdout, child.stderr]) stream.destroy();
    };
    let isTooLong = false;
    const timer = setTimeout(() => {
      isTooLong = true;
      end();
    }, limitMs);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    child.once('close', (code) => {
      if (code === 0) settle(undefined);
      else if (isTooLong) settle(`the alert command took longer than ${limitMs / secondMs} s`);
      else settle(`the alert command ended with ${code ?? 'a signal'}`);
    });
    // The program does not have to read its input.
    child.stdin.on('error', () => {});
    child.stdin.end(`${JSON.stringify(payload)}\n`);
  });
}

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
