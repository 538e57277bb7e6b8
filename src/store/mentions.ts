/** Finds a person in text: names and addresses as whole words, however JSON or a URL spells them. */
import { nameKey } from '../model/identity.ts';
import { isRecord } from '../model/records.ts';
import { escapedPattern } from '../model/text.ts';

/** How many rows of each table were affected; a table without any is left out. */
export type TableCounts = Readonly<Record<string, number>>;

/** A user with every text that identifies them. Never printed, logged or stored. */
export interface Person {
  readonly id: number;
  readonly addresses: readonly string[];
  /** All addresses, user names, first and last names that they have or had. */
  readonly texts: readonly string[];
}

/** A journal of writes that can remove the text about a person; amounts and outcomes stay. */
export interface ForgetJournal {
  /** Removes what identifies the person, down to the last byte in the files. Returns how many rows it changed. */
  forget(person: Person): Promise<TableCounts>;
}

const word = '[\\p{L}\\p{N}_]';

/** Replaces a text about someone who was forgotten. */
export const takenOut = '(taken out: it was about someone who was forgotten)';

/** Returns a function that tells whether a text mentions one of these, in upper or lower case. */
export function mentionsOf(texts: readonly string[]): (text: unknown) => boolean {
  const forms = texts.flatMap((text) => [text, text.normalize('NFC'), text.normalize('NFD')]);
  const spellings = forms.flatMap((text) => [
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

/** Returns a function that tells whether a field such as a receiver holds one of these addresses. */
export function addressesIn(addresses: readonly string[]): (field: unknown) => boolean {
  const wanted = new Set(addresses.map(nameKey));
  // A field may be `Name <address>`, or hold several.
  return (field) => typeof field === 'string' && field.split(/[\s,;<>"]+/).some((part) => wanted.has(nameKey(part)));
}

/** Parses the text as a JSON object; undefined if it is none. */
export function parsedObject(text: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof text !== 'string') return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    return isRecord(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}
