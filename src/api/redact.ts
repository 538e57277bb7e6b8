/** Removes keys and passwords from messages, and from responses before anything else reads them. */
import { isUtf8 } from 'node:buffer';
import { formsOf, hiderOf, mayHoldPasswordField, passwordsGiven, withoutPasswords } from '../model/secret.ts';
import type { HttpMethod } from '../model/operations.ts';
import { pieceBytes } from '../model/memory.ts';
import type { HttpHeaders } from './http.ts';

export type Redact = (text: string) => string;

/** Returns a function that replaces the key, in each of its forms, and the values of password fields by `****`. */
export function redactorOf(key: string): Redact {
  const hide = hiderOf([key]);
  return (text) => withoutPasswords(hide(text));
}

/** Extends the redactor by more secrets. */
export function redactorWith(redact: Redact, secrets: readonly string[]): Redact {
  if (secrets.length === 0) return redact;
  const hide = hiderOf(secrets);
  return (text) => redact(hide(text));
}

/** A shorter key is not looked for in bodies: it may be an ordinary word of a record. */
const shortestKeyInBodies = 12;

/**
 * Returns functions that remove secrets from responses as they come in, so that no later code can pass them on: the key, and
 * in reads the values of password fields. The JSON stays otherwise the same, byte for byte. A page of a thousand records takes a millisecond. `scrubbedOf` does more for the response to a write.
 */
export function bodyScrubber(key: string) {
  const hide = key.length < shortestKeyInBodies ? (text: string) => text : hiderOf([key]);
  // The content is cut after `memberEnd`: a key that contains it could be split over two pieces.
  const isInOnePiece = !formsOf(key).some((form) => form.includes(memberEnd));
  return {
    scrub: (body: string, method: HttpMethod): string => (method === 'GET' ? withoutPasswords(hide(body)) : hide(body)),
    /** Whether the bytes are UTF-8 without a byte order mark in which `scrub` would change nothing. May be false in doubt. */
    isClean: (content: Buffer): boolean => {
      if (!isInOnePiece || !isUtf8(content) || content[0] === byteOrderMark[0]) return false;
      return piecesOf(content).every((piece) => hide(piece) === piece && !mayHoldPasswordField(piece));
    },
  };
}

export type BodyScrubber = ReturnType<typeof bodyScrubber>;

const byteOrderMark = Buffer.from('\uFEFF');

const memberEnd = '",';

/** Yields the bytes as texts (only ASCII is decoded right), cut after members of objects, so that no field name is split. */
function* piecesOf(content: Buffer): Generator<string, undefined> {
  for (let from = 0; from < content.length;) {
    const end = content.indexOf(memberEnd, from + pieceBytes);
    const to = end === -1 ? content.length : end + memberEnd.length;
    yield content.toString('latin1', from, to);
    from = to;
  }
}

/** Removes the secrets, and the passwords that the body itself gives, from the response to a write. */
export function scrubbedOf(body: string, secrets: readonly string[]): string {
  // A password in a field may be repeated elsewhere in the body.
  const hide = hiderOf([...secrets, ...passwordsGiven(body)]);
  return withoutPasswords(hide(body));
}

/** Redacts the values of the headers. */
export function scrubbedHeaders(headers: HttpHeaders, redact: Redact): HttpHeaders {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      if (value === undefined) return [name, undefined];
      return [name, typeof value === 'string' ? redact(value) : value.map(redact)];
    }),
  );
}
