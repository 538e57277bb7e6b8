/**
 * The console over HTTP: who may ask, what they may ask for, and how a page gets to them. What stands on a page is in
 * pages/; who may see it is in the table of routes. Section "The console" of docs/architecture.md.
 */
import type { IncomingMessage } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Readable } from 'node:stream';
import cookie from '@fastify/cookie';
import helmet from '@fastify/helmet';
import multipart, { type MultipartFile } from '@fastify/multipart';
import rateLimit from '@fastify/rate-limit';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { OperatorError, stackOf, UsageError } from '../model/errors.ts';
import { explainFileError, readRegularFile, systemError } from '../model/files.ts';
import { hostInUrl, isLoopback } from '../model/address.ts';
import { minuteMs, secondMs } from '../model/time.ts';
import { listenError, limitConnections } from '../worker/health-server.ts';
import { anchor, documentOf, type Frame, loadAssets, html, problemTag, refusalStatus, refusalTag } from './html.ts';
import {
  type Caller,
  type ConsolePorts,
  isAllowed,
  notFound,
  NotFoundError,
  page,
  type Reply,
  type Route,
  type Upload,
  type Visit,
} from './route.ts';
import { routes as allRoutes } from './routes.ts';

/** Where the console listens and by which name browsers know it. */
export interface ConsoleAddress {
  readonly host: string;
  readonly port: number;
  /** PEM files; without them it speaks plain HTTP. */
  readonly tls: { readonly certificate: string; readonly key: string } | null;
  /** The address under which a proxy shows it, which may have a path; null where there is none. */
  readonly behindProxy: URL | null;
  readonly isReadOnly: boolean;
}

export const limits = {
  /** Of a form without files. */
  formBytes: 256 * 1024,
  /** Of a sheet. */
  fileBytes: 50 * 1024 * 1024,
  requestMs: 5 * minuteMs,
  headersMs: 10 * secondMs,
  connections: 256,
  /** Requests of one address a minute; a page and its pictures are a handful. */
  requestsPerMinute: 600,
  signInsPerMinute: 10,
} as const;

const htmlType = 'text/html; charset=utf-8';

/** Sent along when the browser comes back from a provider, which is another site; it is worth nothing after that. */
const ticketCookie = '__Host-admin-mirror-oidc';

/** By its prefix a browser takes it only over a secure connection, from this host, for all paths. */
const sessionCookie = '__Host-admin-mirror';

/** Starts to listen. Throws a UsageError for an address that is not safe, and a FileError for what cannot be read. */
export async function listenFor(address: ConsoleAddress, ports: ConsolePorts) {
  checkAddress(address);
  const app = newApp(address);
  await protect(app, address);
  const routes = address.isReadOnly ? allRoutes.filter(({ changes }) => changes !== true) : allRoutes;
  const replies = repliesOf(address, ports, routes);
  app.addHook('onRequest', async (request, reply) => {
    const problem = strangerProblem(request, address);
    if (problem !== null) await replies.fail(request, reply, new Refused(403, problem));
    else if (ports.signal.aborted) await replies.fail(request, reply, new Refused(503, 'the console is stopping'));
  });
  for (const { path, type, bytes } of Object.values(replies.assets)) {
    app.get(path, (_request, reply) =>
      reply.type(type).header('Cache-Control', 'public, max-age=31536000, immutable').send(bytes),
    );
  }
  for (const route of routes) {
    app.route({
      method: route.method,
      url: route.path,
      ...(route.method === 'POST' &&
        route.path.startsWith('/sign-in') && {
          config: { rateLimit: { max: limits.signInsPerMinute, timeWindow: minuteMs } },
        }),
      handler: (request, reply) => replies.handle(route, request, reply),
    });
  }
  // A form that was refused is shown under its own address: whoever comes back to that gets the page that the form stands on.
  const shown = new Set(routes.flatMap(({ method, path }) => (method === 'GET' ? [path] : [])));
  for (const { method, path } of routes) if (method === 'POST' && !shown.has(path)) app.get(path, replies.formPage);
  app.setNotFoundHandler((request, reply) => {
    const isMalformed = request.url === malformedPath;
    return replies.fail(request, reply, isMalformed ? new Refused(400, 'the address is malformed') : notFound());
  });
  app.setErrorHandler((error, request, reply) => replies.fail(request, reply, error));
  return listen(app, address);
}

function newApp(address: ConsoleAddress): FastifyInstance {
  const app = Fastify({
    bodyLimit: limits.formBytes,
    requestTimeout: limits.requestMs,
    connectionTimeout: limits.requestMs,
    keepAliveTimeout: 5 * secondMs,
    // One, which has added the last address; whatever stands before that, whoever asks may have written.
    trustProxy: address.behindProxy === null ? false : (_: string, hop: number) => hop === 0,
    forceCloseConnections: true,
    exposeHeadRoutes: true,
    // What fastify and Node would respond to by themselves comes to us: every error is a page with the headers of all pages.
    return503OnClosing: false,
    // As long as an address can be.
    routerOptions: { maxParamLength: 16 * 1024 },
    rewriteUrl: ({ url = '/' }: IncomingMessage) => (isWritten(url) ? url : malformedPath),
    clientErrorHandler: refuseBytes,
    [address.tls === null ? 'http' : 'https']: {
      requireHostHeader: false,
      ...(address.tls !== null && pemOf(address.tls)),
    },
  } as object) as FastifyInstance;
  limitConnections(app.server, limits.connections);
  app.server.headersTimeout = limits.headersMs;
  // Nobody who shows a page expects anything of us before it; what is expected is left aside, and the request handled.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  return app;
}

/** Bounds what is taken, and says to browsers what a page may do. */
async function protect(app: FastifyInstance, address: ConsoleAddress): Promise<void> {
  await app.register(cookie);
  // Of JSON and plain text no page makes anything.
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
    // Only what is reached by https may promise to stay so.
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

/** What the routes and errors reply, to whoever asks. */
function repliesOf(address: ConsoleAddress, ports: ConsolePorts, routes: readonly Route[]) {
  const assets = loadAssets();
  const base = address.behindProxy?.pathname.replace(/\/$/, '') ?? '';

  async function formPage({ url }: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const [path = ''] = url.split('?');
    return reply.redirect(headerText(`${base}${path.slice(0, path.lastIndexOf('/')) || '/'}`), 303);
  }

  async function handle(route: Route, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const caller = await callerOf(request);
    const visit = visitOf(request, reply, caller);
    if (!isAllowed(route.access, caller?.account.roles ?? null)) {
      if (caller === null && route.method === 'GET') {
        return reply.redirect(visit.link('/sign-in', { next: request.url === '/' ? null : request.url }), 303);
      }
      return send(reply, visit, forbiddenPage(visit));
    }
    const made = await replyOf(route, visit);
    if (made.kind !== 'events') return send(reply, visit, made);
    return send(reply, visit, { ...made, events: whileAllowed(route, request, made.events) });
  }

  /** The session may end, or the role be taken away, while a page follows something. */
  async function* whileAllowed({ access }: Route, request: FastifyRequest, events: AsyncIterable<unknown>) {
    for await (const event of events) {
      if (!isAllowed(access, (await callerOf(request))?.account.roles ?? null)) return;
      yield event;
    }
  }

  /** What the route gives; where that is refused, the page to put it right on, with the reason on top. */
  async function replyOf(route: Route, visit: Visit): Promise<Reply> {
    try {
      return await route.handle(visit, ports);
    } catch (error) {
      const isPutRight = error instanceof OperatorError && !(error instanceof NotFoundError);
      if (route.refused === undefined || !isPutRight) throw error;
      const shown = await route.refused({ ...visit, refusal: error }, ports);
      if (shown.kind !== 'page') return shown;
      // Under the address of the form there is no page that could be loaded anew by itself.
      const body = html`${refusalTag(error, ports)} ${shown.body}`;
      return page(shown.title, body, { status: shown.status ?? refusalStatus(error) });
    }
  }

  async function callerOf({ cookies }: FastifyRequest): Promise<Caller | null> {
    const token = cookies[sessionCookie];
    return token === undefined ? null : ports.sessions.find(token);
  }

  function visitOf(request: FastifyRequest, reply: FastifyReply, caller: Caller | null): Visit {
    // Whatever the address begins with: of `//elsewhere` a browser would take a part for a host.
    const [path = '', ...rest] = request.url.split('?');
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort(new Refused(400, 'the browser has gone')));
    return {
      path,
      params: request.params as Readonly<Record<string, string>>,
      query: new URLSearchParams(rest.join('?')),
      form: request.body instanceof URLSearchParams ? request.body : new URLSearchParams(),
      caller,
      origin: address.behindProxy?.origin ?? `${address.tls === null ? 'http' : 'https'}://${request.headers.host}`,
      ticket: request.cookies[ticketCookie] ?? null,
      address: request.ip,
      refusal: null,
      may: (role) => caller?.account.roles.includes(role) ?? false,
      offers: (method, path) =>
        routes.some(
          (route) =>
            route.method === method && route.path === path && isAllowed(route.access, caller?.account.roles ?? null),
        ),
      link: (path, query = {}) => `${base}${path}${queryText(query)}`,
      signal: AbortSignal.any([gone.signal, ports.signal]),
      uploads: () => uploadsOf(request),
    };
  }

  function documentFor(visit: Visit, page: Pick<Frame, 'title' | 'body' | 'refresh' | 'onward'>): string {
    const { serverName } = ports;
    return documentOf({ ...page, visit, routes, assets, server: serverName, isReadOnly: address.isReadOnly });
  }

  function send(reply: FastifyReply, visit: Visit, made: Reply): FastifyReply {
    reply.header('Cache-Control', 'no-store');
    switch (made.kind) {
      case 'page': {
        const { title, body, status = 200, refresh } = made;
        return reply.code(status).type(htmlType).send(documentFor(visit, { title, body, refresh }));
      }
      case 'redirect': {
        if (made.cookie !== undefined) setSession(reply, made.cookie.token);
        if (made.ticket !== undefined) {
          reply.setCookie(ticketCookie, made.ticket, { path: '/', httpOnly: true, secure: true, sameSite: 'lax' });
        }
        // The browser asks for the page by GET, so that going back or reloading sends nothing twice.
        return reply.redirect(headerText(made.to), 303);
      }
      case 'onward': {
        if (made.cookie !== undefined) setSession(reply, made.cookie.token);
        reply.clearCookie(ticketCookie, { path: '/', secure: true });
        const body = html`<p><a href="${made.to}">Go on</a></p>`;
        return reply.type(htmlType).send(documentFor(visit, { title: 'You are signed in', body, onward: made.to }));
      }
      case 'file': {
        const name = encodeURIComponent(made.name);
        return reply
          .type(made.type)
          .header('Content-Disposition', `attachment; filename*=UTF-8''${name}`)
          .send(Readable.from(made.chunks, { objectMode: false }));
      }
      case 'picture':
        return reply.type('image/svg+xml').send(made.svg);
      case 'events':
        return reply
          .type('text/event-stream')
          .header('X-Accel-Buffering', 'no')
          .send(Readable.from(eventLines(made.events), { objectMode: false }));
    }
  }

  async function fail(request: FastifyRequest, reply: FastifyReply, error: unknown): Promise<FastifyReply> {
    const { status, body, title } = failureOf(request, error, ports);
    // Where it is the accounts that cannot be read, the page comes all the same; strangers are not even looked up.
    const caller = error instanceof Refused ? null : await callerOf(request).catch(() => null);
    return send(reply, visitOf(request, reply, caller), page(title, body, { status }));
  }

  return { assets, handle, formPage, fail };
}

/** The request is none that a page of ours has made, or it comes too late. */
class Refused extends Error {
  override readonly name = 'Refused';
  readonly statusCode: number;

  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

/** In the place of an address that cannot be decoded. */
const malformedPath = '/malformed';

function isWritten(url: string): boolean {
  try {
    decodeURIComponent(url.split('?')[0] ?? '');
    return url.startsWith('/');
  } catch {
    return false;
  }
}

/** Of what is no request at all, or too large a head of one: it never becomes one that a route could handle. */
function refuseBytes({ code }: NodeJS.ErrnoException, socket: Socket): void {
  if (socket.destroyed || !socket.writable || code === 'ECONNRESET') return void socket.destroy();
  const [status, problem] =
    code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'the head of the request is too large']
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'the request took too long']
        : ['400 Bad Request', 'the request is malformed'];
  const body = `<!doctype html>\n<html lang="en"><title>This request is refused</title><p>${problem}</p></html>\n`;
  const head = { ...bareHeaders, 'Content-Length': Buffer.byteLength(body), Connection: 'close' };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}`);
  socket.end(`HTTP/1.1 ${[status, ...lines, '', body].join('\r\n')}`);
}

const bareHeaders = {
  'Content-Type': htmlType,
  'Content-Security-Policy': "default-src 'none';frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Cache-Control': 'no-store',
};

/** What is told of an error: an operator's words and advice; of a bug that it is one, and where to look. */
function failureOf({ id }: FastifyRequest, thrown: unknown, ports: ConsolePorts) {
  const { log, redact } = ports;
  const error = systemError(thrown) ?? thrown;
  if (error instanceof NotFoundError) {
    return { status: 404, title: 'Not found', body: problemTag(error.message, error.advice) };
  }
  if (error instanceof OperatorError) {
    return { status: refusalStatus(error), title: 'This did not work', body: refusalTag(error, ports) };
  }
  const { statusCode: status = 500, message } = error as { readonly statusCode?: number; readonly message?: string };
  if (error instanceof Refused || (status >= 400 && status < 500)) {
    return { status, title: 'This request is refused', body: problemTag(String(message)) };
  }
  log.error({ request: id, stack: redact(stackOf(error)) }, 'a page failed');
  const body = problemTag('This is a bug in admin-mirror.', `Its log has more, under the request ${id}.`);
  return { status: 500, title: 'This did not work', body };
}

function forbiddenPage({ caller, path, link }: Visit): Reply {
  if (caller === null) {
    const problem = problemTag(
      'You are not signed in.',
      'Your session may have ended. Nothing was done; do it again then.',
    );
    return page('Sign in first', html`${problem} ${anchor(link('/sign-in', { next: path }), 'Sign in')}`, {
      status: 401,
    });
  }
  const why = `Your roles are: ${caller.account.roles.join(', ') || 'none'}.`;
  const advice = 'An admin can give you another one on the page People.';
  return page('You may not see this', problemTag(why, advice), { status: 403 });
}

/** An address as a header can hold it: whoever asks may have written anything into it. */
function headerText(address: string): string {
  return address.replaceAll(/[^\x21-\x7e]/gu, encodeURIComponent);
}

function setSession(reply: FastifyReply, token: string | null): void {
  const options = { path: '/', httpOnly: true, secure: true, sameSite: 'strict' } as const;
  if (token === null) reply.clearCookie(sessionCookie, options);
  else reply.setCookie(sessionCookie, token, options);
}

async function* eventLines(events: AsyncIterable<unknown>): AsyncGenerator<string> {
  // How soon a browser comes back whose connection was lost, in ms.
  yield 'retry: 1000\n\n';
  for await (const event of events) yield `data: ${JSON.stringify(event)}\n\n`;
}

async function* uploadsOf(request: FastifyRequest): AsyncGenerator<Upload> {
  for await (const part of readOf(request.parts())) {
    if (part.type !== 'file') continue;
    const fields = Object.fromEntries(
      Object.entries(part.fields).flatMap(([name, field]) =>
        field !== undefined && !Array.isArray(field) && field.type === 'field' ? [[name, String(field.value)]] : [],
      ),
    );
    // Of no name at all where no file was chosen.
    const name = (part.filename as string | undefined) ?? '';
    yield { field: part.fieldname, name, bytes: wholeFile(part.file, name), fields };
    // One that nobody took would keep the next, and the reply, from ever coming.
    part.file.resume();
  }
}

/** What the reader of forms throws of bytes that are no form is nobody's bug here. */
async function* readOf<T>(read: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* read;
  } catch (error) {
    if (error instanceof Error && 'statusCode' in error) throw error;
    throw new Refused(400, 'the form is malformed, or ends too early');
  }
}

/** The stream just ends where a file is too large; half a sheet must never be taken for one. */
async function* wholeFile(file: MultipartFile['file'], name: string): AsyncGenerator<Uint8Array> {
  yield* readOf(file as AsyncIterable<Uint8Array>);
  if (!file.truncated) return;
  throw new UsageError(`${name} is larger than ${limits.fileBytes / 1024 / 1024} MB`, {
    advice: 'Split it into smaller files.',
  });
}

function queryText(query: Readonly<Record<string, string | number | null | undefined>>): string {
  const given = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === null || value === undefined || value === '' ? [] : [[name, String(value)]],
  );
  return given.length === 0 ? '' : `?${String(new URLSearchParams(given))}`;
}

function isSecure({ tls, behindProxy }: ConsoleAddress): boolean {
  return tls !== null || behindProxy?.protocol === 'https:';
}

/** Throws a UsageError where passwords would go over a network in the clear. */
function checkAddress(address: ConsoleAddress): void {
  if (isLoopback(address.host) || isSecure(address)) return;
  throw new UsageError(`serve.listen is ${address.host}, where other machines can connect, without TLS`, {
    advice:
      'Listen on 127.0.0.1, give a certificate with serve.tls_certificate and serve.tls_key, or say with ' +
      '--behind-proxy https://… under which address a proxy with TLS shows the console.',
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

/**
 * Why the request is not one of a browser that shows our pages; null where it is. A page of elsewhere whose name was made to
 * mean this machine sends that name as its host; a form of another site is told by what browsers say of its origin.
 */
function strangerProblem(request: FastifyRequest, address: ConsoleAddress): string | null {
  const host = URL.parse(`http://${request.headers.host ?? ''}`);
  if (host === null || !isOurName(host.hostname, address)) return 'this console is not known by that name';
  if (request.method === 'GET' || request.method === 'HEAD') return null;
  const site = request.headers['sec-fetch-site'];
  const origin = URL.parse(request.headers.origin ?? '');
  const isOurs =
    site === undefined ? origin?.host === (address.behindProxy?.host ?? host.host) : site === 'same-origin';
  return isOurs ? null : 'forms are taken from the pages of this console alone';
}

function isOurName(name: string, { host, behindProxy, tls }: ConsoleAddress): boolean {
  if (behindProxy !== null && name === behindProxy.hostname) return true;
  if (name === host || name === `[${host}]`) return true;
  if (isLoopback(host) || behindProxy !== null) return isLoopback(name);
  // By its certificate the console proves its name to the browser.
  return tls !== null;
}

async function listen(app: FastifyInstance, { host, port, tls }: ConsoleAddress) {
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
