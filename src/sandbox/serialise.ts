/**
 * JSON as a PHP server writes it: slashes and everything beyond ASCII escaped. It shares no code with the client, so
 * that a mistake in one cannot hide in the other.
 */

export type JsonRecord = Record<string, unknown>;

const escaped = /[/\u007f-\uffff]/g;

function escape(character: string): string {
  return character === '/' ? '\\/' : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The value as JSON text of ASCII characters. */
export function toJson(value: unknown): string {
  return JSON.stringify(value).replace(escaped, escape);
}

/** One text as a JSON string, quotes included. */
export function toJsonText(text: string): string {
  return toJson(text);
}

export function fromJson(text: string): JsonRecord {
  return JSON.parse(text) as JsonRecord;
}
