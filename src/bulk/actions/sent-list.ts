/**
 * Whether a message went to a user, by the list of those that did: what was there before, what is there now, and which
 * of the new ones is the row's. Pure. Section "Settling" of docs/architecture.md.
 */
import { stringifyExactly } from '../../api/exact-json.ts';
import type { ApiRecord } from '../../api/envelope.ts';
import type { AnswerKind } from '../../store/ports/journal.ts';
import type { Judgement, Sighting, Target } from '../action.ts';
import { tokenPartIn } from '../token.ts';

/** Ids of records, or all of a record where it has none. */
export interface ListSighting extends Sighting {
  /** Whether the server shows the list, so that what is not in it is not there. */
  readonly shown: boolean;
  /** With the row's token. */
  readonly hits: readonly string[];
  /** Without a token that is another's, and saying what the row says. */
  readonly alike: readonly string[];
  readonly others: readonly string[];
}

export const hiddenList = { shown: false, hits: [], alike: [], others: [] } as const;

/** Sorts the records of a list. */
export function sortedOut(
  records: readonly ApiRecord[],
  token: string,
  saysTheSame: (record: ApiRecord) => boolean,
): Pick<ListSighting, 'hits' | 'alike' | 'others'> {
  const hits = new Set<string>();
  const alike = new Set<string>();
  const others = new Set<string>();
  for (const record of records) {
    const text = stringifyExactly(record);
    const part = tokenPartIn(text);
    const name = nameOf(record);
    if (text.includes(token)) hits.add(name);
    else if (saysTheSame(record) && (part === undefined || token.startsWith(part))) alike.add(name);
    else others.add(name);
  }
  return { hits: [...hits], alike: [...alike], others: [...others] };
}

function nameOf(record: ApiRecord): string {
  const id = record['id'];
  return typeof id === 'string' || typeof id === 'number' || typeof id === 'bigint'
    ? String(id)
    : stringifyExactly(record);
}

/** @param kind what the list holds: `email` */
export function judgeList(
  { token }: Pick<Target, 'token'>,
  before: ListSighting,
  now: ListSighting,
  answer: AnswerKind | null,
  kind: string,
): Judgement {
  const after = null;
  if (now.hits.length > 1) return overApplied('token', `${now.hits.length} ${kind}s carry ${token}`, kind);
  if (now.hits.length === 1) {
    return { kind: 'applied', evidence: 'token', after, note: `the ${kind} with ${token} is there` };
  }
  if (!now.found) {
    const note = 'the user is not there any more';
    return answer === 'refused'
      ? { kind: 'absent', evidence: 'answer', after, note }
      : { kind: 'unclear', after, note };
  }
  if (!before.shown || !now.shown) {
    return answer === 'accepted'
      ? { kind: 'applied', evidence: 'answer', after, note: `the server said so; it shows no ${kind}s` }
      : { kind: 'unclear', after, note: `the server shows no ${kind}s` };
  }
  const alike = newOnes(before, now.alike);
  if (alike.length > 1) return overApplied('record', `${alike.length} new ${kind}s say what the row says`, kind);
  if (alike.length === 1) {
    return { kind: 'applied', evidence: 'record', after, note: `a new ${kind} says what the row says` };
  }
  const others = newOnes(before, now.others);
  if (others.length === 0) return { kind: 'absent', evidence: 'record', after, note: `there is no new ${kind}` };
  // The server may have written it down in other words than it was sent.
  if (answer === 'accepted' && others.length === 1) {
    return { kind: 'applied', evidence: 'record', after, note: `one new ${kind}, in other words than were sent` };
  }
  return { kind: 'unclear', after, note: `${others.length} new ${kind}s in other words than were sent` };
}

function overApplied(evidence: 'token' | 'record', note: string, kind: string): Judgement {
  const reversal = `an ${kind} that was sent cannot be taken back`.replace(/^an (?=[^aeiou])/, 'a ');
  return { kind: 'over_applied', evidence, after: null, note, reversal };
}

/** Those that were not there; a list that is cut to its newest shows an older one again where another one went. */
function newOnes(before: ListSighting, names: readonly string[]): string[] {
  const old = new Set([...before.hits, ...before.alike, ...before.others]);
  const numbers = [...old].map(Number).filter(Number.isSafeInteger);
  const oldest = numbers.length === old.size ? Math.min(...numbers) : -Infinity;
  return names.filter((name) => !old.has(name) && (old.size === 0 || !(Number(name) < oldest)));
}
