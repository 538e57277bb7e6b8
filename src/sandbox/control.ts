/** The control over a running sandbox: what a test, or a person through the control routes, can see and set. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { messageOf, OperatorError, UsageError } from '../model/errors.ts';
import { isResourceName, type ResourceName } from '../model/resources.ts';
import { isSameWord } from '../model/secret.ts';
import { parseDay, parseInstant, startOfDay } from '../model/time.ts';
import { type Behaviour, behaviourOf, type Chaos, chaosNames, readBehaviour, switches } from './behaviour.ts';
import { type ChurnCounts, churnNow, insertRecord, removeRecord, updateRecord } from './churn.ts';
import type { Parent } from './records.ts';
import { fromJson, type JsonRecord, toJson } from './envelope.ts';
import type { ServerParts } from './server.ts';

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
    throw new UsageError(`the sandbox's clock was set to "${text}", which is not a time`, {
      advice: 'Write it like 2026-03-11T10:00:00Z, or as milliseconds since 1970.',
    });
  }
  return ms;
}

export function createControl(parts: ServerParts) {
  const { state } = parts;
  const reading = (): ClockReading => ({ now: state.clock.now(), frozen: state.clock.frozen() });
  // A request to a control route may name anything.
  const checkedName = (name: ResourceName): ResourceName => {
    if (isResourceName(name)) return name;
    throw new UsageError(`the sandbox has no resource "${String(name)}"`);
  };
  const parentOf = (parent: Parent, id: number): JsonRecord => {
    if (parent !== 'users' && parent !== 'packages') {
      throw new UsageError(`the sandbox has no related records of ${String(parent)}`);
    }
    const record = state.tables[parent].get(id);
    if (record === undefined) throw new UsageError(`the sandbox has no record ${id} in ${parent}`);
    return record;
  };
  return {
    /** All switches, with their meanings and defaults. */
    switches: () => switches,
    behaviour: () => state.behaviour,
    /** Sets some switches; the others stay. Throws a UsageError for an unknown name or an invalid value. */
    setBehaviour: (values: Partial<Behaviour>): Behaviour =>
      (state.behaviour = { ...state.behaviour, ...readBehaviour(values) }),
    setChaos: (chaos: Chaos): Behaviour => {
      if (chaosNames.includes(chaos)) return (state.behaviour = behaviourOf(chaos));
      throw new UsageError(`the sandbox has no preset "${chaos}"`);
    },
    clock: reading,
    /** Sets the time (ms since 1970, or ISO 8601), from which the clock runs on unless `frozen`. */
    setClock: (time: number | string, { frozen = false }: { readonly frozen?: boolean } = {}): ClockReading => {
      state.clock.set(readTime(time), frozen);
      return reading();
    },
    advanceClock: (ms: number): ClockReading => {
      state.clock.advance(ms);
      return reading();
    },
    /** Returns all records in the order of ids, as the API serves them when nothing goes wrong. */
    dump: (resource: ResourceName) => Array.from(state.tables[checkedName(resource)].everyBody(), fromJson),
    count: (resource: ResourceName) => state.tables[checkedName(resource)].count(),
    get: (resource: ResourceName, id: number) => state.tables[checkedName(resource)].get(id),
    /** Adds a record. Fields that are not given are generated. */
    insert: (resource: ResourceName, fields: JsonRecord = {}) => insertRecord(state, checkedName(resource), fields),
    /** Changes some fields, and `updated_at` unless it is given. */
    update: (resource: ResourceName, id: number, fields: JsonRecord) =>
      updateRecord(state, checkedName(resource), id, fields),
    /** Removes a record without the API's rules. Returns false if there is none. */
    remove: (resource: ResourceName, id: number) => removeRecord(state, checkedName(resource), id),
    /** Returns the related records of a user or a package, oldest first. */
    related: (parent: Parent, id: number, kind: string) => state.related.list(parent, parentOf(parent, id), kind),
    /** Replaces all related records of that kind by these. */
    setRelated: (parent: Parent, id: number, kind: string, records: readonly JsonRecord[]): void => {
      parentOf(parent, id);
      state.related.replace(parent, id, kind, records);
    },
    churn: (resource: ResourceName, counts: ChurnCounts) => churnNow(state, checkedName(resource), counts),
    /** Returns all writes that were made through the API, in order. */
    ledger: () => state.ledger.entries(),
    requests: () => parts.log.counts(),
    clearRequests: (): void => parts.log.clear(),
  };
}

function send(reply: FastifyReply, value: unknown): FastifyReply {
  return reply.header('content-type', 'application/json').send(toJson(value));
}

/** Returns why the request is refused; null if it is allowed. Whoever has the control sees and changes everything. */
function refusalOf({ headers }: FastifyRequest, url: string, key: string): { status: number; message: string } | null {
  // Against DNS rebinding: a web page whose host name was made to point to this machine sends that name.
  const { host, port } = new URL(url);
  if (headers.host !== host && headers.host !== `localhost:${port}`) {
    return { status: 403, message: `the control routes are only at ${host}` };
  }
  if (isSameWord(headers.authorization ?? '', `Bearer ${key}`)) return null;
  return { status: 401, message: 'the control routes need the control key that the sandbox prints at its start' };
}

/**
 * Adds a route for each function of the control: `POST /control/NAME` with the control key and the arguments as a JSON array. A
 * refused call gets 400 and the reason.
 */
export function addControlRoutes(app: FastifyInstance, control: SandboxControl, url: () => string, key: string): void {
  for (const [name, act] of Object.entries<(...given: never[]) => unknown>(control)) {
    app.post(`/control/${name}`, {
      // Before the body is read.
      onRequest: async (request, reply) => {
        const refusal = refusalOf(request, url(), key);
        if (refusal !== null) return send(reply.code(refusal.status), { message: refusal.message });
      },
      handler: async ({ body }, reply) => {
        try {
          return send(reply, act(...((Array.isArray(body) ? body : []) as never[])) ?? null);
        } catch (error) {
          const advice = error instanceof OperatorError ? error.advice : undefined;
          const message =
            error instanceof TypeError ? `these are not arguments of ${name}: docs/sandbox.md` : messageOf(error);
          return send(reply.code(400), { message, advice: advice ?? null });
        }
      },
    });
  }
}
