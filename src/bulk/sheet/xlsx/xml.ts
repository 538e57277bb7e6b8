/**
 * XML, piece by piece: tags, attributes and text, names without their prefix. Of XML itself only what a spreadsheet
 * program writes is read: a document type could name other files, or grow a few bytes into gigabytes.
 */
import { Buffer } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { Parser } from 'saxen';
import { limits } from '../limits.ts';

type Attributes = Readonly<Record<string, string>>;

export interface XmlHandlers {
  open(name: string, attributes: () => Attributes): void;
  close?(name: string): void;
  text?(text: string): void;
}

/** What is wrong with a document, to be read after its name. */
export class XmlFault extends Error {
  override readonly name = 'XmlFault';
}

const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const bare = (name: string): string => name.slice(name.indexOf(':') + 1);

/** The parser's own decoder knows no characters beyond U+FFFF, and passes on what it does not know. */
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
 * The text in memory of its own. A part of a text keeps all of it alive, here 64 KB of XML for the sake of one cell. Short
 * ones are copied anyway.
 */
const owned = (text: string): string => (text.length < 13 ? text : Buffer.from(text).toString());

function attributesOf(raw: Record<string, string> | false): Attributes {
  const attributes: Record<string, string> = {};
  for (const [name, value] of Object.entries(raw === false ? {} : raw)) {
    // A namespace is no attribute, and `xmlns:r` must not hide `r`.
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
  /** Characters since the parser last reported something, which it keeps meanwhile. */
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
    // Outside of comments and the like a `<` always begins a tag, and stands in none. So the parser never gets a part of a
    // tag, of which it might take a `>` in an attribute for the end.
    const cut = whole.lastIndexOf('<');
    this.#held = cut === -1 ? whole : whole.slice(cut);
    // The document type may be as long as it likes; it is refused for how it begins.
    if (this.#held.startsWith('<!D'))
      throw new XmlFault('holds a document type (DOCTYPE), which no spreadsheet program writes');
    this.#unreported += text.length;
    if (cut > 0) this.#parser.write(whole.slice(0, cut));
    if (this.#unreported > limits.xmlTokenCharacters) throw new XmlFault('holds a tag or a text that is too long');
  }
}
