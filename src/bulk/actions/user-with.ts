/** Reads one user with one kind of related records, as far as the server shows them. Most actions look at a write this way. */
import { recordIn, type ApiRecord } from '../../api/body.ts';
import { stringifyExactly } from '../../api/exact.ts';
import { NotFound } from '../../api/errors.ts';
import { IncompleteError, OperatorError } from '../../model/errors.ts';
import { valueKey } from '../../model/identity.ts';
import { isRecord, recordId } from '../../model/records.ts';
import { secondMs } from '../../model/time.ts';
import type { AnswerKind } from '../../journal/port.ts';
import type { Judgement, LookingClient, Observation, Target } from '../action.ts';
import { shown } from '../sheet/rows.ts';

type Relation = 'balance_transactions' | 'notifications';

/**
 * The same client, except that it throws an IncompleteError for a response from a cache in front of the server. Such a response does
 * not show what was written since, so a row that was made would look as if it had not been.
 */
export function withoutCache<C extends Pick<LookingClient, 'getUser' | 'list'>>(client: C) {
  const given = <R extends { readonly ageMs?: number }>(response: R): R => {
    const { ageMs = 0 } = response;
    if (ageMs === 0) return response;
    throw new IncompleteError(
      `a cache in front of the server gave a response that was ${ageMs / secondMs} s old, although the request forbids that: it does not show what was sent since`,
      { advice: 'Whoever runs the server can exclude /api from the cache. Run this again after that.' },
    );
  };
  return {
    ...client,
    getUser: async (...request: Parameters<LookingClient['getUser']>) => given(await client.getUser(...request)),
    list: async (...request: Parameters<LookingClient['list']>) => given(await client.list(...request)),
  };
}

/**
 * Reads the user, with the related records if the server shows them. Returns null if there is no such user (404), and a record
 * without fields if the server showed another record. Throws the client's other errors.
 */
export async function readUser(
  client: LookingClient,
  { user }: Pick<Target, 'user'>,
  relation: Relation | null,
  signal?: AbortSignal,
): Promise<ApiRecord | null> {
  if (user === null) throw new Error('the row names no user to look at');
  let record: ApiRecord | undefined;
  try {
    record = recordIn((await client.getUser(user, relation === null ? [] : [relation], signal)).body);
  } catch (error) {
    if (error instanceof NotFound) return null;
    throw error;
  }
  if (record === undefined || recordId(record) !== user) return {};
  if (relation === null || relatedIn(record, relation) !== undefined) return record;
  // Only the related records are taken from the list. It may come from an index that lags, and show an old balance.
  return { ...record, ...(await relatedInList(client, record, relation, signal)) };
}

/** The related records from the list: some servers show them there but not with a single user. */
async function relatedInList(
  client: LookingClient,
  record: ApiRecord,
  relation: Relation,
  signal: AbortSignal | undefined,
): Promise<ApiRecord | undefined> {
  const email = record['email'];
  if (typeof email !== 'string' || email === '') return undefined;
  try {
    const { records } = await client.list(
      'users',
      { filters: [{ key: 'email', value: email }], include: [relation], paginate: 15 },
      signal,
      { attempts: 2 },
    );
    const found = records.find((each) => recordId(each) === recordId(record));
    return relatedIn(found ?? null, relation) === undefined ? undefined : { [relation]: found?.[relation] };
  } catch {
    signal?.throwIfAborted();
    // The list is only a second chance: the user's own record is known already.
    return undefined;
  }
}

/** The related records, each once, though a join on the server may repeat them; undefined if the record came without them. */
export function relatedIn(record: ApiRecord | null, relation: Relation): readonly ApiRecord[] | undefined {
  const list = record?.[relation];
  if (!Array.isArray(list)) return undefined;
  // Records without an id are never taken for the same one.
  const named = list
    .filter(isRecord)
    .map((each, at) => [(each['id'] ?? null) === null ? at : stringifyExactly(each), each] as const);
  return [...new Map(named).values()];
}

/**
 * How the server keeps values in another form than they were sent: other capitals, blanks or normal forms. Null if it has exactly
 * these, undefined if it has others.
 */
export function differenceOfForm(sent: Values, there: Values): string | null | undefined {
  const others = Object.entries(sent).filter(([name, value]) => there[name] !== value);
  if (others.some(([name, value]) => valueKey(there[name] ?? '') !== valueKey(value ?? ''))) return undefined;
  if (others.length === 0) return null;
  const words = others.map(([name, value]) => {
    const kept = there[name] ?? '';
    return kept.normalize('NFC') === value?.normalize('NFC')
      ? `${name} in another form of Unicode`
      : `${name} as ${shown(kept)}`;
  });
  return `the server has ${words.join(', ')}`;
}

/** The values of fields; null or missing if empty. */
export type Values = Readonly<Partial<Record<string, string | null>>>;

export const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** Every text of the record, at any depth: it is not documented which field keeps the text of a write. */
export function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

/** The id of the record, or all of it as JSON if it has none. */
export function nameOf(record: ApiRecord): string {
  const id = record['id'];
  return typeof id === 'string' || typeof id === 'number' || typeof id === 'bigint'
    ? String(id)
    : stringifyExactly(record);
}

export function observationOfUser(record: ApiRecord | null): Observation {
  if (record === null) return { found: false, email: null, username: null };
  const another = recordId(record) === undefined ? { another: true as const } : {};
  return { found: true, email: textOf(record['email']), username: textOf(record['username']), ...another };
}

/** The warning with a plan whose lost responses no look can settle. @param lacks what this server does, or does not do */
export function needsPerson(lacks: string): string {
  return `this server ${lacks}: if a response is lost, a person must find out what happened`;
}

export const userGone = 'the user is not there any more';

/** Judges a write to a user who is gone. */
export function judgeMissingUser(response: AnswerKind | null): Judgement {
  return response === 'refused'
    ? { kind: 'absent', evidence: 'answer', after: null, note: userGone }
    : { kind: 'unclear', after: null, note: userGone };
}

/** Whether the server finds another user of its list by id: if not, that a user is not found proves nothing. */
export async function showsAnother(client: LookingClient, user: number | null, signal?: AbortSignal): Promise<boolean> {
  try {
    const { records } = await client.list('users', { paginate: 2 }, signal, { attempts: 2 });
    const other = records.map(recordId).find((id) => id !== undefined && id !== user) ?? null;
    if (other === null) return false;
    return recordId((await readUser(client, { user: other }, null, signal)) ?? {}) === other;
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof OperatorError) return false;
    throw error;
  }
}
