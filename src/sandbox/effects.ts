/** Carries a fault out on a connection. */
import type { FastifyReply } from 'fastify';
import type { Fault } from './faults.ts';
import { type Response, toJson } from './envelope.ts';
import type { SandboxState } from './sandbox.ts';

/** Faults that come instead of the operation. */
const before = ['error_500', 'error_502', 'error_503', 'too_many', 'html', 'reset_before', 'hang', 'redirect'] as const;
type FaultBefore = (typeof before)[number];

/** True where the operation is not even begun. */
export function comesBefore(fault: Fault): fault is FaultBefore {
  return (before as readonly Fault[]).includes(fault);
}

/** `Retry-After` as the switch writes it, or no header at all. */
export function retryAfter(state: SandboxState, seconds: number): Record<string, string> {
  switch (state.behaviour.retry_after) {
    case 'seconds':
      return { 'retry-after': String(seconds) };
    case 'date':
      return { 'retry-after': new Date(state.clock.now() + seconds * 1_000).toUTCString() };
    case 'none':
      return {};
  }
}

/** The page of a proxy in front of the server. */
export function htmlPage(status: number, title: string): string {
  return (
    `<!DOCTYPE html>\n<html lang="en-US">\n<head><title>hosting.example | ${status}: ${title}</title></head>\n<body>` +
    `<h1>${title} <span>Error code ${status}</span></h1><p>The web server reported an error. Ray ID: ` +
    '<strong>8a1f2c3d4e5f6a7b</strong></p></body>\n</html>\n'
  );
}

function reset(reply: FastifyReply): void {
  reply.hijack();
  reply.raw.socket?.resetAndDestroy();
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

function sendHtml(state: SandboxState, reply: FastifyReply): void {
  const { html_status: status, html_content_type: type } = state.behaviour;
  void reply
    .code(status)
    .header('content-type', type)
    .send(Buffer.from(htmlPage(status, 'Bad gateway')));
}

/** Spaces before the JSON: however long, it still parses. */
function padded(response: Response, bytes: number): Buffer {
  const body = Buffer.from(response.body);
  return Buffer.concat([Buffer.alloc(Math.max(0, bytes - body.length), ' '), body]);
}

function half(response: Response): Buffer {
  const body = Buffer.from(response.body);
  return body.subarray(0, Math.floor(body.length / 2));
}

/** Sends a fault that comes before the operation. */
export function failBefore(state: SandboxState, reply: FastifyReply, fault: FaultBefore): void {
  const wait = retryAfter(state, state.behaviour.retry_after_seconds);
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
      return sendHtml(state, reply);
    case 'redirect':
      return void reply.code(302).header('location', 'https://login.example/session').send('');
    case 'reset_before':
      return reset(reply);
    case 'hang':
      // The connection is closed with the sandbox, or by a client that has had enough.
      return void reply.hijack();
  }
}

/** Faults after a write that look like those before it. */
const alike: Partial<Record<Fault, FaultBefore>> = {
  commit_reset: 'reset_before',
  commit_500: 'error_500',
  commit_html: 'html',
  commit_429: 'too_many',
  commit_503: 'error_503',
  commit_hang: 'hang',
};

/** Sends a fault that comes after the operation, in the place of its response. */
export function failAfter(state: SandboxState, reply: FastifyReply, fault: Fault, response: Response): void {
  const before = comesBefore(fault) ? fault : alike[fault];
  if (before !== undefined) return failBefore(state, reply, before);
  if (fault === 'reset_middle') return resetInTheMiddle(reply, response);
  if (fault === 'truncated' || fault === 'commit_truncated') return sendJson(reply, response.status, half(response));
  if (fault === 'empty_body' || fault === 'commit_empty') return sendJson(reply, 200, '');
  if (fault === 'oversized') {
    return sendJson(reply, response.status, padded(response, state.behaviour.oversized_bytes));
  }
  if (fault === 'commit_refused') {
    const body = toJson({ success: false, errors: ['The request could not be completed.'] });
    return sendJson(reply, state.behaviour.refusal_status, body);
  }
  return sendJson(reply, response.status, response.body);
}

/** Writes whose requests were cut off and that are made all the same, a little later. */
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
      // Nobody is left to hear that the write was refused.
    }
  }

  /** Makes them all now, without the wait; says how many there were. */
  now(): number {
    const timers = [...this.#waiting.keys()];
    for (const timer of timers) this.#run(timer);
    return timers.length;
  }

  /** Forgets them: the sandbox closes. */
  clear(): void {
    for (const timer of this.#waiting.keys()) clearTimeout(timer);
    this.#waiting.clear();
  }
}
