/** Requests that fail by chance: before anything is done, or after a write whose response is lost. */
import type { FastifyReply } from 'fastify';
import { toJson } from './envelope.ts';
import type { SandboxState } from './sandbox.ts';

/** Returns the error page of a proxy in front of the server. */
export function htmlPage(status: number, title: string): string {
  return (
    `<!DOCTYPE html>\n<html lang="en-US">\n<head><title>hosting.example | ${status}: ${title}</title></head>\n<body>` +
    `<h1>${title} <span>Error code ${status}</span></h1><p>The web server reported an error. Ray ID: ` +
    '<strong>8a1f2c3d4e5f6a7b</strong></p></body>\n</html>\n'
  );
}

/** Ends the connection without a response. */
export function reset(reply: FastifyReply): void {
  reply.hijack();
  reply.raw.socket?.resetAndDestroy();
}

function sendError(reply: FastifyReply, status: number, message: string): void {
  void reply.code(status).header('content-type', 'application/json').send(toJson({ message }));
}

const failures: readonly ((reply: FastifyReply) => void)[] = [
  (reply) => sendError(reply, 500, 'Server Error'),
  (reply) => sendError(reply, 502, 'Bad Gateway'),
  (reply) => sendError(reply.header('retry-after', '1'), 503, 'Service Unavailable'),
  (reply) => void reply.code(502).header('content-type', 'text/html; charset=UTF-8').send(htmlPage(502, 'Bad gateway')),
  reset,
];

/** Fails the request with the probability of the switch `errors`, and returns whether it did. */
export function failsByChance({ behaviour, chance }: SandboxState, reply: FastifyReply): boolean {
  if (!chance.chance(behaviour.errors)) return false;
  chance.pick(failures)(reply);
  return true;
}

/** Loses the response to a write that was made, with the probability of the switch `lost_answers`. Returns whether it did. */
export function losesAnswer({ behaviour, chance }: SandboxState, reply: FastifyReply): boolean {
  if (!chance.chance(behaviour.lost_answers)) return false;
  if (chance.chance(0.5)) reset(reply);
  else sendError(reply, 500, 'Server Error');
  return true;
}
