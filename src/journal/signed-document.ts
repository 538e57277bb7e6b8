/**
 * Documents of canonical JSON that are signed, such as receipts and certificates: a line for what is said of the whole, one
 * for each of its parts, and one for the signature. They are written and checked line by line, so that their size does not
 * matter, and nothing in them is believed before the signature fits. Section "Receipts" of docs/architecture.md.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { z } from 'zod';
import { refuseUnfit } from '../model/files.ts';
import { canonical, type Json } from './chain.ts';
import type { SigningKey } from './signing-key.ts';

/** The members of a document: what is said of the whole, under the name of its kind, and the list of its parts. */
export interface DocumentForm {
  readonly kind: string;
  readonly parts: string;
}

const headPartsOf = ({ kind, parts }: DocumentForm): readonly [string, string] => [`{"${kind}":`, `,"${parts}":[`];

export function jsonOf(value: object): string {
  return canonical(value as { readonly [name: string]: Json });
}

/** What is signed of something with this hash; it says what that is, so that neither passes for another. */
export function signedText(what: string, digest: Hash): string {
  return canonical({ [what]: digest.digest('hex') });
}

function signatureLine(signature: string): string {
  return `],"signature":${canonical({ algorithm: 'Ed25519', value: signature })}}`;
}

/** The lines of a document with their breaks; without these and without `signature` it is what is signed. */
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

/** The texts as bytes, in pieces of some size. */
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

/** What is not laid out as such a document is. */
export class NoDocument extends Error {}

/** Far above any part, and any plan that is wrong from the first row to the last. */
const longestLine = 64 * 1024 * 1024;

/** The lines of a file of UTF-8, each of which ends with a line break. */
export class LineReader {
  number = 0;
  /** Of all bytes before the line that was read last. */
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
      throw new NoDocument('this is no UTF-8');
    }
  }

  async end(): Promise<void> {
    if ((await this.#lines.next()).done === true) return;
    this.number += 1;
    throw new NoDocument('something stands behind the end');
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
  /** How a line of the document is written where it stands; as it is unless given. */
  readonly written?: (line: string) => string;
}

/**
 * Reads a document from its first line on: what it says of the whole, its parts as they come, and, once these were taken, what
 * was signed with the signature. Throws NoDocument at the first line that is not as such a document is written.
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
      // Only the last one has none.
      if (end === '' && !line.startsWith(']')) throw new NoDocument('a part too many');
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

/** The JSON between two parts of a line. Throws where it is not of that shape, or not written as the document writes it. */
function jsonIn<T>(
  line: string,
  [before, after]: readonly [string, string],
  shape: z.ZodType<T>,
  { kind, written, digest }: { kind: string; written: (text: string) => string; digest: Hash },
): T {
  if (!line.startsWith(before) || !line.endsWith(after)) throw new NoDocument(`this is no line of a ${kind}`);
  let value: Json;
  try {
    value = JSON.parse(line.slice(before.length, line.length - after.length)) as Json;
  } catch {
    throw new NoDocument('this is no JSON');
  }
  const plain = `${before}${canonical(value)}${after}`;
  // Of two members with one name, or two ways to write a number, programs would see different things.
  if (written(plain) !== line) throw new NoDocument(`this is not written as a ${kind} writes it`);
  digest.update(plain);
  const read = shape.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new NoDocument(`${issue?.path.join('.') ?? 'it'} is not what stands in a ${kind}`);
}

export function signatureIn(line: string, kind: string, written: (signature: string) => string): string {
  const signature = /[0-9a-f]{128}/.exec(line)?.[0] ?? '';
  if (signature === '' || written(signature) !== line) throw new NoDocument(`this is no signature of a ${kind}`);
  return signature;
}

const longestValue = 80;

/**
 * The first member of `own` that is another in `said`: `state is "applied" in it and "rejected" in the journal`; null where all
 * are the same. A document of another version may have more members, or fewer.
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
