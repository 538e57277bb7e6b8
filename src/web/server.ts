/**
 * The console over HTTP: checks each request, finds its route and caller, and sends the reply. The pages are in pages/; routes.ts says
 * who may see them. Section "The console" of docs/architecture.md.
 */
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { OperatorError, stackOf } from '../model/errors.ts';
import { systemError } from '../model/files.ts';
import { minuteMs } from '../model/time.ts';
import { type ConsoleAddress, limits, listen, openApp, originOf, Refused, strangerProblem } from './app.ts';
import { uploadsOf } from './form-files.ts';
import { documentOf, type Frame, loadAssets } from './frame.ts';
import { anchor, html, problemTag, refusalStatus, refusalTag } from './html.ts';
import {
  type Caller,
  type ConsolePorts,
  isAllowed,
  notFound,
  NotFoundError,
  page,
  type Reply,
  type Route,
  type Visit,
} from './route.ts';
import { routes as allRoutes } from './routes.ts';

const htmlType = 'text/html; charset=utf-8';

/** The only cookie that the browser sends when it comes back from the provider, which is another site. It works once. */
const ticketCookie = '__Host-admin-mirror-oidc';

/** Because of the prefix, a browser accepts it only over a secure connection, from this host, for all paths. */
const sessionCookie = '__Host-admin-mirror';

/** Starts to listen. Throws a UsageError if the address is not safe, and a FileError if a file cannot be read. */
export async function listenFor(address: ConsoleAddress, ports: ConsolePorts) {
  const app = await openApp(address);
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
      const body = html`${refusalTag(error, ports, visit.params['batch'])} ${shown.body}`;
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
    return documentOf({
      ...page,
      visit,
      routes,
      assets,
      server: serverName,
      environment: ports.settings.environment,
      isReadOnly: address.isReadOnly,
    });
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

function queryText(query: Readonly<Record<string, string | number | null | undefined>>): string {
  const given = Object.entries(query).flatMap(([name, value]): [string, string][] =>
    value === null || value === undefined || value === '' ? [] : [[name, String(value)]],
  );
  return given.length === 0 ? '' : `?${String(new URLSearchParams(given))}`;
}
