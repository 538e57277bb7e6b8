/**
 * Signed documents of canonical JSON, such as receipts and certificates. They have one line for the whole, one for each part,
 * and one for the signature. They are written and checked line by line, so they can have any size. Nothing in them is believed
 * before the signature is verified. The key pair (Ed25519) lies beside the journal: `receipt.key`, readable by its owner alone,
 * and `receipt.pub` for those who check. Section "Receipts" of docs/architecture.md.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type Hash,
  type KeyObject,
  randomUUID,
  sign,
  verify,
} from 'node:crypto';
import {
  closeSync,
  createReadStream,
  existsSync,
  fchmodSync,
  fsyncSync,
  linkSync,
  openSync,
  rmSync,
  writeSync,
} from 'node:fs';
import type { z } from 'zod';
import { explainFileError, makeFolder, readRegularFile, refusePlanted, refuseUnfit } from '../model/files.ts';
import { canonical, type Json } from './chain.ts';
import { dirname, join } from 'node:path';
import { FileError, UsageError } from '../model/errors.ts';

export interface SigningKey {
  /** SHA-256 of the public key (DER), in hexadecimal. */
  readonly id: string;
  /** Returns the Ed25519 signature of the text, in hexadecimal. */
  readonly sign: (text: string) => string;
}

export interface CheckingKey {
  readonly id: string;
  readonly fits: (text: string, signature: string) => boolean;
}

export function keyFiles(journal: string): { readonly signing: string; readonly checking: string } {
  return { signing: join(dirname(journal), 'receipt.key'), checking: join(dirname(journal), 'receipt.pub') };
}

/** Opens the key; makes it if there is none. Throws a FileError if it cannot be used, or if others can read it. */
export function openSigningKey(journal: string): { readonly key: SigningKey; readonly isNew: boolean } {
  const { signing, checking } = keyFiles(journal);
  const isNew = !existsSync(signing) && makeKey(signing, checking);
  const { bytes, mode } = readKeyFile(signing, refusePlanted);
  if ((mode & 0o077) !== 0) {
    throw new FileError(`${signing} can be read by others, who could sign with it`, {
      advice: `Run: chmod 600 ${signing}. If somebody has read it, move it and receipt.pub away: a new pair is made.`,
    });
  }
  const secret = ed25519(() => createPrivateKey(bytes), signing);
  const own = createPublicKey(secret);
  if (!existsSync(checking)) writeKeyFile(checking, own.export({ type: 'spki', format: 'pem' }), 0o644);
  const id = keyId(own);
  if (openCheckingKey(checking).id !== id) {
    throw new FileError(`${checking} is not the public key of ${signing}`, {
      advice: 'Put back the one that belongs to it, or move it away: it is written anew.',
    });
  }
  return { key: { id, sign: (text) => sign(null, Buffer.from(text), secret).toString('hex') }, isNew };
}

/** Reads the public key. Throws a FileError or UsageError if the file has none. */
export function openCheckingKey(file: string): CheckingKey {
  const { bytes } = readKeyFile(file);
  const key = ed25519(() => createPublicKey(bytes), file);
  return {
    id: keyId(key),
    fits: (text, signature) => verify(null, Buffer.from(text), key, Buffer.from(signature, 'hex')),
  };
}

/** Returns false if another process was faster. */
function makeKey(signing: string, checking: string): boolean {
  if (existsSync(checking)) {
    throw new FileError(`${checking} is there, and the key that it belongs to (${signing}) is not`, {
      advice:
        'Put the key back. Where it is lost, keep receipt.pub somewhere else, as it checks what was signed before: then ' +
        'a new pair is made.',
    });
  }
  const { privateKey } = generateKeyPairSync('ed25519');
  return writeKeyFile(signing, privateKey.export({ type: 'pkcs8', format: 'pem' }), 0o600);
}

/** Writes a new key file, whole or not at all. Returns false if there is one by now; that one stays. Throws a FileError. */
export function writeKeyFile(path: string, text: string | Buffer, mode: number): boolean {
  const temporary = join(dirname(path), `.${randomUUID()}.tmp`);
  try {
    makeFolder(dirname(path));
    const handle = openSync(temporary, 'wx', mode);
    try {
      fchmodSync(handle, mode);
      writeSync(handle, text.toString());
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    // A rename would replace a key that another process has just made and already signs with.
    linkSync(temporary, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw explainFileError(error, 'write the key file', path) ?? error;
  } finally {
    rmSync(temporary, { force: true });
  }
}

/**
 * Throws a FileError.
 * @param check throws if the file must not be used
 */
export function readKeyFile(file: string, check: (file: string) => void = () => {}) {
  try {
    check(file);
    return readRegularFile(file);
  } catch (error) {
    throw explainFileError(error, 'read the key file', file) ?? error;
  }
}

function ed25519(read: () => KeyObject, file: string): KeyObject {
  let key: KeyObject | undefined;
  try {
    key = read();
  } catch {
    // The error below replaces this one: the words of OpenSSL help nobody.
  }
  if (key?.asymmetricKeyType === 'ed25519') return key;
  throw new UsageError(`${file} holds no key of Ed25519 in PEM`, {
    advice: 'Public keys are called receipt.pub: `admin-mirror bulk receipt` says where its own lies.',
  });
}

function keyId(key: KeyObject): string {
  return createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest('hex');
}

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

/**
 * Yields the lines of a document with their line breaks. What is signed is the text without line breaks and without
 * `signature`.
 */
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
