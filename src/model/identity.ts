/**
 * When two texts name the same user, and when two values say the same. Whatever compares the email or the name of a user compares
 * these keys: a sheet, the mirror and the server may write one address with other letters, and people do not see the difference.
 */
import { trimmed } from './text.ts';

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
