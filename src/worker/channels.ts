/** Where alerts go: a webhook, and the operator's own program; and the ping after each complete sync. */
import { spawn } from 'node:child_process';
import { request } from 'undici';
import { type Network, openDispatcher } from '../api/network.ts';
import type { Log } from '../model/log.ts';
import type { SecretAddress } from '../model/secret.ts';
import { minuteMs, secondMs } from '../model/time.ts';
import { endGroup } from './command.ts';
import { type AlertPayload, type Channels, pauseAfter } from './alerts.ts';
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
  /** For the command: its working folder, and its environment, without any secret of ours. */
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
 * Sends one request, bounded in time, to an address that must not be named: an Error names the host alone, since the transport's own
 * messages may have the address in them. Resolves where the status is 2xx; follows no redirect.
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
      // Alerts are days apart: a connection kept alive would be closed by then.
      reset: true,
    });
    await response.body.dump({ limit: 65_536, signal: limit }).catch(() => {});
    status = response.statusCode;
  } catch (error) {
    // The cause is left out: it may have the address in it, and a logged error has its cause with it.
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

const longestOutput = 4_096;

interface CommandPorts extends Omit<ChannelPorts, 'userAgent'> {
  /** One minute where it is left out. */
  readonly limitMs?: number;
}

/** Runs the program, without a shell. Rejects where it does not end with 0. It is ended when it takes too long, or at the signal. */
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
      // A group of its own, so that what it has started ends with it.
      detached: true,
    });
    let output = '';
    // First of all: where it could not be started for want of descriptors, it has no streams either.
    child.once('error', (error: NodeJS.ErrnoException) =>
      settle(`the alert command ${program} could not be run (${error.code ?? 'unknown'})`),
    );
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output = `${output}${text}`.slice(0, longestOutput);
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
      endGroup(child);
      // What it left behind in a group of its own may hold them for ever.
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
    // It need not read.
    child.stdin.on('error', () => {});
    child.stdin.end(`${JSON.stringify(payload)}\n`);
  });
}

const given = ['id', 'problem', 'kind', 'resolved', 'text', 'job', 'run', 'outcome', 'exit_code'] as const;

/** `ALERT_EXIT_CODE` and so on; yes is 1, no is 0, and nothing is empty. */
function variablesOf(payload: AlertPayload): Readonly<Record<string, string>> {
  const textOf = (value: string | number | boolean | null) =>
    String(typeof value === 'boolean' ? Number(value) : (value ?? ''));
  return Object.fromEntries(given.map((name) => [`ALERT_${name.toUpperCase()}`, textOf(payload[name])]));
}

/** The next complete sync pings again; until then, a receiver that is down for a quarter of an hour is not reported. */
const mostAttempts = 5;

interface PingPorts {
  readonly network?: Network;
  readonly userAgent: string;
  readonly sleep: Sleep;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Sends it until the address takes it, or often enough. Never rejects. */
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
