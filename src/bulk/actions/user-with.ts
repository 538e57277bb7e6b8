/** One user with one kind of related records, as far as the server shows them: what looking at most writes begins with. */
import { stringifyExactly } from '../../api/exact-json.ts';
import { recordIn, type ApiRecord } from '../../api/envelope.ts';
import { NotFound } from '../../api/errors.ts';
import { IncompleteError, OperatorError } from '../../model/errors.ts';
import { isRecord, recordId } from '../../model/records.ts';
import { secondMs } from '../../model/time.ts';
import type { AnswerKind } from '../../journal/port.ts';
import type { Judgement, LookingClient, Observation, Target } from '../action.ts';

type Relation = 'balance_transactions' | 'notifications';

/**
 * The same client without what a cache in front of the server has kept: whatever was written since does not show in it, so a row
 * that was made would look as if it had not been. Such a response throws an IncompleteError.
 */
export function withoutCache<C extends Pick<LookingClient, 'getUser' | 'list'>>(client: C) {
  const given = <R extends { readonly ageMs?: number }>(response: R): R => {
    const { ageMs = 0 } = response;
    if (ageMs === 0) return response;
    throw new IncompleteError(
      `a cache in front of the server gave a response that was ${ageMs / secondMs} s old, against the request: what was sent since does not show in it`,
      { advice: 'Whoever runs the server can take /api out of the cache. Run this again after that.' },
    );
  };
  return {
    ...client,
    getUser: async (...request: Parameters<LookingClient['getUser']>) => given(await client.getUser(...request)),
    list: async (...request: Parameters<LookingClient['list']>) => given(await client.list(...request)),
  };
}

/**
 * Reads the user, with the related records if they are shown. Null where there is no such user; without fields where
 * another record came than the one requested. Throws what the client throws, but for 404.
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
  // Another record than the one requested says nothing of this one.
  if (record === undefined || recordId(record) !== user) return {};
  if (relation === null || relatedIn(record, relation) !== undefined) return record;
  // The fields stay those of the user alone: a list may come from an index that lags, and show a balance of before.
  return { ...record, ...(await relatedInList(client, record, relation, signal)) };
}

/** The related records out of the list, which some servers give with them where the user alone comes without. */
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
    // What the user alone told is still there.
    return undefined;
  }
}

/** Each once, though a join of the server may show it several times; undefined where the record came without them. */
export function relatedIn(record: ApiRecord | null, relation: Relation): readonly ApiRecord[] | undefined {
  const list = record?.[relation];
  if (!Array.isArray(list)) return undefined;
  // Those that have no id may well be two.
  const named = list
    .filter(isRecord)
    .map((each, at) => [(each['id'] ?? null) === null ? at : stringifyExactly(each), each] as const);
  return [...new Map(named).values()];
}

export const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);

/** Every text of the record, however deep it stands: which of them keeps what a write said is not documented. */
export function textsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsOf) : [];
}

/** What tells the record from others. */
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

/** Of a user who is not there any more. */
export function judgeMissingUser(response: AnswerKind | null): Judgement {
  const note = 'the user is not there any more';
  return response === 'refused'
    ? { kind: 'absent', evidence: 'answer', after: null, note }
    : { kind: 'unclear', after: null, note };
}

/** Whether a user whom the list shows is found by itself. */
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
