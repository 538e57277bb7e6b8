/**
 * Reads the parts of an .xlsx: their names, their references to each other, and their XML. yauzl reads the archive. This adds what it
 * leaves to its users: limits on what it unpacks to, and checksums.
 */
import { Buffer } from 'node:buffer';
import { posix } from 'node:path';
import { PassThrough, pipeline } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { type Entry, fromBufferPromise, type ZipFile } from 'yauzl';
import { UsageError } from '../../../model/errors.ts';
import { limits, megabytes, refusal } from '../limits.ts';
import { TextDecoder } from 'node:util';
import { Parser } from 'saxen';

interface Relation {
  /** The end of its type, such as `worksheet`: the part before it differs between editions of the standard. */
  readonly kind: string;
  readonly target: string;
}

const damaged = (file: string, detail: string, cause?: unknown): UsageError =>
  refusal(file, `it is damaged: ${detail}`, undefined, cause);

const stored = 0;
const deflated = 8;

/** Throws a UsageError if the archive is damaged, encrypted, has a part twice, or is too large. */
export async function openArchive(file: string, bytes: Buffer, signal: AbortSignal): Promise<Archive> {
  // Sizes are checked below, where the message can name the part.
  const options = { lazyEntries: true, decodeStrings: false, validateEntrySizes: false } as const;
  const zip = await fromBufferPromise(bytes, options).catch((error: unknown) => {
    throw damaged(file, 'the end of the archive is missing', error);
  });
  if (zip.entryCount > limits.zipEntries) throw refusal(file, `it has ${zip.entryCount} parts, more than a sheet has`);
  const entries = new Map<string, Entry>();
  let unpacked = 0;
  try {
    for await (const entry of zip.eachEntry()) {
      const name = nameOf(entry);
      if (entry.isEncrypted()) {
        throw refusal(file, 'it is protected by a password', 'Save it without a password, and try that file.');
      }
      if (entries.has(partName(name))) throw damaged(file, `its part ${name} is there twice`);
      entries.set(partName(name), entry);
      unpacked += entry.uncompressedSize;
    }
  } catch (error) {
    throw error instanceof UsageError ? error : damaged(file, 'the directory of the archive is broken', error);
  }
  if (unpacked > limits.unpackedBytes) {
    const most = megabytes(limits.unpackedBytes);
    throw refusal(file, `it unpacks to ${megabytes(unpacked)}, more than the ${most} that a sheet may have`);
  }
  return new Archive(file, zip, entries, signal);
}

/** Some programs write `\\` in names, and names in another case than where they refer to them. Excel takes both. */
const partName = (name: string): string => name.replaceAll('\\', '/').toLowerCase();

const nameOf = ({ fileNameRaw }: Entry): string => fileNameRaw.toString('utf8');

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
    return this.#entries.has(partName(part));
  }

  /** Throws a UsageError if the part is missing, damaged or not plain XML. */
  async scan(part: string, handlers: XmlHandlers, size: 'small' | 'large' = 'small'): Promise<void> {
    const entry = this.#entries.get(partName(part));
    if (entry === undefined) throw refusal(this.file, `its part ${part} is missing`);
    if (size === 'small' && entry.uncompressedSize > limits.smallPartBytes) {
      throw refusal(this.file, `its part ${part} has ${megabytes(entry.uncompressedSize)}, more than it can need`);
    }
    const scanner = new XmlScanner(handlers);
    try {
      for await (const piece of this.#unpack(entry)) scanner.write(piece);
      scanner.end();
    } catch (error) {
      if (error instanceof XmlFault) throw refusal(this.file, `its part ${part} ${error.message}`, undefined, error);
      throw error;
    }
  }

  /** The bytes of a part, piece by piece, with one piece in memory at a time. */
  async *#unpack(entry: Entry): AsyncGenerator<Buffer> {
    const wrong = (what: string, error?: unknown): UsageError =>
      damaged(this.file, `its part ${nameOf(entry)} ${what}`, error);
    const { compressionMethod: method } = entry;
    if (method !== stored && method !== deflated) {
      const what = `its part ${nameOf(entry)} is packed by method ${method}, which no spreadsheet program uses`;
      throw refusal(this.file, what);
    }
    const pieces = await this.#zip.openReadStreamPromise(entry).catch((error: unknown) => {
      throw wrong('is cut off', error);
    });
    let crc = 0;
    let size = 0;
    try {
      // Through a stream: without it, an uncompressed part would come in one piece.
      for await (const piece of pipeline(pieces, new PassThrough(), () => {}) as AsyncIterable<Buffer>) {
        crc = crc32(piece, crc);
        size += piece.length;
        if (size > entry.uncompressedSize) throw wrong('is larger than the archive says');
        yield piece;
        // Lets other work have its turn, and lets whoever waits stop this.
        await setImmediate();
        this.#signal.throwIfAborted();
      }
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : '';
      throw code.startsWith('Z_') ? wrong('does not unpack', error) : error;
    }
    if (size !== entry.uncompressedSize) throw wrong('is smaller than the archive says');
    if (crc !== entry.crc32) throw wrong('is not what was packed');
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

/** Resolves character references. The parser's own decoder does not know characters beyond U+FFFF, and lets unknown ones pass. */
function decoded(text: string): string {
  const normal = text.includes('\r') ? text.replace(/\r\n?/g, '\n') : text;
  if (!normal.includes('&')) return normal;
  return normal.replace(
    /&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w{1,4}));|&/gi,
    (all, decimal?: string, hex?: string, word?: string) => {
      if (word !== undefined && named[word] !== undefined) return named[word];
      const code = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal);
      const known = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
      if (!known) throw new XmlFault(`holds the unknown character ${all}`);
      return String.fromCodePoint(code);
    },
  );
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

function encodingOf(start: Uint8Array): 'utf-8' | 'utf-16le' | 'utf-16be' {
  if (start[0] === 0xff && start[1] === 0xfe) return 'utf-16le';
  return start[0] === 0xfe && start[1] === 0xff ? 'utf-16be' : 'utf-8';
}

export class XmlScanner {
  readonly #parser = new Parser();
  #decoder: TextDecoder | undefined;
  #held = '';
  /** Characters since the parser last reported something. It keeps them in memory. */
  #unreported = 0;
  #depth = 0;

  constructor(handlers: XmlHandlers) {
    const fail = (reason: string): never => {
      throw new XmlFault(reason);
    };
    const reported = (): void => {
      this.#unreported = 0;
    };
    this.#parser
      .on('openTag', (name, attributes) => {
        reported();
        this.#depth += 1;
        if (this.#depth > limits.xmlDepth) fail(`has tags nested more than ${limits.xmlDepth} deep`);
        handlers.open(bare(name), () => attributesOf(attributes()));
      })
      .on('closeTag', (name) => {
        reported();
        this.#depth -= 1;
        handlers.close?.(bare(name));
      })
      .on('text', (text) => handlers.text?.(owned(decoded(text))))
      .on('cdata', (text) => handlers.text?.(owned(text)))
      .on('comment', reported)
      .on('attention', () => fail('holds a document type (DOCTYPE), which no spreadsheet program writes'))
      .on('question', (text) => {
        const encoding = /^<\?xml\s[^>]*encoding\s*=\s*["']([^"']*)/.exec(text)?.[1] ?? 'utf-8';
        if (!/^utf-?(?:8|16)$/i.test(encoding)) fail(`is in ${encoding}, not in UTF-8 or UTF-16`);
      })
      .on('warn', (error) => fail(`is not well-formed: ${error.message}`))
      .on('error', (error) => {
        throw error instanceof XmlFault ? error : new XmlFault(`is not well-formed: ${error.message}`);
      });
  }

  write(bytes: Uint8Array): void {
    this.#decoder ??= new TextDecoder(encodingOf(bytes), { fatal: true });
    this.#pass(this.#decode(bytes, true));
  }

  end(): void {
    this.#pass(this.#decode(new Uint8Array(0), false));
    this.#parser.write(this.#held);
    this.#parser.end();
  }

  #decode(bytes: Uint8Array, stream: boolean): string {
    try {
      return this.#decoder?.decode(bytes, { stream }) ?? '';
    } catch {
      throw new XmlFault('is not UTF-8 or UTF-16 throughout');
    }
  }

  #pass(text: string): void {
    const whole = this.#held + text;
    // Except in comments and the like, a `<` always begins a tag and cannot be inside one. Cutting there never gives the parser part of
    // a tag, of which it might take a `>` in an attribute for the end.
    const cut = whole.lastIndexOf('<');
    this.#held = cut === -1 ? whole : whole.slice(cut);
    // A document type is refused by its beginning, however long it is.
    if (this.#held.startsWith('<!D'))
      throw new XmlFault('holds a document type (DOCTYPE), which no spreadsheet program writes');
    this.#unreported += text.length;
    if (cut > 0) this.#parser.write(whole.slice(0, cut));
    if (this.#unreported > limits.xmlTokenCharacters) throw new XmlFault('holds a tag or a text that is too long');
  }
}
