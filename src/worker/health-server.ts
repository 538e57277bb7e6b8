/** The health, readiness and metrics of the workers of this process over HTTP. Three read-only pages need no framework. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { FileError, UsageError } from '../model/errors.ts';
import { hostInUrl, isLoopback } from '../model/address.ts';
import type { Log } from '../model/log.ts';
import { isSameWord, type Secret } from '../model/secret.ts';
import { secondMs } from '../model/time.ts';
import { metricsText } from './metrics.ts';
import type { Watch } from './watch.ts';

/** By the name of the server: the watches over running workers, and why other workers cannot start. */
export interface Watched {
  readonly watches: Map<string, Watch>;
  readonly troubles: Map<string, string>;
}

interface Response {
  readonly status: 200 | 503;
  readonly type: string;
  readonly body: string;
}

type Pages = Readonly<Record<string, () => Promise<Response>>>;

/** A page is bad if it is bad for any of the servers. */
export function pagesOf({ watches, troubles }: Watched): Pages {
  const pageOf = async (look: (watch: Watch) => Promise<{ readonly isGood: boolean }>): Promise<Response> => {
    const found = new Map<string, { readonly isGood: boolean }>();
    for (const [name, watch] of watches) found.set(name, await look(watch));
    for (const [name, problem] of troubles) {
      if (!found.has(name)) found.set(name, { isGood: false, status: 'not ready', problem } as { isGood: boolean });
    }
    const isGood = [...found.values()].every((each) => each.isGood);
    const profiles = Object.fromEntries(Array.from(found, ([name, { isGood: _isGood, ...each }]) => [name, each]));
    const body = `${JSON.stringify({ status: isGood ? 'good' : 'bad', profiles })}\n`;
    return { status: isGood ? 200 : 503, type: 'application/json; charset=utf-8', body };
  };
  return {
    '/healthz': () => pageOf((watch) => watch.health()),
    '/readyz': () => pageOf((watch) => watch.readiness()),
    '/metrics': async () => {
      const each = await Promise.all(Array.from(watches.values(), (watch) => watch.metrics()));
      return { status: 200, type: 'text/plain; version=0.0.4; charset=utf-8', body: metricsText(each.flat()) };
    },
  };
}

const maxConnections = 64;

/** Serves the pages; with a token, only to clients that send it. Throws a UsageError if it cannot listen on the address. */
export async function openHealthServer(
  { host, port }: { readonly host: string; readonly port: number },
  pages: Pages,
  log: Log,
  token?: Secret,
) {
  const server = createServer({ connectionsCheckingInterval: secondMs }, (request, response) => {
    respond(request, response, { host, pages, token }).catch((error: unknown) => {
      log.error({ path: request.url }, `a request for the worker's health failed: ${String(error)}`);
      if (!response.headersSent) send(response, 500, 'this is a bug in admin-mirror; its log has more\n');
      else response.destroy();
    });
  });
  // The clients are nearby programs. A request that takes longer is stuck, and such requests must not pile up.
  server.requestTimeout = 5 * secondMs;
  server.headersTimeout = 5 * secondMs;
  server.keepAliveTimeout = 5 * secondMs;
  limitConnections(server, maxConnections);
  server.listen({ host, port });
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    const advice = 'Set another address with worker.listen or ADMIN_MIRROR_WORKER_LISTEN, or set "off".';
    throw listenError(`the worker cannot listen on ${host}:${port} (worker.listen)`, error, advice);
  });
  // Errors of single connections, such as a client that goes away, do not matter.
  server.on('error', () => {});
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${hostInUrl(host)}:${bound}`,
    close: async (): Promise<void> => {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Closes the oldest connection if there are too many. Refusing new ones would let slow clients lock everybody out. */
export function limitConnections(server: Pick<Server, 'on'>, max: number): void {
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    const [oldest] = open;
    if (open.size > max) oldest?.destroy();
  });
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another program already listens there',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'that port needs special rights',
  ENOTFOUND: 'there is no host of that name',
};

/** Explains why a server cannot listen. @param what which server, on which address, and the setting */
export function listenError(what: string, error: NodeJS.ErrnoException, advice: string): UsageError | FileError {
  const message = `${what}: ${reasons[error.code ?? ''] ?? error.message}`;
  const options = { advice, cause: error };
  return error.code === 'EMFILE' ? new FileError(message, options) : new UsageError(message, options);
}

/** Whether the request names this machine as its host. A foreign web page can make its own name point here (DNS rebinding). */
function isForThisMachine({ headers: { host } }: IncomingMessage, listening: string): boolean {
  // Only HTTP/1.0 may leave the host out, which no browser speaks. Node refuses all other requests without it.
  if (host === undefined) return true;
  const { hostname } = URL.parse(`http://${host}`) ?? { hostname: '' };
  return isLoopback(hostname) || hostname === listening.toLowerCase() || hostname === `[${listening}]`;
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  { host, pages, token }: { readonly host: string; readonly pages: Pages; readonly token: Secret | undefined },
): Promise<void> {
  const { method, url = '/', headers } = request;
  if (token !== undefined && !isSameWord(headers.authorization ?? '', `Bearer ${token.reveal()}`)) {
    response.setHeader('WWW-Authenticate', 'Bearer');
    return send(response, 401, 'this needs the token of worker.token\n');
  }
  if (token === undefined && !isForThisMachine(request, host)) {
    return send(response, 403, `send requests to ${host} or a name of this machine\n`);
  }
  const [path = '/'] = url.split('?');
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if (page === undefined) return send(response, 404, `${Object.keys(pages).join('\n')}\n`);
  if (method !== 'GET' && method !== 'HEAD') {
    response.setHeader('Allow', 'GET, HEAD');
    return send(response, 405, 'only GET and HEAD are allowed\n');
  }
  const { status, type, body } = await page();
  send(response, status, body, type);
}

/** For HEAD, Node leaves out the body. */
function send(response: ServerResponse, status: number, body: string, type = 'text/plain'): void {
  const length = Buffer.byteLength(body);
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': length, 'Cache-Control': 'no-store' });
  response.end(body);
}
