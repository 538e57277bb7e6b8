/** Takes keys and passwords out of what somebody may read, and out of answers before anybody does. */
import {
  formsOf,
  passwordsTold,
  withoutForms,
  withoutPasswordFields,
  withoutPasswords,
} from '../model/secret-words.ts';
import type { HttpMethod } from '../model/operations.ts';
import type { HttpHeaders } from './http.ts';

export type Redact = (text: string) => string;

/** Replaces the key in each of its forms by `****`, and passwords that stand under their name. */
export function redactorOf(key: string): Redact {
  const forms = formsOf(key);
  return (text) => withoutPasswords(withoutForms(text, forms));
}

/** The same, for secrets besides. */
export function redactorWith(redact: Redact, words: readonly string[]): Redact {
  if (words.length === 0) return redact;
  const forms = words.flatMap(formsOf);
  return (text) => redact(withoutForms(text, forms));
}

/** A key that is shorter may be a word that stands in a record. */
const shortestInBodies = 12;

/**
 * A page of records is looked through for fields called passwords by the end of that word: it begins with a rare letter,
 * so that a page costs some tenths of a millisecond, and ten times as much where one looks for its beginning.
 */
const passwordMarks = ['word', 'WORD'];
const fieldEnd = /^word(?:_?[a-z]{1,12})?\\*"\s*:/i;
const longestEnd = 24;

function hasPasswordField(body: Buffer): boolean {
  return passwordMarks.some((mark) => {
    for (let at = body.indexOf(mark); at !== -1; at = body.indexOf(mark, at + mark.length)) {
      if (fieldEnd.test(body.toString('latin1', at, at + longestEnd))) return true;
    }
    return false;
  });
}

/**
 * What takes secrets out of the answers of a server as they come in, so that nothing behind it can pass them on: the key,
 * and where records are read the value of fields that are called passwords. All other bytes stay as they are. The answer
 * to a write is looked at once more, by `scrubbedOf`.
 */
export function bodyScrubber(key: string): (body: Buffer, method: HttpMethod) => Buffer {
  const forms = key.length < shortestInBodies ? [] : formsOf(key);
  return (body, method) => {
    const named = method === 'GET' && hasPasswordField(body);
    if (!named && !forms.some((form) => body.includes(form))) return body;
    return rewritten(body, (text) => {
      const clean = withoutForms(text, forms);
      return named ? withoutPasswordFields(clean) : clean;
    });
  };
}

/** The answer to a write without those words, and without a password that a sentence of it tells. */
export function scrubbedOf(body: Buffer, words: readonly string[]): Buffer {
  // What it tells under the name of a password, it may tell in its other words as well.
  const told = passwordsTold(body.toString('utf8'));
  // Bytes are taken for letters, so those that are not touched stay what they are.
  const forms = [...words, ...told].flatMap(formsOf).map((form) => Buffer.from(form).toString('latin1'));
  return rewritten(body, (text) => withoutPasswords(withoutForms(text, forms)));
}

function rewritten(body: Buffer, change: Redact): Buffer {
  const text = body.toString('latin1');
  const clean = change(text);
  if (clean === text) return body;
  // Memory of its own: it may be handed to another thread.
  const bytes = Buffer.allocUnsafeSlow(clean.length);
  bytes.write(clean, 'latin1');
  return bytes;
}

/** The headers without the key. */
export function scrubbedHeaders(headers: HttpHeaders, key: string): HttpHeaders {
  const clean = (text: string): string => text.replaceAll(key, '****');
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      if (value === undefined) return [name, undefined];
      return [name, typeof value === 'string' ? clean(value) : value.map(clean)];
    }),
  );
}

/** An error's own words without the key: a fresh error, because the original may hold the request in its fields. */
export function causeOf(error: unknown, redact: Redact): Error {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const code = codeOf(error);
  const cause = new Error(redact(code === undefined || text.includes(code) ? text : `${text} (${code})`));
  // Its stack would point here; where the original came from is the network.
  cause.stack = cause.message;
  return cause;
}

/** The `code` of an error of Node.js or undici: `ECONNREFUSED`, `UND_ERR_SOCKET`. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
