/**
 * Whether a message went to a user, by the list of those that did: what was there before, what is there now, and which
 * of the new ones is the row's. Pure. Section "Settling" of docs/architecture.md.
 */
import type { ApiRecord } from '../../api/envelope.ts';
import type { AnswerKind } from '../../journal/port.ts';
import type { Judgement, Marks, Sighting, Target } from '../action.ts';
import { mayHaveLost, tokenAtEnd } from '../token.ts';
import { nameOf, textOf, textsOf } from './user-with.ts';

/** Ids of records, or all of a record where it has none. */
export interface ListSighting extends Sighting {
  /** Whether the server shows the list, so that what is not in it is not there. */
  readonly shown: boolean;
  /** With the row's token. */
  readonly hits: readonly string[];
  /** Without a token that is another's, and saying what the row says. */
  readonly alike: readonly string[];
  readonly others: readonly string[];
  /** Tokens of other rows in those that say what the row says. */
  readonly marks: Marks['others'];
}

export const hiddenList = { shown: false, hits: [], alike: [], others: [], marks: [] } as const;

/** The tokens in what was seen. */
export function marksOf({ hits, marks }: Pick<ListSighting, 'hits' | 'marks'>): Marks {
  return { own: hits.length > 0, others: marks };
}

/** Sorts the records of a list. */
export function sortedOut(
  records: readonly ApiRecord[],
  token: string,
  saysTheSame: (record: ApiRecord) => boolean,
): Pick<ListSighting, 'hits' | 'alike' | 'others' | 'marks'> {
  const hits = new Set<string>();
  const alike = new Set<string>();
  const others = new Set<string>();
  const marks: { token: string; at: string | null }[] = [];
  for (const record of records) {
    const texts = textsOf(record);
    const found = texts.flatMap((text) => tokenAtEnd(text) ?? []);
    const name = nameOf(record);
    const same = saysTheSame(record);
    if (found.includes(token)) hits.add(name);
    else if (same && texts.every((text) => mayHaveLost(text, token))) alike.add(name);
    else others.add(name);
    if (same)
      for (const each of found) if (each !== token) marks.push({ token: each, at: textOf(record['created_at']) });
  }
  return { hits: [...hits], alike: [...alike], others: [...others], marks };
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
    const [recordId = null] = now.hits;
    return { kind: 'applied', evidence: 'token', after, note: `the ${kind} with ${token} is there`, recordId };
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
    const [recordId = null] = alike;
    return { kind: 'applied', evidence: 'record', after, note: `a new ${kind} says what the row says`, recordId };
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
