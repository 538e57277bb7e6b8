/** The worker's health, readiness and metrics over HTTP. Three read-only pages need no framework. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { FileError, UsageError } from '../model/errors.ts';
import { hostInUrl, isLoopback } from '../model/address.ts';
import type { Log } from '../model/log.ts';
import { isSameWord, type Secret } from '../model/secret.ts';
import { secondMs } from '../model/time.ts';

interface Response {
  readonly status: 200 | 503;
  readonly type: string;
  readonly body: string;
}

export type Pages = Readonly<Record<string, () => Response | Promise<Response>>>;

export function jsonResponse(isGood: boolean, body: unknown): Response {
  return { status: isGood ? 200 : 503, type: 'application/json; charset=utf-8', body: `${JSON.stringify(body)}\n` };
}

/** Serves the pages; with a token, only to clients that send it. Throws a UsageError if it cannot listen on the address. */
export async function openHealthServer(
  { host, port }: { readonly host: string; readonly port: number },
  pages: Pages,
  log: Log,
  token?: Secret,
) {
  const server = createServer({ connectionsCheckingInterval: secondMs }, (request, response) => {
    respond(request, response, { host, pages, token }).catch((error: unknown) => {
      log.error({ path: pathOf(request) }, `a request for the worker's health failed: ${String(error)}`);
      if (!response.headersSent) send(response, 500, 'text/plain', 'this is a bug in admin-mirror; its log has more\n');
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
    close: (): Promise<void> =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const maxConnections = 64;

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

function pathOf({ url }: IncomingMessage): string {
  return (url ?? '/').split('?')[0] ?? '/';
}

function isAuthorized({ headers }: IncomingMessage, token: Secret | undefined): boolean {
  return token === undefined || isSameWord(headers.authorization ?? '', `Bearer ${token.reveal()}`);
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
  if (!isAuthorized(request, token)) {
    response.setHeader('WWW-Authenticate', 'Bearer');
    send(response, 401, 'text/plain', 'this needs the token of worker.token\n');
    return;
  }
  if (token === undefined && !isForThisMachine(request, host)) {
    send(response, 403, 'text/plain', `send requests to ${host} or a name of this machine\n`);
    return;
  }
  const path = pathOf(request);
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if (page === undefined) {
    send(response, 404, 'text/plain', `${Object.keys(pages).join('\n')}\n`);
  } else if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('Allow', 'GET, HEAD');
    send(response, 405, 'text/plain', 'only GET and HEAD are allowed\n');
  } else {
    const { status, type, body } = await page();
    send(response, status, type, body);
  }
}

/** For HEAD, Node leaves out the body. */
function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
  });
  response.end(body);
}
