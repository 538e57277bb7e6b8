/**
 * Reads the parts of an .xlsx: their names, their references to each other, and their XML. yauzl reads the archive, saxen the XML. This
 * adds what they leave to their users: limits, checksums, and XML that comes in pieces.
 */
import { Buffer } from 'node:buffer';
import { posix } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { TextDecoder } from 'node:util';
import { crc32 } from 'node:zlib';
import { Parser } from 'saxen';
import { type Entry, fromBufferPromise, type ZipFile } from 'yauzl';
import { messageOf, UsageError } from '../../../model/errors.ts';
import { limits, megabytes, refusal } from '../limits.ts';

interface Relation {
  /** The end of its type, such as `worksheet`: the part before it differs between editions of the standard. */
  readonly kind: string;
  readonly target: string;
}

const damaged = (file: string, cause: unknown): UsageError =>
  refusal(file, `it is damaged: ${messageOf(cause)}`, undefined, cause);

/** Throws a UsageError if the archive is damaged or too large. */
export async function openArchive(file: string, bytes: Buffer, signal: AbortSignal): Promise<Archive> {
  const entries = new Map<string, Entry>();
  let zip: ZipFile;
  let unpacked = 0;
  try {
    // Some programs write `\` in names, and names in another case than where they refer to them. Excel takes both.
    zip = await fromBufferPromise(bytes, { lazyEntries: true, strictFileNames: false });
    if (zip.entryCount > limits.zipEntries)
      throw refusal(file, `it has ${zip.entryCount} parts, more than a sheet has`);
    for await (const entry of zip.eachEntry()) {
      entries.set(entry.fileName.toLowerCase(), entry);
      unpacked += entry.uncompressedSize;
    }
  } catch (error) {
    throw error instanceof UsageError ? error : damaged(file, error);
  }
  if (unpacked > limits.unpackedBytes) {
    const most = megabytes(limits.unpackedBytes);
    throw refusal(file, `it unpacks to ${megabytes(unpacked)}, more than the ${most} that a sheet may have`);
  }
  return new Archive(file, zip, entries, signal);
}

export class Archive {
  readonly file: string;
  readonly #zip: ZipFile;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #signal: AbortSignal;

  constructor(file: string, zip: ZipFile, entries: ReadonlyMap<string, Entry>, signal: AbortSignal) {
    this.file = file;
    this.#zip = zip;
    this.#entries = entries;
    this.#signal = signal;
  }

  has(part: string): boolean {
    return this.#entries.has(part.toLowerCase());
  }

  /** Throws a UsageError if the part is missing, damaged or not plain XML. */
  async scan(part: string, handlers: XmlHandlers, size: 'small' | 'large' = 'small'): Promise<void> {
    const entry = this.#entries.get(part.toLowerCase());
    if (entry === undefined) throw refusal(this.file, `its part ${part} is missing`);
    if (size === 'small' && entry.uncompressedSize > limits.smallPartBytes) {
      throw refusal(this.file, `its part ${part} has ${megabytes(entry.uncompressedSize)}, more than it can need`);
    }
    try {
      await scanXml(this.#unpack(entry), handlers);
    } catch (error) {
      if (error instanceof XmlFault) throw refusal(this.file, `its part ${part} ${error.message}`, undefined, error);
      throw error;
    }
  }

  /** The bytes of a part, piece by piece, with one piece in memory at a time. */
  async *#unpack(entry: Entry): AsyncGenerator<Buffer> {
    let crc = 0;
    try {
      for await (const piece of (await this.#zip.openReadStreamPromise(entry)) as AsyncIterable<Buffer>) {
        crc = crc32(piece, crc);
        yield piece;
        // Lets other work have its turn, and lets whoever waits stop this.
        await setImmediate();
        this.#signal.throwIfAborted();
      }
    } catch (error) {
      this.#signal.throwIfAborted();
      throw new XmlFault(`does not unpack: ${messageOf(error)}`, { cause: error });
    }
    if (crc !== entry.crc32) throw new XmlFault('is not what was packed');
  }

  async relationsOf(part: string): Promise<ReadonlyMap<string, Relation>> {
    const { dir, base } = posix.parse(part);
    const relations = new Map<string, Relation>();
    await this.scan(posix.join(dir, '_rels', `${base}.rels`), {
      open: (name, attributes) => {
        if (name !== 'Relationship') return;
        const { Id: id, Type: type, Target: target, TargetMode: mode } = attributes();
        if (id === undefined || type === undefined || target === undefined || mode === 'External') return;
        // A target is relative to the part's folder, or to the root if it begins with a slash.
        const written = target.replaceAll('\\', '/');
        const path = posix.join('/', written.startsWith('/') ? '' : dir, written).slice(1);
        relations.set(id, { kind: type.slice(type.lastIndexOf('/') + 1), target: path });
      },
    });
    return relations;
  }
}

type Attributes = Readonly<Record<string, string>>;

interface XmlHandlers {
  open(name: string, attributes: () => Attributes): void;
  close?(name: string): void;
  text?(text: string): void;
}

/** A fault of a document. The message follows the name of the document. */
export class XmlFault extends Error {
  override readonly name = 'XmlFault';
}

const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const bare = (name: string): string => name.slice(name.indexOf(':') + 1);

/** Resolves character references. The parser's own decoder does not know characters beyond U+FFFF. */
function decoded(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(/&(?:#x([0-9a-f]{1,5})|#(\d{1,6})|(amp|lt|gt|quot|apos));/g, (_, hex?, decimal?, word = '') => {
    const known = named[word];
    return known ?? String.fromCodePoint(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16));
  });
}

/**
 * Copies the text. A slice of a text keeps all of it in memory, here 64 KB of XML for one cell. V8 copies slices of less than 13
 * characters anyway.
 */
const owned = (text: string): string => (text.length < 13 ? text : Buffer.from(text).toString());

function attributesOf(raw: Record<string, string> | false): Attributes {
  const attributes: Record<string, string> = {};
  for (const [name, value] of Object.entries(raw === false ? {} : raw)) {
    // A namespace is not an attribute, and `xmlns:r` must not hide `r`.
    if (!name.startsWith('xmlns')) attributes[bare(name)] = decoded(value);
  }
  return attributes;
}

/** Throws an XmlFault if the pieces are not XML in UTF-8, which every spreadsheet program writes, or hold a document type. */
async function scanXml(pieces: AsyncIterable<Buffer>, handlers: XmlHandlers): Promise<void> {
  const fail = (reason: string): never => {
    throw new XmlFault(reason);
  };
  /** Characters since the parser last reported something. It keeps them in memory. */
  let unreported = 0;
  let depth = 0;
  const parser = new Parser()
    .on('openTag', (name, attributes) => {
      unreported = 0;
      depth += 1;
      if (depth > limits.xmlDepth) fail(`has tags nested more than ${limits.xmlDepth} deep`);
      handlers.open(bare(name), () => attributesOf(attributes()));
    })
    .on('closeTag', (name) => {
      unreported = 0;
      depth -= 1;
      handlers.close?.(bare(name));
    })
    .on('text', (text) => handlers.text?.(owned(decoded(text))))
    .on('cdata', (text) => handlers.text?.(owned(text)))
    .on('comment', () => void (unreported = 0))
    .on('attention', () => fail('holds a document type (DOCTYPE), which no spreadsheet program writes'))
    .on('warn', (error) => fail(`is not well-formed: ${error.message}`))
    .on('error', (error) => {
      throw error instanceof XmlFault ? error : new XmlFault(`is not well-formed: ${error.message}`);
    });
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const textOf = (bytes: Uint8Array, stream: boolean): string => {
    try {
      return decoder.decode(bytes, { stream });
    } catch {
      return fail('is not UTF-8 throughout');
    }
  };
  let held = '';
  for await (const piece of pieces) {
    const text = textOf(piece, true);
    const whole = held + text;
    // Except in comments and the like, a `<` always begins a tag and cannot be inside one. Cutting there never gives the parser part of
    // a tag, of which it might take a `>` in an attribute for the end.
    const cut = whole.lastIndexOf('<');
    held = cut === -1 ? whole : whole.slice(cut);
    unreported += text.length;
    if (cut > 0) parser.write(whole.slice(0, cut));
    if (unreported > limits.xmlTokenCharacters) fail('holds a tag or a text that is too long');
  }
  parser.write(held + textOf(new Uint8Array(0), false));
  parser.end();
}
