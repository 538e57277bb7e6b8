/** The HTTP side: routes, the key, the faults. What an operation does is elsewhere. */
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { setTimeout } from 'node:timers/promises';
import zlib from 'node:zlib';
import qs from 'qs';
import { type Operation, operationOf, type OperationName, operations } from '../model/operations.ts';
import { isRecord } from '../model/records.ts';
import { resourceOf, userRelations } from '../model/resources.ts';
import { churnBefore } from './churn.ts';
import {
  comesBefore,
  failAfter,
  failBefore,
  htmlPage,
  retryAfter,
  type LateWrites,
  type Fault,
  type Faults,
} from './faults.ts';
import { responseList, emptyList, type Query, servedRecord } from './lists.ts';
import type { LoggedRequest, RateLimit, RequestLog } from './request-log.ts';
import {
  forbidden,
  noSuchRoute,
  notFound,
  Refusal,
  serverError,
  unauthenticated,
  type Response,
  fromJson,
  type JsonRecord,
  toJson,
} from './envelope.ts';
import type { SandboxState } from './sandbox.ts';
import { changeBalance, createUser, deleteUser, sendEmail, sendNotification, updateUser, userOf } from './users.ts';
import { messageOf } from '../model/errors.ts';
import { wordsIn } from '../model/text.ts';

interface Kept {
  readonly at: number;
  readonly response: Response;
}

const compressors = {
  gzip: zlib.gzipSync,
  br: zlib.brotliCompressSync,
  deflate: zlib.deflateSync,
  deflate_raw: zlib.deflateRawSync,
  zstd: zlib.zstdCompressSync,
} as const;

function recordsIn({ body }: Response): JsonRecord[] {
  const parsed = fromJson(body.toString());
  const inner = parsed['data'] ?? parsed['user'] ?? parsed;
  const isList = Array.isArray(inner) || !('id' in (inner as JsonRecord));
  return isList ? Object.values(inner as JsonRecord[]) : [inner as JsonRecord];
}

/** Whether the host fails to make the response: too many records, too many bytes, a record that it cannot serialise. */
function breaks({ behaviour }: SandboxState, { resource, method, paginated }: Operation, response: Response): boolean {
  const { page_breaks_over: most, page_breaks_bytes: mostBytes, poisoned } = behaviour;
  if (method !== 'GET' || response.status !== 200) return false;
  if (mostBytes > 0 && Buffer.byteLength(response.body) > mostBytes) return true;
  if (most === 0 && poisoned === '') return false;
  const records = recordsIn(response);
  const bad = new Set(wordsIn(poisoned));
  return (
    (paginated && most > 0 && records.length > most) || records.some(({ id }) => bad.has(`${resource}:${String(id)}`))
  );
}

/** Sends what operations return, as far as the host can make it, and as it comes through what stands in front. */
class Host {
  readonly #kept = new Map<string, Kept>();

  /** Gives the response of the cache where there is one; true where that was sent. */
  sendKept(state: SandboxState, request: FastifyRequest, reply: FastifyReply): boolean {
    const { cache_seconds: seconds, cache_obeys: obeys } = state.behaviour;
    const kept = this.#kept.get(request.url);
    if (seconds === 0 || kept === undefined || request.method !== 'GET') return false;
    if (obeys && /no-cache/.test(request.headers['cache-control'] ?? '')) return false;
    const age = Math.floor((state.clock.now() - kept.at) / 1_000);
    if (age > seconds) return false;
    reply.headers({ age: String(age), date: new Date(kept.at).toUTCString() });
    send(state, reply, kept.response);
    return true;
  }

  send(
    state: SandboxState,
    operation: Operation,
    request: FastifyRequest,
    reply: FastifyReply,
    response: Response,
  ): void {
    const { page_breaks_how: how, cache_seconds: seconds } = state.behaviour;
    if (breaks(state, operation, response)) {
      if (how === 'says_so') return send(state, reply, { status: 200, body: toJson({ message: 'Be right back.' }) });
      return failAfter(state, reply, how, response);
    }
    if (seconds > 0 && request.method === 'GET') this.#kept.set(request.url, { at: state.clock.now(), response });
    return send(state, reply, response);
  }
}

function send({ behaviour }: SandboxState, reply: FastifyReply, response: Response): void {
  const { compression, byte_order_mark: marked } = behaviour;
  reply.code(response.status).header('content-type', 'application/json');
  const body = marked ? Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(response.body)]) : response.body;
  if (compression === 'none') {
    void reply.send(body);
    return;
  }
  reply.header('content-encoding', compression.replace('_raw', ''));
  void reply.send(compressors[compression](body));
}

interface OperationRequest {
  readonly user: string;
  readonly query: Query;
  readonly body: JsonRecord;
}

function wrapped(state: SandboxState, name: string, json: string, message?: string): string {
  const note = message === undefined ? '' : `,"message":${toJson(message)}`;
  switch (state.behaviour.answer_shape) {
    case 'bare':
      return json;
    case 'data':
      return `{"status":true${note},"data":${json}}`;
    case 'named':
      return `{"status":true${note},"${name}":${json}}`;
  }
}

function user(state: SandboxState, record: JsonRecord, relations: readonly string[], message?: string): string {
  return wrapped(state, 'user', servedRecord(state, resourceOf('users'), toJson(record), relations), message);
}

function requestedRelations(query: Query): string[] {
  return userRelations.filter((name) => {
    const value = query[name];
    return value !== undefined && value !== '0' && value !== 'false';
  });
}

/** The key belongs to the user with the lowest id. */
function keyOwner(state: SandboxState): JsonRecord {
  const owner = state.tables.users.from(1);
  if (owner === undefined) throw notFound('User', 1);
  return owner;
}

function responseOperation(state: SandboxState, name: OperationName, request: OperationRequest): Response {
  const found = (): JsonRecord => userOf(state, request.user);
  const done = (body: string, status = 200): Response => ({ status, body });
  switch (name) {
    case 'users.list':
    case 'packages.list':
    case 'emails.list':
    case 'coupons.list':
      return responseList(state, resourceOf(operationOf(name).resource), request.query);
    case 'users.auth':
      return done(user(state, keyOwner(state), []));
    case 'users.get':
      return done(user(state, found(), requestedRelations(request.query)));
    case 'users.orders':
    case 'users.payments': {
      const kind = name === 'users.orders' ? 'orders' : 'payments';
      return done(wrapped(state, kind, toJson(state.related.list('users', found(), kind))));
    }
    case 'users.create':
      return done(user(state, createUser(state, request.body), ['address'], 'The user was created.'), 201);
    case 'users.update':
      return done(user(state, updateUser(state, found(), request.body), [], 'The user was updated.'));
    case 'users.delete':
      deleteUser(state, found(), request.body);
      return done('{"status":true,"message":"The user was deleted."}');
    case 'users.update-balance':
      return done(user(state, changeBalance(state, found(), request.body), [], 'The balance was updated.'));
    case 'users.send-email':
      return done(wrapped(state, 'email', toJson(sendEmail(state, found(), request.body)), 'The email was sent.'));
    case 'users.send-notification': {
      const notification = toJson(sendNotification(state, found(), request.body));
      return done(wrapped(state, 'notification', notification, 'The notification was sent.'));
    }
  }
}

export interface ServerParts {
  readonly state: SandboxState;
  readonly faults: Faults;
  readonly rate: RateLimit;
  readonly log: RequestLog;
  readonly late: LateWrites;
}

/** A body of the API is small; a bound keeps a mistake from filling the memory. */
const mostBodyBytes = 16 * 1024 * 1024;

function wantsJson(request: FastifyRequest): boolean {
  return /[/+]json/.test(request.headers.accept ?? '');
}

/** A refusal as JSON, or as the page or redirect that a browser would get. */
function sendRefusal(state: SandboxState, request: FastifyRequest, reply: FastifyReply, refusal: Refusal): void {
  reply.headers({ ...refusal.headers });
  if (wantsJson(request)) {
    void reply.code(refusal.status).header('content-type', 'application/json').send(toJson(refusal.body));
  } else if (refusal.status === 401 || refusal.status === 422) {
    void reply
      .code(302)
      .header('location', `${state.url}${refusal.status === 401 ? '/login' : '/'}`)
      .send('');
  } else {
    const page = htmlPage(refusal.status, 'Refused');
    void reply.code(refusal.status).header('content-type', 'text/html; charset=UTF-8').send(page);
  }
}

function authenticate(state: SandboxState, request: FastifyRequest): void {
  const given = /^Bearer\s+(.+)$/i.exec(request.headers.authorization ?? '')?.[1];
  if (given !== state.key) throw unauthenticated();
}

function checkPermission(state: SandboxState, operation: Operation): void {
  const refusedNames = wordsIn(state.behaviour.forbidden);
  if (refusedNames.includes(operation.resource) || refusedNames.includes(operation.name)) throw forbidden();
}

function checkMaintenance(state: SandboxState): void {
  if (!state.behaviour.maintenance) return;
  const headers = retryAfter(state, state.behaviour.retry_after_seconds);
  throw new Refusal(503, { message: 'Service Unavailable' }, headers);
}

function requested({ body, params, query }: FastifyRequest): OperationRequest {
  const { user = '' } = params as { user?: string };
  return { user, query: query as Query, body: isRecord(body) ? body : {} };
}

/** Does the operation in one transaction: a refusal half way leaves nothing behind. */
function perform(parts: ServerParts, operation: Operation, request: OperationRequest): Response {
  const { state } = parts;
  if (operation.method === 'GET') return responseOperation(state, operation.name, request);
  return state.db.transaction(() => responseOperation(state, operation.name, request))();
}

/** The response of a write of which nothing is kept. */
function undone(parts: ServerParts, operation: Operation, request: OperationRequest): Response {
  let response: Response | undefined;
  const back = new Error('rolled back');
  try {
    parts.state.db.transaction(() => {
      response = responseOperation(parts.state, operation.name, request);
      throw back;
    })();
  } catch (error) {
    if (error !== back) throw error;
  }
  if (response === undefined) throw back;
  return response;
}

function performFaulty(parts: ServerParts, operation: Operation, request: OperationRequest, fault: Fault): Response {
  if (fault === 'empty_list') return emptyList(parts.state, resourceOf(operation.resource), request.query);
  if (fault === 'lost') return undone(parts, operation, request);
  const response = perform(parts, operation, request);
  return fault === 'commit_twice' ? perform(parts, operation, request) : response;
}

function serve(
  parts: ServerParts,
  operation: Operation,
  request: FastifyRequest,
  reply: FastifyReply,
  entry: LoggedRequest,
  host: Host,
): void {
  const { state } = parts;
  if (host.sendKept(state, request, reply)) return undefined;
  const fault = parts.faults.next(operation.method, request.url, operation.paginated, state.behaviour);
  if (fault !== null) parts.log.failed(entry, fault);
  if (fault !== null && comesBefore(fault)) return failBefore(state, reply, fault);
  checkMaintenance(state);
  authenticate(state, request);
  reply.headers(parts.rate.take(state));
  checkPermission(state, operation);
  if (operation.paginated) churnBefore(state, operation.resource);
  const wanted = requested(request);
  if (fault === 'commit_late') {
    parts.late.add(() => void perform(parts, operation, wanted), state.behaviour.late_commit_ms);
    return failBefore(state, reply, 'reset_before');
  }
  if (fault !== null) return failAfter(state, reply, fault, performFaulty(parts, operation, wanted, fault));
  return host.send(state, operation, request, reply, perform(parts, operation, wanted));
}

async function delay(parts: ServerParts): Promise<void> {
  const { latency, latency_jitter: jitter } = parts.state.behaviour;
  const wait = latency + (jitter > 0 ? parts.state.chance.fraction() * jitter : 0);
  if (wait > 0) await setTimeout(wait);
}

function addRoute(app: FastifyInstance, parts: ServerParts, operation: Operation, host: Host): void {
  app.route({
    method: operation.method,
    url: operation.path.replace('{user}', ':user'),
    handler: async (request, reply) => {
      const { accept, 'content-type': contentType } = request.headers;
      const entry = parts.log.begin({
        at: parts.state.clock.now(),
        method: request.method,
        url: request.url,
        operation: operation.name,
        accept: accept ?? null,
        contentType: contentType ?? null,
      });
      reply.raw.once('close', () => {
        if (reply.raw.writableFinished) parts.log.responded(entry, reply.raw.statusCode);
        parts.log.end();
      });
      await delay(parts);
      // The real time of this machine is not the sandbox's time.
      reply.header('date', new Date(parts.state.clock.now()).toUTCString());
      try {
        serve(parts, operation, request, reply, entry, host);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        sendRefusal(parts.state, request, reply, error);
      }
      return reply;
    },
  });
}

/** Bodies that are no JSON count as empty, as in the API's family: the rules then say what is missing. */
function addParsers(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'string' }, (request, body, done) => {
    const text = String(body);
    const isForm = /x-www-form-urlencoded/.test(request.headers['content-type'] ?? '');
    // What curl says of any body, where nothing else was given.
    if (isForm && !request.url.startsWith('/control/')) return done(null, qs.parse(text));
    try {
      return done(null, text.trim() === '' ? {} : JSON.parse(text));
    } catch {
      return done(null, {});
    }
  });
}

/** The server with every operation on it, not listening yet. */
export function createServer(parts: ServerParts): FastifyInstance {
  const app = Fastify({
    forceCloseConnections: true,
    exposeHeadRoutes: false,
    bodyLimit: mostBodyBytes,
    routerOptions: {
      ignoreTrailingSlash: true,
      maxParamLength: 1_000,
      querystringParser: (text) => qs.parse(text, { depth: 2, parameterLimit: 1_000, arrayLimit: 100 }),
    },
  });
  addParsers(app);
  const host = new Host();
  for (const operation of operations) addRoute(app, parts, operation, host);
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0] ?? '';
    const methods = operations
      .filter((each) => new RegExp(`^${each.path.replace('{user}', '[^/]+')}/?$`).test(path))
      .map((each) => each.method);
    const refusal =
      methods.length === 0
        ? noSuchRoute(path)
        : new Refusal(
            405,
            { message: `The ${request.method} method is not supported for route ${path.slice(1)}.` },
            { allow: methods.join(', ') },
          );
    sendRefusal(parts.state, request, reply, refusal);
  });
  app.setErrorHandler((error, request, reply) => {
    const message = messageOf(error);
    sendRefusal(parts.state, request, reply, serverError(message));
  });
  return app;
}
