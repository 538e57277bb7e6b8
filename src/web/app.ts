/** The HTTP server of the console below its pages: where it listens, its limits and headers, and whose requests it takes. */
import type { AddressInfo } from 'node:net';
import cookie from '@fastify/cookie';
import helmet from '@fastify/helmet';
import multipart from '@fastify/multipart';
import rateLimit from '@fastify/rate-limit';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { hostInUrl, isLoopback } from '../model/address.ts';
import { UsageError } from '../model/errors.ts';
import { explainFileError, readRegularFile } from '../model/files.ts';
import { minuteMs, secondMs } from '../model/time.ts';
import { limitConnections, listenError } from '../worker/health-server.ts';

/** Where the console listens, and the address that browsers use. */
export interface ConsoleAddress {
  readonly host: string;
  readonly port: number;
  /** PEM files; null for plain HTTP. */
  readonly tls: { readonly certificate: string; readonly key: string } | null;
  /** The address of the proxy in front of the console, possibly with a path; null if there is no proxy. */
  readonly behindProxy: URL | null;
  readonly isReadOnly: boolean;
}

export const limits = {
  /** For a form without files. */
  formBytes: 256 * 1024,
  /** For a sheet. */
  fileBytes: 50 * 1024 * 1024,
  requestMs: 5 * minuteMs,
  headersMs: 10 * secondMs,
  connections: 256,
  /** From one address. A page with its pictures needs a handful. */
  requestsPerMinute: 600,
  signInsPerMinute: 10,
} as const;

/** Returns the server without routes. Throws a UsageError if the address is not safe, a FileError if a file cannot be read. */
export async function openApp(address: ConsoleAddress): Promise<FastifyInstance> {
  checkAddress(address);
  const app = newApp(address);
  await protect(app, address);
  return app;
}

function newApp(address: ConsoleAddress): FastifyInstance {
  const app = Fastify({
    bodyLimit: limits.formBytes,
    requestTimeout: limits.requestMs,
    connectionTimeout: limits.requestMs,
    keepAliveTimeout: 5 * secondMs,
    // Trusts one proxy, which added the last address. The client may have written all addresses before that.
    trustProxy: address.behindProxy === null ? false : (_: string, hop: number) => hop === 0,
    forceCloseConnections: true,
    exposeHeadRoutes: true,
    ...(address.tls !== null && { https: pemOf(address.tls) }),
  } as object) as FastifyInstance;
  limitConnections(app.server, limits.connections);
  app.server.headersTimeout = limits.headersMs;
  return app;
}

/** Limits requests, and tells browsers what a page may do. */
async function protect(app: FastifyInstance, address: ConsoleAddress): Promise<void> {
  await app.register(cookie);
  // No page sends JSON or plain text.
  app.removeAllContentTypeParsers();
  await app.register(multipart, { limits: { fileSize: limits.fileBytes, files: 1, fields: 20, fieldSize: 4_096 } });
  await app.register(rateLimit, { max: limits.requestsPerMinute, timeWindow: minuteMs });
  await app.register(helmet, {
    contentSecurityPolicy: {
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        styleSrc: ["'self'"],
        scriptSrc: ["'self'"],
        imgSrc: ["'self'"],
        connectSrc: ["'self'"],
        formAction: ["'self'"],
        baseUri: ["'none'"],
        frameAncestors: ["'none'"],
      },
    },
    // The promise to stay with https makes sense only over https.
    strictTransportSecurity: isSecure(address) ? { maxAge: 31_536_000 } : false,
    referrerPolicy: { policy: 'same-origin' },
    xFrameOptions: { action: 'deny' },
  });
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: limits.formBytes },
    (_request, body, done) => done(null, new URLSearchParams(String(body))),
  );
}

function isSecure({ tls, behindProxy }: ConsoleAddress): boolean {
  return tls !== null || behindProxy?.protocol === 'https:';
}

/** Throws a UsageError if passwords would cross a network unencrypted. */
function checkAddress(address: ConsoleAddress): void {
  const { behindProxy } = address;
  if (behindProxy !== null && behindProxy.protocol !== 'https:' && !isLoopback(behindProxy.hostname)) {
    throw new UsageError(
      `the address of the proxy, ${behindProxy.href}, is not https: passwords would cross the network unencrypted`,
      {
        advice: 'Set up TLS in the proxy, and set its https:// address in serve.behind_proxy.',
      },
    );
  }
  if (isLoopback(address.host) || isSecure(address)) return;
  throw new UsageError(`serve.listen is ${address.host}, where other machines can connect, without TLS`, {
    advice:
      'Listen on 127.0.0.1; or set a certificate with serve.tls; or put a proxy with TLS in front, ' +
      'and set its address in serve.behind_proxy.',
  });
}

function pemOf({ certificate, key }: { readonly certificate: string; readonly key: string }) {
  const read = (file: string): Buffer => {
    try {
      return readRegularFile(file).bytes;
    } catch (error) {
      throw explainFileError(error, 'read', file) ?? error;
    }
  };
  return { cert: read(certificate), key: read(key) };
}

/** The request does not come from one of our pages, or the console is stopping. */
export class Refused extends Error {
  override readonly name = 'Refused';
  readonly statusCode: number;

  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

/**
 * Returns why the request cannot come from one of our pages; null if it can. The host reveals a foreign page whose name points to this
 * machine (DNS rebinding); the origin that browsers send reveals a form of another site.
 */
export function strangerProblem(request: FastifyRequest, address: ConsoleAddress): string | null {
  const host = URL.parse(`http://${request.headers.host ?? ''}`);
  if (host === null || !isOurName(host.hostname, address)) return 'this console is not known by that name';
  if (request.method === 'GET' || request.method === 'HEAD') return null;
  const site = request.headers['sec-fetch-site'];
  const isOurs = site === undefined ? request.headers.origin === originOf(request, address) : site === 'same-origin';
  return isOurs ? null : 'this console accepts forms only from its own pages';
}

/** Scheme, host and port under which the browser knows the console, in the form of the header Origin. */
export function originOf({ headers }: FastifyRequest, { behindProxy, tls }: ConsoleAddress): string {
  return behindProxy?.origin ?? URL.parse(`${tls === null ? 'http' : 'https'}://${headers.host}`)?.origin ?? '';
}

function isOurName(name: string, { host, behindProxy, tls }: ConsoleAddress): boolean {
  if (behindProxy !== null && name === behindProxy.hostname) return true;
  if (name === host || name === `[${host}]`) return true;
  if (isLoopback(host) || behindProxy !== null) return isLoopback(name);
  // With TLS, the certificate has proved the name to the browser.
  return tls !== null;
}

export async function listen(app: FastifyInstance, { host, port, tls }: ConsoleAddress) {
  try {
    await app.listen({ host, port });
  } catch (error) {
    await app.close();
    const what = `the console cannot listen on ${host}:${port}`;
    throw listenError(what, error as NodeJS.ErrnoException, 'Name another address with --listen.');
  }
  const { port: bound } = app.server.address() as AddressInfo;
  return { url: `${tls === null ? 'http' : 'https'}://${hostInUrl(host)}:${bound}`, close: () => app.close() };
}
