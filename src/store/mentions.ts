/** Finding a person in text: names and addresses as whole words, however JSON or a URL spells them. */
import { isRecord } from '../model/records.ts';
import { escapedPattern } from '../model/text.ts';

/** Rows that something was done to, by table; a table with none is left out. */
export type TableCounts = Readonly<Record<string, number>>;

/** Someone of the users, with every text that identifies them. Never printed, logged or stored. */
export interface Person {
  readonly id: number;
  readonly addresses: readonly string[];
  /** Addresses, user names, first and last names, now and before. */
  readonly texts: readonly string[];
}

/** A journal of writes that can take the text about a person out of itself; amounts and outcomes stay. */
export interface ForgetJournal {
  /** Takes out what identifies the person, and leaves no byte of it in the files; counts rows by table. */
  forget(person: Person): Promise<TableCounts>;
}

const word = '[\\p{L}\\p{N}_]';

/** Stands in the place of a text about someone who was forgotten. */
export const takenOut = '(taken out: it was about someone who was forgotten)';

/** A function that says whether a text holds one of these, whatever the case. */
export function mentionsOf(texts: readonly string[]): (text: unknown) => boolean {
  const spellings = texts.flatMap((text) => [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text.toWellFormed()),
  ]);
  const distinct = [...new Set(spellings.filter((text) => text.trim() !== ''))];
  if (distinct.length === 0) return () => false;
  const any = distinct.map(escapedPattern).join('|');
  const pattern = new RegExp(`(?<!${word})(?:${any})(?!${word})`, 'iu');
  return (text) => typeof text === 'string' && pattern.test(text);
}

/** A function that says whether one of these addresses stands in a field such as a receiver. */
export function addressesIn(addresses: readonly string[]): (field: unknown) => boolean {
  const wanted = new Set(addresses.map((address) => address.toLowerCase()));
  // Also as `Name <address>`, and one of several.
  return (field) =>
    typeof field === 'string' &&
    field
      .toLowerCase()
      .split(/[\s,;<>"]+/)
      .some((part) => wanted.has(part));
}

/** The text as an object; undefined where it is none. */
export function parsedObject(text: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof text !== 'string') return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return isRecord(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}
