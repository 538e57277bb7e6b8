/** The sandbox's other side: what a test, or a person through the control routes, can see and set. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { timingSafeEqual } from 'node:crypto';
import { Readable } from 'node:stream';
import { UsageError } from '../model/errors.ts';
import { suggestion } from '../model/nearest.ts';
import { isResourceName, type ResourceName, resourceNames } from '../model/resources.ts';
import { parseDay, parseInstant, startOfDay } from '../model/time.ts';
import { type Behaviour, readBehaviour, switches } from './behaviour.ts';
import {
  behaviourOf,
  type Chaos,
  chaosNames,
  type ChurnCounts,
  churnNow,
  insertRecord,
  removeRecord,
  updateRecord,
} from './churn.ts';
import type { ScriptedFault } from './faults.ts';
import type { Parent } from './related.ts';
import { fromJson, type JsonRecord, toJson } from './envelope.ts';
import type { ServerParts } from './server.ts';
import type { SandboxState } from './sandbox.ts';

export interface ClockReading {
  /** The sandbox's time, in ms since 1970. */
  readonly now: number;
  readonly frozen: boolean;
}

export type SandboxControl = ReturnType<typeof createControl>;

function readTime(time: number | string): number {
  if (typeof time === 'number' && Number.isFinite(time)) return time;
  const text = String(time);
  const day = parseDay(text);
  const ms = day === undefined ? parseInstant(text) : startOfDay(day);
  if (ms === undefined) {
    throw new UsageError(`the sandbox's clock was set to "${text}", which is no time`, {
      advice: 'Write it like 2026-03-11T10:00:00Z, or as milliseconds since 1970.',
    });
  }
  return ms;
}

/** The control over a running sandbox. */
export function createControl(parts: ServerParts) {
  const { state } = parts;
  const reading = (): ClockReading => ({ now: state.clock.now(), frozen: state.clock.frozen() });
  const parentOf = (parent: Parent, id: number): JsonRecord => {
    const record = state.tables[parent].get(id);
    if (record === undefined) throw new UsageError(`the sandbox has no record ${id} in ${parent}`);
    return record;
  };
  return {
    behaviour: () => state.behaviour,
    /** Sets some switches; the others stay. Throws UsageError for a name or value that is not known. */
    setBehaviour: (values: Partial<Behaviour>): Behaviour =>
      (state.behaviour = { ...state.behaviour, ...readBehaviour(values) }),
    setChaos: (chaos: Chaos): Behaviour => (state.behaviour = behaviourOf(chaos)),
    clock: reading,
    /** Sets the time: ms since 1970, or ISO 8601. It runs on from there unless frozen. */
    setClock: (time: number | string, { frozen = false }: { readonly frozen?: boolean } = {}): ClockReading => {
      state.clock.set(readTime(time), frozen);
      return reading();
    },
    advanceClock: (ms: number): ClockReading => {
      state.clock.advance(ms);
      return reading();
    },
    /** Every record in the order of ids, as the API serves it when nothing goes wrong. */
    dump: (resource: ResourceName) => Array.from(state.tables[resource].everyBody(), fromJson),
    count: (resource: ResourceName) => state.tables[resource].count(),
    get: (resource: ResourceName, id: number) => state.tables[resource].get(id),
    /** Adds a record; what is not given is generated. */
    insert: (resource: ResourceName, fields: JsonRecord = {}) => insertRecord(state, resource, fields),
    /** Changes some fields, and `updated_at` with them. */
    update: (resource: ResourceName, id: number, fields: JsonRecord) => updateRecord(state, resource, id, fields),
    /** Takes a record away without the API's rules; false where there is none. */
    remove: (resource: ResourceName, id: number) => removeRecord(state, resource, id),
    /** Related records of a user or a package, oldest first. */
    related: (parent: Parent, id: number, kind: string) => state.related.list(parent, parentOf(parent, id), kind),
    /** Puts exactly these in the place of all of that kind. */
    setRelated: (parent: Parent, id: number, kind: string, records: readonly JsonRecord[]): void => {
      parentOf(parent, id);
      state.related.replace(parent, id, kind, records);
    },
    churn: (resource: ResourceName, counts: ChurnCounts) => churnNow(state, resource, counts),
    /** Exact faults for the next requests that match. */
    faultNext: (faults: ScriptedFault | readonly ScriptedFault[]): void => parts.faults.script([faults].flat()),
    clearFaults: (): void => parts.faults.clear(),
    /** Makes the writes now that `commit_late` has put off; says how many. */
    commitLate: () => parts.late.now(),
    /** Every write that was made through the API, in order. */
    ledger: () => state.ledger.entries(),
    requests: () => parts.log.counts(),
    clearRequests: (): void => parts.log.clear(),
  };
}

interface Place {
  readonly resource?: string;
  readonly id?: string;
  readonly kind?: string;
}

function resourceIn(params: unknown): ResourceName {
  const name = (params as Place).resource ?? '';
  if (!isResourceName(name)) {
    throw new UsageError(`the sandbox has no resource "${name}"`, { advice: suggestion(name, resourceNames) });
  }
  return name;
}

function parentIn(params: unknown): Parent {
  const name = resourceIn(params);
  if (name === 'users' || name === 'packages') return name;
  throw new UsageError(`the sandbox keeps no related records of ${name}`);
}

function idIn(params: unknown): number {
  const text = (params as Place).id ?? '';
  if (!/^\d{1,15}$/.test(text)) throw new UsageError(`"${text}" is not a record's id`);
  return Number(text);
}

/** Every record, written piece by piece: a million of them do not fit into one text. */
function* dumpPieces(state: SandboxState, resource: ResourceName): Generator<string> {
  let piece = '[';
  let separator = '';
  for (const body of state.tables[resource].everyBody()) {
    piece += separator + body;
    separator = ',\n';
    if (piece.length > 65_536) {
      yield piece;
      piece = '';
    }
  }
  yield `${piece}]`;
}

function send(reply: FastifyReply, value: unknown): FastifyReply {
  const json = reply.header('content-type', 'application/json');
  return json.send(value instanceof Readable ? value : toJson(value));
}

/** Why the request is refused: whoever has the control sees and changes everything. */
function refusalOf({ headers }: FastifyRequest, url: string, key: string): { status: number; message: string } | null {
  // A web page of elsewhere whose name was made to mean this machine would come with that name.
  const { host, port } = new URL(url);
  if (headers.host !== host && headers.host !== `localhost:${port}`) {
    return { status: 403, message: `the control routes are at ${host} alone` };
  }
  const [given, expected] = [Buffer.from(headers.authorization ?? ''), Buffer.from(`Bearer ${key}`)];
  if (given.length === expected.length && timingSafeEqual(given, expected)) return null;
  return { status: 401, message: 'the control routes need the control key that the sandbox prints at its start' };
}

/** For requests with that key. What is refused gets 400 and the reason. */
export function addControlRoutes(
  app: FastifyInstance,
  control: SandboxControl,
  state: SandboxState,
  controlKey: string,
): void {
  const add = (
    method: 'GET' | 'PUT' | 'POST' | 'DELETE' | 'PATCH',
    url: string,
    response: (body: JsonRecord, params: unknown) => unknown,
  ): void => {
    app.route({
      method,
      url: `/control${url}`,
      // Before the body is read.
      onRequest: async (request, reply) => {
        const refusal = refusalOf(request, state.url, controlKey);
        if (refusal !== null) return send(reply.code(refusal.status), { message: refusal.message });
      },
      handler: async (request, reply) => {
        try {
          return send(reply, response((request.body ?? {}) as JsonRecord, request.params) ?? { done: true });
        } catch (error) {
          if (!(error instanceof UsageError)) throw error;
          return send(reply.code(400), { message: error.message, advice: error.advice ?? null });
        }
      },
    });
  };
  add('GET', '/switches', () => switches);
  add('GET', '/behaviour', () => control.behaviour());
  add('PUT', '/behaviour', (body) => control.setBehaviour(body));
  add('PUT', '/chaos', (body) => {
    const name = String(body['chaos']);
    if (!(chaosNames as readonly string[]).includes(name)) {
      throw new UsageError(`the sandbox has no preset "${name}"`, { advice: suggestion(name, chaosNames) });
    }
    return control.setChaos(name as Chaos);
  });
  add('GET', '/clock', () => control.clock());
  add('POST', '/clock', (body) => {
    if (typeof body['advance'] === 'number') return control.advanceClock(body['advance']);
    return control.setClock(body['now'] as number | string, { frozen: body['frozen'] === true });
  });
  add('POST', '/records/:resource', (body, params) => control.insert(resourceIn(params), body));
  add('GET', '/records/:resource/:id', (_, params) => control.get(resourceIn(params), idIn(params)) ?? null);
  add('PUT', '/records/:resource/:id', (body, params) => control.update(resourceIn(params), idIn(params), body));
  add('DELETE', '/records/:resource/:id', (_, params) => ({
    removed: control.remove(resourceIn(params), idIn(params)),
  }));
  const relatedUrl = '/related/:resource/:id/:kind';
  const kindIn = (params: unknown): string => (params as Place).kind ?? '';
  add('GET', relatedUrl, (_, params) => control.related(parentIn(params), idIn(params), kindIn(params)));
  add('PUT', relatedUrl, (body, params) =>
    control.setRelated(parentIn(params), idIn(params), kindIn(params), (body['records'] ?? []) as JsonRecord[]),
  );
  add('POST', '/churn/:resource', (body, params) => ({
    changes: control.churn(resourceIn(params), body),
  }));
  add('POST', '/faults', (body) => control.faultNext((body['faults'] ?? []) as ScriptedFault[]));
  add('DELETE', '/faults', () => control.clearFaults());
  add('POST', '/late', () => ({ committed: control.commitLate() }));
  add('GET', '/ledger', () => control.ledger());
  add('GET', '/requests', () => control.requests());
  add('DELETE', '/requests', () => control.clearRequests());
  add('GET', '/count/:resource', (_, params) => ({ count: control.count(resourceIn(params)) }));
  add('GET', '/dump/:resource', (_, params) => Readable.from(dumpPieces(state, resourceIn(params))));
}
