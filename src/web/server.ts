/**
 * The console over HTTP: checks each request, finds its route and caller, and sends the reply. The pages are in pages/; routes.ts says
 * who may see them. Section "The console" of docs/architecture.md.
 */
import type { AddressInfo } from 'node:net';
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

const htmlType = 'text/html; charset=utf-8';

/** The only cookie that the browser sends when it comes back from the provider, which is another site. It works once. */
const ticketCookie = '__Host-admin-mirror-oidc';

/** Because of the prefix, a browser accepts it only over a secure connection, from this host, for all paths. */
const sessionCookie = '__Host-admin-mirror';

/** Starts to listen. Throws a UsageError if the address is not safe, and a FileError if a file cannot be read. */
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
  // A refused form is shown under its own address. If that is loaded later, the browser is sent to the page that has the form.
  const pagePaths = new Set(routes.flatMap(({ method, path }) => (method === 'GET' ? [path] : [])));
  for (const { method, path } of routes) if (method === 'POST' && !pagePaths.has(path)) app.get(path, replies.formPage);
  app.setNotFoundHandler((request, reply) => replies.fail(request, reply, notFound()));
  app.setErrorHandler((error, request, reply) => replies.fail(request, reply, error));
  return listen(app, address);
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

/** The handlers that turn routes and errors into replies. */
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
    const result = await replyOf(route, visit);
    if (result.kind !== 'events') return send(reply, visit, result);
    return send(reply, visit, { ...result, events: whileAllowed(route, request, result.events) });
  }

  /** Ends the events when the session ends or the role is taken away. */
  async function* whileAllowed({ access }: Route, request: FastifyRequest, events: AsyncIterable<unknown>) {
    for await (const event of events) {
      if (!isAllowed(access, (await callerOf(request))?.account.roles ?? null)) return;
      yield event;
    }
  }

  /** Returns the reply of the route. If the request is refused, returns the page of the form, with the reason on top. */
  async function replyOf(route: Route, visit: Visit): Promise<Reply> {
    try {
      return await route.handle(visit, ports);
    } catch (error) {
      const isRefusal = error instanceof OperatorError && !(error instanceof NotFoundError);
      if (route.refused === undefined || !isRefusal) throw error;
      const shown = await route.refused({ ...visit, refusal: error }, ports);
      if (shown.kind !== 'page') return shown;
      // Without `refresh`: loading the address of a form again would not show this page.
      const body = html`${refusalTag(error, ports)} ${shown.body}`;
      return page(shown.title, body, { status: shown.status ?? refusalStatus(error) });
    }
  }

  async function callerOf({ cookies }: FastifyRequest): Promise<Caller | null> {
    const token = cookies[sessionCookie];
    return token === undefined ? null : ports.sessions.find(token);
  }

  function visitOf(request: FastifyRequest, reply: FastifyReply, caller: Caller | null): Visit {
    // Split by hand: a URL parser takes a part of `//elsewhere` for the host.
    const [path = '', ...rest] = request.url.split('?');
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort(new Refused(400, 'the browser has gone')));
    return {
      path,
      params: request.params as Readonly<Record<string, string>>,
      query: new URLSearchParams(rest.join('?')),
      form: request.body instanceof URLSearchParams ? request.body : new URLSearchParams(),
      caller,
      origin: originOf(request, address),
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

  function send(reply: FastifyReply, visit: Visit, result: Reply): FastifyReply {
    reply.header('Cache-Control', 'no-store');
    switch (result.kind) {
      case 'page': {
        const { title, body, status = 200, refresh } = result;
        return reply.code(status).type(htmlType).send(documentFor(visit, { title, body, refresh }));
      }
      case 'redirect': {
        if (result.cookie !== undefined) setSession(reply, result.cookie.token);
        if (result.ticket !== undefined) {
          reply.setCookie(ticketCookie, result.ticket, { path: '/', httpOnly: true, secure: true, sameSite: 'lax' });
        }
        // 303 makes the browser load the page with GET, so that going back or reloading sends nothing twice.
        return reply.redirect(headerText(result.to), 303);
      }
      case 'onward': {
        if (result.cookie !== undefined) setSession(reply, result.cookie.token);
        reply.clearCookie(ticketCookie, { path: '/', secure: true });
        const body = html`<p><a href="${result.to}">Go on</a></p>`;
        return reply.type(htmlType).send(documentFor(visit, { title: 'You are signed in', body, onward: result.to }));
      }
      case 'file': {
        const name = encodeURIComponent(result.name);
        return reply
          .type(result.type)
          .header('Content-Disposition', `attachment; filename*=UTF-8''${name}`)
          .send(Readable.from(result.chunks, { objectMode: false }));
      }
      case 'picture':
        return reply.type('image/svg+xml').send(result.svg);
      case 'events':
        return reply
          .type('text/event-stream')
          .header('X-Accel-Buffering', 'no')
          .send(Readable.from(eventLines(result.events), { objectMode: false }));
    }
  }

  async function fail(request: FastifyRequest, reply: FastifyReply, error: unknown): Promise<FastifyReply> {
    const { status, body, title } = failureOf(request, error, ports);
    // If the accounts cannot be read, the page is shown without a caller. Refused requests are not looked up at all.
    const caller = error instanceof Refused ? null : await callerOf(request).catch(() => null);
    return send(reply, visitOf(request, reply, caller), page(title, body, { status }));
  }

  return { assets, handle, formPage, fail };
}

/** The request does not come from one of our pages, or the console is stopping. */
class Refused extends Error {
  override readonly name = 'Refused';
  readonly statusCode: number;

  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

/** Describes an error for its page: message and advice of an OperatorError; for a bug, that it is one, and where to look. */
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
    return { status, title: 'This request was refused', body: problemTag(String(message)) };
  }
  log.error({ request: id, stack: redact(stackOf(error)) }, 'a page failed');
  const body = problemTag('This is a bug in admin-mirror.', `Its log has more, under the request ${id}.`);
  return { status: 500, title: 'This did not work', body };
}

function forbiddenPage({ caller, path, link }: Visit): Reply {
  if (caller === null) {
    const problem = problemTag(
      'You are not signed in.',
      'Your session may have ended. Nothing was done. Sign in, then do it again.',
    );
    return page('Sign in first', html`${problem} ${anchor(link('/sign-in', { next: path }), 'Sign in')}`, {
      status: 401,
    });
  }
  const why = `Your roles are: ${caller.account.roles.join(', ') || 'none'}.`;
  const advice = 'An admin can give you another one on the page People.';
  return page('You may not see this', problemTag(why, advice), { status: 403 });
}

/** Encodes an address for a header, since the client may have written anything into it. */
function headerText(address: string): string {
  return address.replaceAll(/[^\x21-\x7e]/gu, encodeURIComponent);
}

function setSession(reply: FastifyReply, token: string | null): void {
  const options = { path: '/', httpOnly: true, secure: true, sameSite: 'strict' } as const;
  if (token === null) reply.clearCookie(sessionCookie, options);
  else reply.setCookie(sessionCookie, token, options);
}

async function* eventLines(events: AsyncIterable<unknown>): AsyncGenerator<string> {
  // How soon a browser connects again after it lost the connection, ms.
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
    // Empty if no file was chosen.
    const name = (part.filename as string | undefined) ?? '';
    yield { field: part.fieldname, name, bytes: wholeFile(part.file, name), fields };
    // A file that nobody reads would block the next one, and the reply, for ever.
    part.file.resume();
  }
}

/** Turns errors of the form parser into refusals: a malformed form is not a bug of ours. */
async function* readOf<T>(read: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* read;
  } catch (error) {
    if (error instanceof Error && 'statusCode' in error) throw error;
    throw new Refused(400, 'the form is malformed, or ends too early');
  }
}

/** Yields the file. Throws if it is too large: the stream just ends then, and nobody must take half a sheet for a whole one. */
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

/**
 * Returns why the request cannot come from one of our pages; null if it can. The host reveals a foreign page whose name points to this
 * machine (DNS rebinding); the origin that browsers send reveals a form of another site.
 */
function strangerProblem(request: FastifyRequest, address: ConsoleAddress): string | null {
  const host = URL.parse(`http://${request.headers.host ?? ''}`);
  if (host === null || !isOurName(host.hostname, address)) return 'this console is not known by that name';
  if (request.method === 'GET' || request.method === 'HEAD') return null;
  const site = request.headers['sec-fetch-site'];
  const isOurs = site === undefined ? request.headers.origin === originOf(request, address) : site === 'same-origin';
  return isOurs ? null : 'this console accepts forms only from its own pages';
}

/** Scheme, host and port under which the browser knows the console, in the form of the header Origin. */
function originOf({ headers }: FastifyRequest, { behindProxy, tls }: ConsoleAddress): string {
  return behindProxy?.origin ?? URL.parse(`${tls === null ? 'http' : 'https'}://${headers.host}`)?.origin ?? '';
}

function isOurName(name: string, { host, behindProxy, tls }: ConsoleAddress): boolean {
  if (behindProxy !== null && name === behindProxy.hostname) return true;
  if (name === host || name === `[${host}]`) return true;
  if (isLoopback(host) || behindProxy !== null) return isLoopback(name);
  // With TLS, the certificate has proved the name to the browser.
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
