/** The HTTP side: routes, the key, the faults. What an operation does is elsewhere. */
import { setTimeout } from 'node:timers/promises';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import qs from 'qs';
import { type Operation, operations } from '../model/operations.ts';
import { resourceOf } from '../model/resources.ts';
import type { Churn } from './churn.ts';
import { comesBefore, failAfter, failBefore, htmlPage, retryAfter } from './effects.ts';
import type { Fault } from './fault-kinds.ts';
import type { Faults } from './faults.ts';
import { Host } from './host.ts';
import type { LateWrites } from './late-writes.ts';
import { emptyList, type Query } from './lists.ts';
import { answerOperation, type OperationRequest } from './operations.ts';
import type { RateLimit } from './rate-limit.ts';
import { forbidden, noSuchRoute, Refusal, serverError, unauthenticated } from './refusal.ts';
import type { LoggedRequest, RequestLog } from './request-log.ts';
import { type JsonRecord, toJson } from './serialise.ts';
import type { Answer, SandboxState } from './state.ts';

/** What the server works with beside the state. */
export interface ServerParts {
  readonly state: SandboxState;
  readonly faults: Faults;
  readonly rate: RateLimit;
  readonly churn: Churn;
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
  if (wantsJson(request) || state.behaviour.missing_accept === 'json') {
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
  const refusedNames = state.behaviour.forbidden.split(',').map((each) => each.trim());
  if (refusedNames.includes(operation.resource) || refusedNames.includes(operation.name)) throw forbidden();
}

function checkMaintenance(state: SandboxState): void {
  if (!state.behaviour.maintenance) return;
  const headers = retryAfter(state, state.behaviour.retry_after_seconds);
  throw new Refusal(503, { message: 'Service Unavailable' }, headers);
}

function bodyOf(request: FastifyRequest): JsonRecord {
  const { body } = request;
  return typeof body === 'object' && body !== null && !Array.isArray(body) ? (body as JsonRecord) : {};
}

function asked(request: FastifyRequest): OperationRequest {
  const { user } = request.params as { user?: string };
  return { user: user ?? '', query: request.query as Query, body: bodyOf(request) };
}

/** Does the operation in one transaction: a refusal half way leaves nothing behind. */
function perform(parts: ServerParts, operation: Operation, request: OperationRequest): Answer {
  const { state } = parts;
  if (operation.method === 'GET') return answerOperation(state, operation.name, request);
  return state.db.transaction(() => answerOperation(state, operation.name, request))();
}

/** The answer of a write of which nothing is kept. */
function undone(parts: ServerParts, operation: Operation, request: OperationRequest): Answer {
  let answer: Answer | undefined;
  const back = new Error('rolled back');
  try {
    parts.state.db.transaction(() => {
      answer = answerOperation(parts.state, operation.name, request);
      throw back;
    })();
  } catch (error) {
    if (error !== back) throw error;
  }
  if (answer === undefined) throw back;
  return answer;
}

function performFaulty(parts: ServerParts, operation: Operation, request: OperationRequest, fault: Fault): Answer {
  if (fault === 'empty_list') return emptyList(parts.state, resourceOf(operation.resource), request.query);
  if (fault === 'lost') return undone(parts, operation, request);
  const answer = perform(parts, operation, request);
  return fault === 'commit_twice' ? perform(parts, operation, request) : answer;
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
  const isList = operation.paginated;
  const fault = parts.faults.next(operation.method, request.url, isList, state.behaviour);
  if (fault !== null) parts.log.failed(entry, fault);
  if (fault !== null && comesBefore(fault)) return failBefore(state, reply, fault);
  checkMaintenance(state);
  authenticate(state, request);
  reply.headers(parts.rate.take(state));
  checkPermission(state, operation);
  if (isList) parts.churn.beforeList(state, operation.resource);
  const wanted = asked(request);
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
        if (reply.raw.writableFinished) parts.log.answered(entry, reply.raw.statusCode);
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
    if (/x-www-form-urlencoded/.test(request.headers['content-type'] ?? '')) return done(null, qs.parse(text));
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
    const message = error instanceof Error ? error.message : String(error);
    sendRefusal(parts.state, request, reply, serverError(message));
  });
  return app;
}
