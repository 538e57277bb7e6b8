/**
 * Signed documents of canonical JSON, such as receipts and certificates. They have one line for the whole, one for each part,
 * and one for the signature. They are written and checked line by line, so they can have any size. Nothing in them is believed
 * before the signature is verified. Section "Receipts" of docs/architecture.md.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { z } from 'zod';
import { refuseUnfit } from '../model/files.ts';
import { canonical, type Json } from './chain.ts';
import type { CheckingKey, SigningKey } from './signing-key.ts';

/** The two members of a document: `kind` holds what is said of the whole, `parts` the list of parts. */
export interface DocumentForm {
  readonly kind: string;
  readonly parts: string;
}

const headPartsOf = ({ kind, parts }: DocumentForm): readonly [string, string] => [`{"${kind}":`, `,"${parts}":[`];

export function jsonOf(value: object): string {
  return canonical(value as { readonly [name: string]: Json });
}

/** Returns the text to sign for something with this hash. It names the kind, so that one kind cannot pass for another. */
export function signedText(what: string, digest: Hash): string {
  return canonical({ [what]: digest.digest('hex') });
}

function signatureLine(signature: string): string {
  return `],"signature":${canonical({ algorithm: 'Ed25519', value: signature })}}`;
}

/** Yields the lines with their line breaks. The signed text is without line breaks and without `signature`. */
export async function* documentLines(
  form: DocumentForm,
  head: object,
  parts: AsyncIterable<object> | Iterable<object>,
  key: SigningKey,
): AsyncGenerator<string> {
  const digest = createHash('sha256');
  const line = (text: string): string => {
    digest.update(text);
    return `${text}\n`;
  };
  yield line(headPartsOf(form).join(jsonOf(head)));
  let last: string | undefined;
  for await (const part of parts) {
    if (last !== undefined) yield line(`${last},`);
    last = jsonOf(part);
  }
  if (last !== undefined) yield line(last);
  digest.update(']}');
  yield `${signatureLine(key.sign(signedText(form.kind, digest)))}\n`;
}

const pieceLength = 64 * 1024;

/** Joins the texts into larger pieces of bytes. */
export async function* inPieces(texts: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  let piece = '';
  for await (const text of texts) {
    piece += text;
    if (piece.length < pieceLength) continue;
    yield Buffer.from(piece);
    piece = '';
  }
  yield Buffer.from(piece);
}

/** The file does not have the form of such a document. */
export class NoDocument extends Error {}

/** Far above any part, and above any plan in which every row is wrong. */
const longestLine = 64 * 1024 * 1024;

/** Reads a UTF-8 file line by line. Every line must end with a line break. */
export class LineReader {
  number = 0;
  /** The hash of all bytes before the line that was read last. */
  readonly before: Hash = createHash('sha256');
  readonly #lines: AsyncGenerator<Buffer>;
  #last: Buffer | undefined;

  constructor(file: string, signal: AbortSignal) {
    this.#lines = linesOf(file, signal);
  }

  async next(): Promise<string> {
    if (this.#last !== undefined) this.before.update(this.#last).update('\n');
    this.number += 1;
    const { value, done } = await this.#lines.next();
    if (done === true) throw new NoDocument('the file ends too early');
    this.#last = value;
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value);
    } catch {
      throw new NoDocument('this is not UTF-8');
    }
  }

  async end(): Promise<void> {
    if ((await this.#lines.next()).done === true) return;
    this.number += 1;
    throw new NoDocument('there is something after the end');
  }

  async close(): Promise<void> {
    await this.#lines.return(undefined);
  }
}

async function* linesOf(file: string, signal: AbortSignal): AsyncGenerator<Buffer, undefined> {
  refuseUnfit(file);
  let parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of createReadStream(file, { signal }) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', from)) {
      yield Buffer.concat([...parts, chunk.subarray(from, end)]);
      from = end + 1;
      [parts, length] = [[], 0];
    }
    parts.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > longestLine) throw new NoDocument('a line is longer than any can be');
  }
  if (length > 0) throw new NoDocument('the line break at its end is missing');
}

interface Shapes<Head, Part> {
  readonly head: z.ZodType<Head>;
  readonly part: z.ZodType<Part>;
  /** Returns how this line of the document is written in the file; by default unchanged. */
  readonly written?: (line: string) => string;
}

/**
 * Reads a document, beginning with its first line: its head, its parts as they come, and after the last part the signed text
 * and the signature. Throws NoDocument at the first line that is not written as in such a document.
 */
export function readDocument<Head, Part>(
  lines: LineReader,
  first: string,
  form: DocumentForm,
  { head, part, written = (line) => line }: Shapes<Head, Part>,
) {
  const digest = createHash('sha256');
  const at = { kind: form.kind, written, digest };
  let signed: { readonly text: string; readonly signature: string } | undefined;
  async function* parts(): AsyncGenerator<Part> {
    let line = await lines.next();
    while (!line.startsWith(']')) {
      const end = line.endsWith(',') ? ',' : '';
      yield jsonIn(line, ['', end], part, at);
      line = await lines.next();
      // Only the last part has no comma.
      if (end === '' && !line.startsWith(']')) throw new NoDocument('a comma is missing, or there is a part too many');
    }
    digest.update(']}');
    const signature = signatureIn(line, form.kind, (value) => written(signatureLine(value)));
    signed = { text: signedText(form.kind, digest), signature };
  }
  return {
    head: jsonIn(first, headPartsOf(form), head, at),
    parts: parts(),
    signed: () => {
      if (signed === undefined) throw new Error('the document was not read to its end');
      return signed;
    },
  };
}

/** Returns the JSON between `before` and `after`. Throws if it has another shape, or is not written in canonical form. */
function jsonIn<T>(
  line: string,
  [before, after]: readonly [string, string],
  shape: z.ZodType<T>,
  { kind, written, digest }: { kind: string; written: (text: string) => string; digest: Hash },
): T {
  if (!line.startsWith(before) || !line.endsWith(after)) throw new NoDocument(`this is not a line of a ${kind}`);
  let value: Json;
  try {
    value = JSON.parse(line.slice(before.length, line.length - after.length)) as Json;
  } catch {
    throw new NoDocument('this is not JSON');
  }
  const plain = `${before}${canonical(value)}${after}`;
  // Two members with one name, or two ways to write a number, would let programs read different things.
  if (written(plain) !== line) throw new NoDocument(`this is not written as a ${kind} writes it`);
  digest.update(plain);
  const read = shape.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new NoDocument(`${issue?.path.join('.') ?? 'it'} is not what stands in a ${kind}`);
}

export function signatureIn(line: string, kind: string, written: (signature: string) => string): string {
  const signature = /[0-9a-f]{128}/.exec(line)?.[0] ?? '';
  if (signature === '' || written(signature) !== line) throw new NoDocument(`this is not a signature of a ${kind}`);
  return signature;
}

/** Returns why the signatures of a document do not hold; empty if they do. */
export function signatureProblems(
  key: CheckingKey,
  { key_id: id }: { readonly key_id: string },
  signed: readonly { readonly text: string; readonly signature: string; readonly what: string }[],
): string[] {
  if (id !== key.id) return [`it is signed with the key ${id}, and the public key here is ${key.id}`];
  const wrong = signed.find(({ text, signature }) => !key.fits(text, signature));
  return wrong === undefined ? [] : [`the signature does not fit: something that ${wrong.what} was changed`];
}

const longestValue = 80;

/**
 * Describes the first member of `own` that differs in `said`: `state is "applied" in it and "rejected" in the journal`. Null if
 * none does. Members that only one of them has are ignored: a document of another version may have more or fewer.
 * @param where what `own` was read from
 */
export function firstDifference(said: object, own: object, where: string): string | null {
  const short = (value: unknown): string => {
    const words = canonical((value ?? null) as Json);
    return words.length > longestValue ? `${words.slice(0, longestValue)}…` : words;
  };
  const saidMembers = said as Readonly<Record<string, unknown>>;
  for (const [name, value] of Object.entries(own)) {
    const other = saidMembers[name];
    if (other === undefined || jsonOf({ is: other }) === jsonOf({ is: value })) continue;
    return `${name} is ${short(other)} in it and ${short(value)} in ${where}`;
  }
  return null;
}
