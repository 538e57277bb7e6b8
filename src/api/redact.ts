/** Takes keys and passwords out of what somebody may read, and out of responses before anybody does. */
import { isUtf8 } from 'node:buffer';
import {
  formsOf,
  hiderOf,
  mayHoldPasswordField,
  passwordsGiven,
  withoutPasswordFields,
  withoutPasswords,
  withPlainLetters,
} from '../model/secret.ts';
import type { HttpMethod } from '../model/operations.ts';
import { pieceBytes } from '../model/memory.ts';
import type { HttpHeaders } from './http.ts';

export type Redact = (text: string) => string;

/** Replaces the key in each of its forms by `****`, and passwords that stand under their name. */
export function redactorOf(key: string): Redact {
  const hide = hiderOf([key]);
  return (text) => withoutPasswords(hide(text));
}

/** The same, for secrets besides. */
export function redactorWith(redact: Redact, words: readonly string[]): Redact {
  if (words.length === 0) return redact;
  const hide = hiderOf(words);
  return (text) => redact(hide(text));
}

/** A key that is shorter may be a word that stands in a record. */
const shortestInBodies = 12;

/**
 * What takes secrets out of the responses of a server as they come in, so that nothing behind it can pass them on: the key,
 * and where records are read the value of fields that are called passwords. What JSON means otherwise stays the same, to
 * the byte where no letter is written as an escape. A page of a thousand records takes a millisecond. The response to a
 * write is looked at once more, by `scrubbedOf`.
 */
export function bodyScrubber(key: string) {
  const hide = key.length < shortestInBodies ? (text: string) => text : hiderOf([key]);
  // Pieces are cut there: a key that holds it could be in two of them.
  const isInOnePiece = !formsOf(key).some((form) => form.includes(memberEnd));
  return {
    scrub: (body: string, method: HttpMethod, status: number): string => {
      const clean = hide(withPlainLetters(body));
      return method === 'GET' ? withoutPasswordFields(clean, status < 300) : clean;
    },
    /** Whether the bytes are UTF-8, without a byte order mark, in which `scrub` changes nothing. It may say no where they are. */
    isClean: (content: Buffer): boolean => {
      if (!isInOnePiece || !isUtf8(content) || content[0] === byteOrderMark[0]) return false;
      return piecesOf(content).every((piece) => hide(piece) === piece && !mayHoldPasswordField(piece));
    },
  };
}

export type BodyScrubber = ReturnType<typeof bodyScrubber>;

const byteOrderMark = Buffer.from('\uFEFF');

const memberEnd = '",';

/** The bytes as texts in which ASCII is as it was, cut behind members: no name of a field is in two of them. */
function* piecesOf(content: Buffer): Generator<string, undefined> {
  for (let from = 0; from < content.length;) {
    const end = content.indexOf(memberEnd, from + pieceBytes);
    const to = end === -1 ? content.length : end + memberEnd.length;
    yield content.toString('latin1', from, to);
    from = to;
  }
}

/** The response to a write without those words, and without a password that a sentence of it gives. */
export function scrubbedOf(body: string, words: readonly string[]): string {
  // What it gives under the name of a password, it may repeat elsewhere.
  const hide = hiderOf([...words, ...passwordsGiven(body)]);
  return withoutPasswords(hide(withPlainLetters(body)));
}

/** The headers without the key. */
export function scrubbedHeaders(headers: HttpHeaders, hide: Redact): HttpHeaders {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      if (value === undefined) return [name, undefined];
      return [name, typeof value === 'string' ? hide(value) : value.map(hide)];
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
