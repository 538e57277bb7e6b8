/** Decides which request fails and how (first by faults that a test set, then by chance), and makes it fail. */
import type { FastifyReply } from 'fastify';
import type { HttpMethod } from '../../../src/model/operations.ts';
import { type Response, toJson } from '../../../src/sandbox/envelope.ts';
import { htmlPage, reset } from '../../../src/sandbox/faults.ts';
import type { Random } from '../../../src/sandbox/random.ts';
import type { Bends } from './bends.ts';

export const readFaults = {
  error_500: 'responds 500 with a JSON message and a debug trace',
  error_502: 'responds 502 with a JSON message',
  error_503: 'responds 503 with Retry-After',
  too_many: 'responds 429 with Retry-After although no limit was reached',
  html: 'responds with the HTML page of a proxy',
  reset_before: 'resets the connection before the first byte',
  reset_middle: 'resets the connection in the middle of the body',
  truncated: 'cuts the JSON short in a well-framed response',
  hang: 'never responds',
  empty_body: 'responds 200 without a body',
  redirect: 'responds 302 to another host',
} as const;

/** Faults of POST, PUT and DELETE. Those whose name begins with `commit_` still make the write. */
export const writeFaults = {
  error_500: 'responds 500, nothing was written',
  error_502: 'responds 502, nothing was written',
  error_503: 'responds 503 with Retry-After, nothing was written',
  too_many: 'responds 429 with Retry-After, nothing was written',
  html: 'responds with the HTML page of a proxy, nothing was written',
  reset_before: 'resets the connection, nothing was written',
  hang: 'never responds, nothing was written',
  redirect: 'responds 302 to another host, nothing was written',
  lost: 'reports success, nothing was written',
  commit_reset: 'writes, then resets the connection before the first byte',
  commit_500: 'writes, then responds 500',
  commit_html: 'writes, then responds with the HTML page of a proxy',
  commit_truncated: 'writes, then cuts the JSON of the response short',
  commit_empty: 'writes, then responds 200 without a body',
  commit_hang: 'writes, then never responds',
  commit_refused: 'writes, then reports a failure ({"success": false})',
  commit_429: 'writes, then responds 429 with Retry-After',
  commit_503: 'writes, then responds 503 with Retry-After',
  commit_late: 'resets the connection, and writes late_commit_ms afterwards',
  commit_twice: 'writes twice, as a proxy that replays the request would',
} as const;

export type ReadFault = keyof typeof readFaults;
export type WriteFault = keyof typeof writeFaults;
export type Fault = ReadFault | WriteFault;

const readFaultNames = Object.keys(readFaults) as ReadFault[];
export const writeFaultNames = Object.keys(writeFaults) as WriteFault[];

/** A fault for the next requests that match; without `match`, for the very next ones. */
export interface ScriptedFault {
  readonly fault: Fault;
  /** How many requests it hits; 1 by default. */
  readonly times?: number;
  readonly match?: {
    readonly method?: HttpMethod;
    /** A text that the decoded path and query must contain, or a pattern that they must match. */
    readonly path?: string | RegExp;
  };
}

interface PendingFault extends ScriptedFault {
  left: number;
}

const maxStreaks = 20_000;

function decoded(url: string): string {
  try {
    return decodeURIComponent(url);
  } catch {
    return url;
  }
}

export class Faults {
  #pending: PendingFault[] = [];
  /** Failures in a row by request. */
  readonly #streaks = new Map<string, number>();

  /** Adds faults, which come in the order in which they were set, before any that is drawn. */
  script(faults: readonly ScriptedFault[]): void {
    this.#pending.push(...faults.map((each) => ({ ...each, left: each.times ?? 1 })));
  }

  /** Removes the faults that were set and have not come yet. */
  clear(): void {
    this.#pending = [];
  }

  #scripted(method: HttpMethod, url: string): Fault | null {
    const text = decoded(url);
    const found = this.#pending.find(({ match = {} }) => {
      const { path = '' } = match;
      if (match.method !== undefined && match.method !== method) return false;
      return typeof path === 'string' ? text.includes(path) : path.test(text);
    });
    if (found === undefined) return null;
    found.left -= 1;
    if (found.left <= 0) this.#pending = this.#pending.filter((each) => each !== found);
    return found.fault;
  }

  #draw(chance: Random, method: HttpMethod, behaviour: Bends): Fault | null {
    // Always draws once, whatever the switches are, so that changing a probability does not shift later draws.
    let draw = chance.fraction();
    if (method === 'GET') {
      for (const name of readFaultNames) {
        draw -= behaviour[`read_${name}`];
        if (draw < 0) return name;
      }
    } else {
      for (const name of writeFaultNames) {
        draw -= behaviour[`write_${name}`];
        if (draw < 0) return name;
      }
    }
    return null;
  }

  /** Returns how the next request fails; null if it does not. */
  next(chance: Random, method: HttpMethod, url: string, behaviour: Bends): Fault | null {
    const scripted = this.#scripted(method, url);
    if (scripted !== null) return scripted;
    const drawn = this.#draw(chance, method, behaviour);
    const request = `${method} ${url}`;
    const streak = this.#streaks.get(request) ?? 0;
    const isAtLimit = behaviour.fault_streak > 0 && streak >= behaviour.fault_streak;
    if (drawn === null || isAtLimit) {
      this.#streaks.delete(request);
      return null;
    }
    if (this.#streaks.size > maxStreaks) this.#streaks.clear();
    this.#streaks.set(request, streak + 1);
    return drawn;
  }
}

/** Faults that replace the operation. */
const before = ['error_500', 'error_502', 'error_503', 'too_many', 'html', 'reset_before', 'hang', 'redirect'] as const;
type FaultBefore = (typeof before)[number];

/** Whether the fault replaces the operation, which is then not performed. */
export function comesBefore(fault: Fault): fault is FaultBefore {
  return (before as readonly Fault[]).includes(fault);
}

function resetInTheMiddle(reply: FastifyReply, response: Response): void {
  const body = Buffer.from(response.body);
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(response.status, { 'content-type': 'application/json', 'content-length': body.length });
  raw.write(body.subarray(0, Math.ceil(body.length / 2)), () => raw.socket?.resetAndDestroy());
}

function sendJson(reply: FastifyReply, status: number, body: string | Buffer): void {
  void reply.code(status).header('content-type', 'application/json').send(body);
}

function sendHtml(reply: FastifyReply): void {
  const page = Buffer.from(htmlPage(502, 'Bad gateway'));
  void reply.code(502).header('content-type', 'text/html; charset=UTF-8').send(page);
}

function half(response: Response): Buffer {
  const body = Buffer.from(response.body);
  return body.subarray(0, Math.floor(body.length / 2));
}

/** Sends a fault that replaces the operation. */
export function failBefore(bends: Bends, reply: FastifyReply, fault: FaultBefore): void {
  const wait = { 'retry-after': String(bends.retry_after_seconds) };
  switch (fault) {
    case 'error_500':
      return sendJson(reply, 500, toJson({ message: 'Server Error' }));
    case 'error_502':
      return sendJson(reply, 502, toJson({ message: 'Bad Gateway' }));
    case 'error_503':
      return sendJson(reply.headers(wait), 503, toJson({ message: 'Service Unavailable' }));
    case 'too_many':
      return sendJson(reply.headers(wait), 429, toJson({ message: 'Too Many Attempts.' }));
    case 'html':
      return sendHtml(reply);
    case 'redirect':
      return void reply.code(302).header('location', 'https://login.example/session').send('');
    case 'reset_before':
      return reset(reply);
    case 'hang':
      // The connection stays open until the client gives up or the sandbox closes.
      return void reply.hijack();
  }
}

/** Faults after a write whose responses are those of faults before it. */
const sameResponse: Partial<Record<Fault, FaultBefore>> = {
  commit_reset: 'reset_before',
  commit_500: 'error_500',
  commit_html: 'html',
  commit_429: 'too_many',
  commit_503: 'error_503',
  commit_hang: 'hang',
};

/** Sends a fault instead of the response of an operation that was performed. */
export function failAfter(bends: Bends, reply: FastifyReply, fault: Fault, response: Response): void {
  const before = comesBefore(fault) ? fault : sameResponse[fault];
  if (before !== undefined) return failBefore(bends, reply, before);
  if (fault === 'reset_middle') return resetInTheMiddle(reply, response);
  if (fault === 'truncated' || fault === 'commit_truncated') return sendJson(reply, response.status, half(response));
  if (fault === 'empty_body' || fault === 'commit_empty') return sendJson(reply, 200, '');
  if (fault === 'commit_refused') {
    const body = toJson({ success: false, errors: ['The request could not be completed.'] });
    return sendJson(reply, bends.refusal_status, body);
  }
  return sendJson(reply, response.status, response.body);
}

/** Writes that are made a little later, although the connection of their request was reset. */
export class LateWrites {
  readonly #waiting = new Map<NodeJS.Timeout, () => void>();

  add(write: () => void, ms: number): void {
    const timer = setTimeout(() => this.#run(timer), ms);
    timer.unref();
    this.#waiting.set(timer, write);
  }

  #run(timer: NodeJS.Timeout): void {
    const write = this.#waiting.get(timer);
    clearTimeout(timer);
    this.#waiting.delete(timer);
    try {
      write?.();
    } catch {
      // Nobody waits for the response, so a refusal is of no interest.
    }
  }

  /** Makes all of them now and returns how many there were. */
  now(): number {
    const timers = [...this.#waiting.keys()];
    for (const timer of timers) this.#run(timer);
    return timers.length;
  }

  /** Drops all of them, for when the sandbox closes. */
  clear(): void {
    for (const timer of this.#waiting.keys()) clearTimeout(timer);
    this.#waiting.clear();
  }
}
