/** The HTTP server: routes, authentication, faults. Other files implement the operations. */
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { setTimeout } from 'node:timers/promises';
import qs from 'qs';
import { type Operation, operationOf, type OperationName, operations } from '../model/operations.ts';
import { isRecord } from '../model/records.ts';
import { resourceOf, userRelations } from '../model/resources.ts';
import { churnBefore } from './churn.ts';
import { failsByChance, losesAnswer } from './faults.ts';
import type { RateLimit, RequestLog } from './host.ts';
import type { Condition } from './date-filter.ts';
import { listResponse, type Query, servedRecord } from './lists.ts';
import {
  forbidden,
  noSuchRoute,
  notFound,
  Refusal,
  serverError,
  unauthenticated,
  type Response,
  type JsonRecord,
  toJson,
} from './envelope.ts';
import type { SandboxState } from './sandbox.ts';
import { changeBalance, createUser, deleteUser, sendEmail, sendNotification, updateUser, userOf } from './users.ts';
import { messageOf } from '../model/errors.ts';
import { wordsIn } from '../model/text.ts';

export interface OperationRequest {
  readonly user: string;
  readonly query: Query;
  readonly body: JsonRecord;
  /** The condition for the parameter `date` of a list, if it is not the usual one. */
  readonly dates?: Condition;
}

/** A request on its way to its operation. */
export interface Exchange {
  readonly operation: Operation;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly given: OperationRequest;
  /** Checks and performs the request, or another one in its place. Throws a Refusal. */
  readonly perform: (given?: OperationRequest) => Response;
}

/**
 * Stands between the requests and the server, and bends what comes and goes. Returns the response to send; undefined if it has
 * answered the request itself.
 */
export type Between = (exchange: Exchange, state: SandboxState) => Response | undefined;

function wrapped(json: string, message?: string): string {
  const note = message === undefined ? '' : `,"message":${toJson(message)}`;
  return `{"status":true${note},"data":${json}}`;
}

function userJson(state: SandboxState, record: JsonRecord, relations: readonly string[], message?: string): string {
  return wrapped(servedRecord(state, resourceOf('users'), toJson(record), relations), message);
}

function requestedRelations(query: Query): string[] {
  return userRelations.filter((name) => {
    const value = query[name];
    return value !== undefined && value !== '0' && value !== 'false';
  });
}

/** Returns the user to whom the key belongs: the one with the lowest id. */
function keyOwner(state: SandboxState): JsonRecord {
  const owner = state.tables.users.from(1);
  if (owner === undefined) throw notFound('User', 1);
  return owner;
}

/** Performs the operation and returns its response. Throws a Refusal. */
function perform(state: SandboxState, name: OperationName, request: OperationRequest): Response {
  const target = (): JsonRecord => userOf(state, request.user);
  const done = (body: string, status = 200): Response => ({ status, body });
  switch (name) {
    case 'users.list':
    case 'packages.list':
    case 'emails.list':
    case 'coupons.list':
      return listResponse(state, resourceOf(operationOf(name).resource), request.query, request.dates);
    case 'users.auth':
      return done(userJson(state, keyOwner(state), []));
    case 'users.get':
      return done(userJson(state, target(), requestedRelations(request.query)));
    case 'users.orders':
    case 'users.payments': {
      const kind = name === 'users.orders' ? 'orders' : 'payments';
      return done(wrapped(toJson(state.related.list('users', target(), kind))));
    }
    case 'users.create':
      return done(userJson(state, createUser(state, request.body), ['address'], 'The user was created.'), 201);
    case 'users.update':
      return done(userJson(state, updateUser(state, target(), request.body), [], 'The user was updated.'));
    case 'users.delete':
      deleteUser(state, target(), request.body);
      return done('{"status":true,"message":"The user was deleted."}');
    case 'users.update-balance':
      return done(userJson(state, changeBalance(state, target(), request.body), [], 'The balance was updated.'));
    case 'users.send-email':
      return done(wrapped(toJson(sendEmail(state, target(), request.body)), 'The email was sent.'));
    case 'users.send-notification': {
      const notification = toJson(sendNotification(state, target(), request.body));
      return done(wrapped(notification, 'The notification was sent.'));
    }
  }
}

export interface ServerParts {
  readonly state: SandboxState;
  readonly rate: RateLimit;
  readonly log: RequestLog;
  readonly between: Between | undefined;
}

/** Bodies of the API are small; the bound keeps a mistake from filling the memory. */
const maxBodyBytes = 16 * 1024 * 1024;

function sendRefusal(reply: FastifyReply, { status, headers, body }: Refusal): void {
  void reply
    .headers({ ...headers })
    .code(status)
    .header('content-type', 'application/json')
    .send(toJson(body));
}

function authenticate(state: SandboxState, request: FastifyRequest): void {
  const given = /^Bearer\s+(\S.*)$/i.exec(request.headers.authorization ?? '')?.[1];
  if (given !== state.key) throw unauthenticated();
}

function checkPermission(state: SandboxState, operation: Operation): void {
  const refusedNames = wordsIn(state.behaviour.forbidden);
  if (refusedNames.includes(operation.resource) || refusedNames.includes(operation.name)) throw forbidden();
}

function checkMaintenance(state: SandboxState): void {
  if (!state.behaviour.maintenance) return;
  throw new Refusal(503, { message: 'Service Unavailable' }, { 'retry-after': '1' });
}

function operationRequestOf({ body, params, query }: FastifyRequest): OperationRequest {
  const { user = '' } = params as { user?: string };
  return { user, query: query as Query, body: isRecord(body) ? body : {} };
}

/** Performs a write in a transaction, so that a refusal half way leaves nothing behind. */
function performAtomically(state: SandboxState, operation: Operation, request: OperationRequest): Response {
  if (operation.method === 'GET') return perform(state, operation.name, request);
  return state.db.transaction(() => perform(state, operation.name, request))();
}

/** Serves one request. Throws a Refusal. */
function serve(
  { state, rate, between }: ServerParts,
  operation: Operation,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  if (failsByChance(state, reply)) return;
  const given = operationRequestOf(request);
  const checked = (asked = given): Response => {
    checkMaintenance(state);
    authenticate(state, request);
    reply.headers(rate.take(state));
    checkPermission(state, operation);
    if (operation.paginated) churnBefore(state, operation.resource);
    return performAtomically(state, operation, asked);
  };
  const response =
    between === undefined ? checked() : between({ operation, request, reply, given, perform: checked }, state);
  if (response === undefined || (operation.method !== 'GET' && losesAnswer(state, reply))) return;
  void reply.code(response.status).header('content-type', 'application/json').send(response.body);
}

async function delay(parts: ServerParts): Promise<void> {
  const { latency, latency_jitter: jitter } = parts.state.behaviour;
  const wait = latency + (jitter > 0 ? parts.state.chance.fraction() * jitter : 0);
  if (wait > 0) await setTimeout(wait);
}

function addRoute(app: FastifyInstance, parts: ServerParts, operation: Operation): void {
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
      // The header follows the sandbox's clock, not this machine's.
      reply.header('date', new Date(parts.state.clock.now()).toUTCString());
      try {
        serve(parts, operation, request, reply);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        sendRefusal(reply, error);
      }
      return reply;
    },
  });
}

/** A body that is not JSON counts as empty, as with servers of this API: the rules then say what is missing. */
function addParsers(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'string' }, (request, body, done) => {
    const text = String(body);
    const isForm = /x-www-form-urlencoded/.test(request.headers['content-type'] ?? '');
    if (isForm) return done(null, qs.parse(text));
    try {
      return done(null, text.trim() === '' ? {} : JSON.parse(text));
    } catch {
      return done(null, {});
    }
  });
}

/** Creates the server with all operations. It does not listen yet. */
export function createServer(parts: ServerParts): FastifyInstance {
  const app = Fastify({
    forceCloseConnections: true,
    exposeHeadRoutes: false,
    bodyLimit: maxBodyBytes,
    routerOptions: {
      ignoreTrailingSlash: true,
      maxParamLength: 1_000,
      querystringParser: (text) => qs.parse(text, { depth: 2, parameterLimit: 1_000, arrayLimit: 100 }),
    },
  });
  addParsers(app);
  for (const operation of operations) addRoute(app, parts, operation);
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?')[0] ?? '';
    sendRefusal(reply, noSuchRoute(path));
  });
  app.setErrorHandler((error, _request, reply) => {
    const message = messageOf(error);
    sendRefusal(reply, serverError(message));
  });
  return app;
}
