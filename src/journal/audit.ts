/** Who did what: the steps of the chain, each with its row or write. */
import type { Actor } from '../model/actor.ts';
import type { Timestamp } from '../model/time.ts';
import { chunk, type Connection, type JournalTables } from './tables.ts';

export interface AuditFilter {
  readonly since?: Timestamp;
  /** Exclusive. */
  readonly until?: Timestamp;
  /** Any name of the actor: account, job, sudo user, system account, or system account with host. */
  readonly person?: string;
  readonly batch?: string;
  /** Includes steps about whole batches that have a row of this user. */
  readonly user?: number;
}

export type AuditEntry = Readonly<ReturnType<typeof entryOf>>;

/** Yields the entries in the order of the steps, or the newest first. */
export async function* auditEntries(
  connection: Connection,
  filter: AuditFilter,
  order: 'asc' | 'desc' = 'asc',
): AsyncGenerator<AuditEntry> {
  for (let last = order === 'asc' ? 0 : Number.MAX_SAFE_INTEGER; ;) {
    const steps = await stepsAfter(connection, last, order, filter);
    const writes = await writesOf(connection, steps);
    for (const each of steps) {
      const entry = entryOf(each, writes);
      const { name, host, sudoUser, job, account } = entry.actor;
      const names = [account, job, sudoUser, name, `${name}@${host}`];
      if (filter.person !== undefined && !names.includes(filter.person)) continue;
      if (filter.user !== undefined && each.batch === null && entry.user !== filter.user) continue;
      yield entry;
    }
    if (steps.length < chunk) return;
    last = steps.at(-1)?.step ?? last;
  }
}

function stepsAfter(
  connection: Connection,
  last: number,
  order: 'asc' | 'desc',
  { since, until, batch, user }: AuditFilter,
) {
  let steps = connection
    .selectFrom('journal_steps as s')
    .leftJoin('journal_intents as i', (join) => join.onRef('i.batch', '=', 's.batch').onRef('i.row', '=', 's.row'))
    .leftJoin('journal_batches as b', 'b.batch', 's.batch')
    .select(['s.step', 's.at', 's.actor', 's.kind', 's.batch', 's.row', 's.data', 's.note'])
    .select(['i.user', 'i.parameters', 'i.state', 'i.evidence', 'i.recordId'])
    .select(['b.action', 'b.title', 'b.state as batchState'])
    .where('s.step', order === 'asc' ? '>' : '<', last)
    .orderBy('s.step', order)
    .limit(chunk);
  if (since !== undefined) steps = steps.where('s.at', '>=', since);
  if (until !== undefined) steps = steps.where('s.at', '<', until);
  if (batch !== undefined) steps = steps.where('s.batch', '=', batch);
  if (user !== undefined) {
    const batches = connection.selectFrom('journal_intents').select('batch').where('user', '=', user);
    steps = steps.where((eb) =>
      eb.or([
        eb('i.user', '=', user),
        // A step about a whole batch is about each of its rows.
        eb.and([eb('s.row', 'is', null), eb('s.batch', 'in', batches)]),
        // For a write by hand or a forgotten user, the step's data names the user; `auditEntries` checks it.
        eb('s.batch', 'is', null),
      ]),
    );
  }
  return steps.execute();
}

type FoundStep = Awaited<ReturnType<typeof stepsAfter>>[number];
type Write = Pick<JournalTables['journal_writes'], 'user' | 'operation' | 'state' | 'body'>;

async function writesOf(connection: Connection, steps: readonly FoundStep[]): Promise<ReadonlyMap<number, Write>> {
  const numbers = steps.flatMap(({ batch, data }) => (batch === null ? (memberOf(data, 'write') ?? []) : []));
  const named = numbers.filter((each) => typeof each === 'number');
  if (named.length === 0) return new Map();
  const rows = connection.selectFrom('journal_writes').select(['write', 'user', 'operation', 'state', 'body']);
  return new Map((await rows.where('write', 'in', named).execute()).map((each) => [each.write, each]));
}

function entryOf(each: FoundStep, writes: ReadonlyMap<number, Write>) {
  const { step, at, kind, batch, row, data, note } = each;
  const actor = JSON.parse(each.actor) as Actor;
  const common = { step, at, actor, kind, batch, title: each.title, row, note: note ?? accountWords(data) };
  const number = memberOf(data, 'write');
  const write = typeof number === 'number' ? writes.get(number) : undefined;
  if (write !== undefined) {
    const { user, operation: action, state, body } = write;
    return { ...common, user, action, ...moneyIn(body), state, evidence: null, recordId: null };
  }
  const [user, what] = [memberOf(data, 'user'), memberOf(data, 'what')];
  return {
    ...common,
    user: each.user ?? (typeof user === 'number' ? user : null),
    /** Such as `balance` or `users.update-balance`; null if the step is about no write. */
    action: each.action ?? (typeof what === 'string' ? what : null),
    ...moneyIn(each.parameters),
    /** The current state of the row, write or batch. */
    state: row === null ? each.batchState : each.state,
    evidence: each.evidence,
    recordId: each.recordId,
  };
}

function memberOf(json: string, name: string): unknown {
  return (JSON.parse(json) as Readonly<Record<string, unknown>>)[name];
}

function moneyIn(json: string | null): { readonly type: string | null; readonly amount: string | null } {
  const none = { type: null, amount: null };
  if (json === null) return none;
  try {
    const value = JSON.parse(json) as Readonly<Record<string, unknown>> | null;
    const text = (each: unknown): string | null =>
      typeof each === 'string' || typeof each === 'number' ? String(each) : null;
    const amount = text(value?.['amount']);
    return amount === null ? none : { type: text(value?.['type']), amount };
  } catch {
    return none;
  }
}

/** Returns the account that a step is about, with what the step changed; null for a step about no account. */
function accountWords(data: string): string | null {
  const { account, roles, add, remove, os_users: users } = JSON.parse(data) as Readonly<Record<string, unknown>>;
  if (typeof account !== 'string') return null;
  const listed = (words: string, value: unknown): string[] =>
    Array.isArray(value) && value.length > 0 ? [`${words} ${value.join(', ')}`] : [];
  const system =
    users === undefined ? [] : [`os user ${users === null ? 'not said' : (users as string[]).join(', ') || 'none'}`];
  const said = [...listed('roles', roles), ...listed('added', add), ...listed('removed', remove), ...system];
  return said.length === 0 ? account : `${account}: ${said.join('; ')}`;
}
