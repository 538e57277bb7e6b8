/** A proxy in front of the sandbox that alters its responses. */
import { createServer, type OutgoingHttpHeaders } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { Sandbox } from './bent/sandbox.ts';
import { listening } from './listening.ts';

export interface Altered {
  readonly status?: number;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string;
}

export interface Exchange {
  readonly method: string;
  /** The path with its query. */
  readonly path: string;
  /** The body from the sandbox; it is sent on unchanged if the proxy does not alter it. */
  readonly body: string;
}

/**
 * The sandbox behind the proxy.
 * @param alter returns the parts of a response to replace; may throw to cut the connection
 * @param ask returns the path to request instead of a path
 */
export async function behindProxy(
  sandbox: Sandbox,
  alter: (exchange: Exchange) => Altered,
  ask: (path: string) => string = (path) => path,
): Promise<Sandbox> {
  const server = createServer((request, response) => {
    const { method = 'GET', url: path = '/' } = request;
    const forward = async (): Promise<void> => {
      const sent = await buffer(request);
      const headers = new Headers({ authorization: request.headers.authorization ?? '', accept: 'application/json' });
      if (sent.length > 0) headers.set('content-type', 'application/json');
      const init = { method, headers, ...(sent.length === 0 ? {} : { body: sent }) };
      const given = await fetch(`${sandbox.url}${ask(path)}`, init);
      const body = await given.text();
      const altered = alter({ method, path, body });
      const type = given.headers.get('content-type') ?? 'application/json';
      const date = given.headers.get('date');
      response.writeHead(altered.status ?? given.status, {
        'content-type': type,
        ...(date === null ? {} : { date }),
        ...altered.headers,
      });
      response.end(altered.body ?? body);
    };
    forward().catch(() => response.destroy());
  });
  return { ...sandbox, url: await listening(server) };
}

/** Alters each record in lists of users; other responses are unchanged. */
export function eachUser(alter: (user: Record<string, unknown>) => void): (exchange: Exchange) => Altered {
  return ({ path, body }) => {
    if (!path.startsWith('/api/v1/users?')) return {};
    const list = JSON.parse(body) as { readonly data: Record<string, unknown>[] };
    list.data.forEach(alter);
    return { body: JSON.stringify(list) };
  };
}

/** Alters each record of all lists, and single users. */
export function eachRecord(alter: (record: Record<string, unknown>) => void): (exchange: Exchange) => Altered {
  return ({ path, body }) => {
    const { data, ...rest } = JSON.parse(body) as {
      readonly data?: Record<string, unknown> | Record<string, unknown>[];
    };
    if (data === undefined || path.endsWith('/auth')) return {};
    for (const record of [data].flat()) alter(record);
    return { body: JSON.stringify({ ...rest, data }) };
  };
}
