/**
 * When two texts name the same user, and when two values say the same. Whatever compares the email or the name of a user compares
 * these keys: a sheet, the mirror and the server may write one address with other letters, and people do not see the difference.
 */
import { escapedPattern, trimmed } from './text.ts';

/** The same for two spellings of an email or a user name: upper and lower case, Unicode's normal forms, blanks around it. */
export function nameKey(text: string): string {
  // After a change of case, the text may be in no normal form. A sigma has two lower cases.
  return trimmed(text.normalize('NFC')).toLowerCase().replaceAll('ς', 'σ').normalize('NFC');
}

/** Whether both name the same user. What is missing names nobody. */
export function sameName(one: string | null | undefined, other: string | null | undefined): boolean {
  return typeof one === 'string' && typeof other === 'string' && nameKey(one) === nameKey(other);
}

/** The spellings to look for on a server whose filter may compare exactly. */
export function spellingsOf(texts: readonly string[]): string[] {
  const lower = texts.map((text) => text.toLowerCase());
  return [...new Set([...texts, ...lower].flatMap((text) => [text, text.normalize('NFC'), text.normalize('NFD')]))];
}

/**
 * A condition of SQL for the rows whose column may have one of these keys, which are a JSON array. It lets other rows pass if their
 * text is not plain, because SQLite lowers ASCII only: compare the `nameKey` of each.
 */
export function mayHaveKeySql(column: string, keys = '?'): string {
  return `(lower(${column}) IN (SELECT value FROM json_each(${keys})) OR ${column} GLOB '*[^!-~]*')`;
}

/** The same for two values of a field that a server may have tidied: case, normal form, blanks around and between words. */
export function valueKey(text: string): string {
  return nameKey(text).replaceAll(/\s+/g, ' ');
}

/** How many rows of each table were affected; a table without any is left out. */
export type TableCounts = Readonly<Record<string, number>>;

/** A user with every text that identifies them. Never printed, logged or stored. */
export interface Person {
  readonly id: number;
  readonly addresses: readonly string[];
  /** All addresses, user names, first and last names that they have or had. */
  readonly texts: readonly string[];
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
