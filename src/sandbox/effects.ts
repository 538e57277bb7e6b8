/** Carries a fault out on a connection. */
import type { FastifyReply } from 'fastify';
import type { Fault } from './faults.ts';
import { toJson } from './envelope.ts';
import type { Response, SandboxState } from './state.ts';

/** Faults that come instead of the operation. */
const before = new Set<Fault>([
  'error_500',
  'error_502',
  'error_503',
  'too_many',
  'html',
  'reset_before',
  'hang',
  'redirect',
]);

/** True where the operation is not even begun. */
export function comesBefore(fault: Fault): boolean {
  return before.has(fault);
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

/** Begins a response of the full length and resets the connection half way. */
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
export function failBefore(state: SandboxState, reply: FastifyReply, fault: Fault): void {
  const wait = retryAfter(state, state.behaviour.retry_after_seconds);
  if (fault === 'error_500') return sendJson(reply, 500, toJson({ message: 'Server Error' }));
  if (fault === 'error_502') return sendJson(reply, 502, toJson({ message: 'Bad Gateway' }));
  if (fault === 'error_503') {
    return sendJson(reply.headers(wait), 503, toJson({ message: 'Service Unavailable' }));
  }
  if (fault === 'too_many') return sendJson(reply.headers(wait), 429, toJson({ message: 'Too Many Attempts.' }));
  if (fault === 'html') return sendHtml(state, reply);
  if (fault === 'redirect') {
    void reply.code(302).header('location', state.behaviour.redirect_to).send('');
    return undefined;
  }
  if (fault === 'reset_before') return reset(reply);
  // What is left never responds; the connection is closed with the sandbox, or by a client that has had enough.
  reply.hijack();
  return undefined;
}

/** Sends a fault that comes after the operation, in the place of its response. */
export function failAfter(state: SandboxState, reply: FastifyReply, fault: Fault, response: Response): void {
  switch (fault) {
    case 'reset_middle':
      return resetInTheMiddle(reply, response);
    case 'truncated':
    case 'commit_truncated':
      return sendJson(reply, response.status, half(response));
    case 'empty_body':
    case 'commit_empty':
      void reply.code(200).header('content-type', 'application/json').send('');
      return undefined;
    case 'oversized':
      return sendJson(reply, response.status, padded(response, state.behaviour.oversized_bytes));
    case 'commit_reset':
      return reset(reply);
    case 'commit_500':
      return sendJson(reply, 500, toJson({ message: 'Server Error' }));
    case 'commit_html':
      return sendHtml(state, reply);
    case 'commit_429':
      return failBefore(state, reply, 'too_many');
    case 'commit_503':
      return failBefore(state, reply, 'error_503');
    case 'commit_refused':
      return sendJson(
        reply,
        state.behaviour.refusal_status,
        toJson({ success: false, errors: ['The request could not be completed.'] }),
      );
    case 'commit_hang':
      reply.hijack();
      return undefined;
    case 'lost':
    case 'commit_twice':
    case 'commit_late':
    case 'empty_list':
      return sendJson(reply, response.status, response.body);
    case 'error_500':
    case 'error_502':
    case 'error_503':
    case 'too_many':
    case 'html':
    case 'reset_before':
    case 'hang':
    case 'redirect':
      return failBefore(state, reply, fault);
  }
}
