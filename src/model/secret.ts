/** Values that must never be printed, and what takes them out of text: those that are known, and passwords by what they are called. */
import { inspect } from 'node:util';
import { createHash, timingSafeEqual } from 'node:crypto';
import { escapedPattern } from './text.ts';

/**
 * A key in a wrapper: in a template, a log line, JSON, an inspected error or a debugger it reads `****` and its last
 * four characters (none of a key shorter than eight). Only `reveal` gives the key itself.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself, for the request and nothing else. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return `****${this.#value.length < 8 ? '' : this.#value.slice(-4)}`;
  }

  toJSON(): string {
    return this.toString();
  }

  [inspect.custom](): string {
    return this.toString();
  }
}

/** An address that must not be printed whole: what follows its host may be what lets one use it. */
export class SecretAddress extends Secret {
  /** `hooks.example.com:8443`, for logs and messages. */
  get host(): string {
    return new URL(this.reveal()).host;
  }

  override toString(): string {
    return `${new URL(this.reveal()).origin}/****`;
  }
}

/** Whether what was given is the secret word; how long that takes says nothing of where they differ. */
export function isSameWord(given: string, word: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(word)];
  return one.length === other.length && timingSafeEqual(one, other);
}

const mask = '****';

/** A shorter word stands in too many texts to be taken out of them. */
const shortest = 4;

/** A shorter word, written in another way, stands in texts that have nothing to do with it. */
const shortestEncoded = 8;

/** The ways in which a word stands in text: plain, in a URL, in JSON, in HTML, and in base64 and hexadecimal. */
export function formsOf(word: string): string[] {
  const html = word.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
  const plain = [word, encodeURIComponent(word.toWellFormed()), JSON.stringify(word).slice(1, -1), html];
  const encoded = word.length < shortestEncoded ? [] : [...inBase64(word), Buffer.from(word).toString('hex')];
  // JSON may have a stroke before each slash.
  const forms = [...plain, ...encoded].flatMap((form) => [form, form.replaceAll('/', '\\/')]);
  // The longest first: a shorter one may be a part of it.
  return [...new Set(forms)].filter((form) => form !== '').sort((a, b) => b.length - a.length);
}

/** What of base64 follows from the word alone, wherever it stands in what was encoded. */
function inBase64(word: string): string[] {
  const { length } = Buffer.from(word);
  const standard = [0, 1, 2].map((before) => {
    const whole = Buffer.from('\0'.repeat(before) + word).toString('base64');
    return whole.slice(Math.ceil((before * 4) / 3), Math.floor(((before + length) * 4) / 3));
  });
  return [...standard, ...standard.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'))];
}

type Hide = (text: string) => string;

/** What puts `****` in the place of each form of the words, in capitals or not. Of short words only as they are. */
export function hiderOf(words: readonly string[]): Hide {
  const isLong = (word: string): boolean => word.length >= shortestEncoded;
  const patterns = [
    patternOf(words.filter(isLong).flatMap(formsOf), 'gi'),
    patternOf(words.filter((word) => !isLong(word)).flatMap(formsOf), 'g'),
  ].filter((pattern) => pattern !== undefined);
  return (text) => patterns.reduce((clean, pattern) => clean.replaceAll(pattern, mask), text);
}

function patternOf(forms: readonly string[], flags: string): RegExp | undefined {
  if (forms.length === 0) return undefined;
  return new RegExp(forms.map(escapedPattern).join('|'), flags);
}

/** A field called so names a password: `password`, `newPassword`, `password_hash`; not `password_changed_at`. */
const passwordName =
  /(?:passw(?:or[dt]|d)|passphrase|pwd)(?:confirm(?:ation)?|plain|hash(?:ed)?|generated|text|new|old)?\d*$/;

/** Whether a field or a column of that name holds passwords. */
export function namesPassword(name: string): boolean {
  const words = name.toLowerCase();
  return passwordName.test(words.replaceAll(/[^a-z\d]+/g, '')) || /(?:^|[^a-z\d])pass$/.test(words.trim());
}

/** JSON may write any letter as `\\u0061`; no server has a reason to, and names and keys must be seen for what they are. */
const escapedLetter = /(?<!\\)((?:\\\\)*)\\u00(3\d|4[1-9a-f]|5[0-9a]|5f|6[1-9a-f]|7[0-9a])/gi;

function mayHoldEscapedLetter(json: string): boolean {
  const before = String.raw`\u00`;
  for (let at = json.indexOf(before); at !== -1; at = json.indexOf(before, at + 1)) {
    const code = json[at + before.length] ?? '';
    if (code >= '3' && code <= '7') return true;
  }
  return false;
}

/** The same JSON with its letters and digits written plainly. */
export function withPlainLetters(json: string): string {
  if (!mayHoldEscapedLetter(json)) return json;
  return json.replaceAll(
    escapedLetter,
    (_, before: string, code: string) => before + String.fromCharCode(parseInt(code, 16)),
  );
}

/** Up to its value, a field whose name may be that of a password, in JSON or in JSON that stands as text in JSON. */
const likelyField = /(?:pass[^a-z\d"]{0,2}(?:w|phrase)|pwd|(?<![a-z\d])pass)[^"\\]{0,24}(\\*)"\s*:\s*/gi;

/** Whether a field of it may be called a password, now or once its letters are written plainly. */
export function mayHoldPasswordField(json: string): boolean {
  return mayHoldEscapedLetter(json) || json.search(likelyField) !== -1;
}

interface Found {
  readonly start: number;
  readonly end: number;
  readonly value: string;
  readonly hidden: string;
}

/** The values of the fields that are called passwords: texts and numbers, and in a record all texts of a list or an object. */
function* passwordFields(text: string, isRecord: boolean): Generator<Found> {
  for (const match of text.matchAll(likelyField)) {
    const [whole, strokes = ''] = match;
    const upToName = text.slice(Math.max(0, match.index - 64), match.index + whole.lastIndexOf(`${strokes}"`));
    if (!namesPassword(upToName.slice(upToName.lastIndexOf('"') + 1))) continue;
    const start = match.index + whole.length;
    const quote = `${strokes}"`;
    if (text.startsWith(quote, start)) {
      const value = valueAt(text, start + quote.length, strokes);
      // What has spaces in it is words about a password, as in `"password": "The password is too short."`.
      if (value === '' || (!isRecord && /\s/.test(value))) continue;
      yield { start: start + quote.length, end: start + quote.length + value.length, value, hidden: mask };
      continue;
    }
    const number = stickyMatch(/-?\d[\d.eE+-]{3,}/y, text, start);
    if (number !== undefined) {
      yield { start, end: start + number.length, value: number, hidden: `${quote}${mask}${quote}` };
    } else if (isRecord && strokes === '' && /[[{]/.test(text[start] ?? '')) {
      yield* textsWithin(text, start);
    }
  }
}

/** The text from there to the quotes that end it, or to the end of all where it was cut off. */
function valueAt(text: string, start: number, strokes: string): string {
  // By hand: a regular expression runs out of memory over a text of some megabytes.
  for (let at = text.indexOf('"', start); at !== -1; at = text.indexOf('"', at + 1)) {
    let before = 0;
    while (at - before > start && text[at - before - 1] === '\\') before += 1;
    if (strokes === '' && before % 2 === 0) return text.slice(start, at);
    if (strokes !== '' && before <= strokes.length) return text.slice(start, at - before);
  }
  return text.slice(start);
}

/** Every text of the list or object that begins there, names apart. */
function* textsWithin(text: string, from: number): Generator<Found> {
  const next = /["[\]{}]/g;
  next.lastIndex = from;
  let depth = 0;
  for (let match = next.exec(text); match !== null; match = next.exec(text)) {
    const start = next.lastIndex;
    if (match[0] === '[' || match[0] === '{') depth += 1;
    if (match[0] === ']' || match[0] === '}') depth -= 1;
    if (depth === 0) return;
    if (match[0] !== '"') continue;
    const value = valueAt(text, start, '');
    next.lastIndex = start + value.length + 1;
    const isName = stickyMatch(/\s*:/y, text, next.lastIndex) !== undefined;
    if (value !== '' && !isName) yield { start, end: start + value.length, value, hidden: mask };
  }
}

function stickyMatch(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

/** `Your password is <b>k3Xw9q</b>`. */
const inWords =
  /(\bpass(?:word|phrase)\b(?:\s+(?:is|was|set|to|now))*\s*(?:[:=]\s*)?(?:<\w{1,6}>)?["'“‘]?)([^\s"'”’<>,;]{6,})/gi;

/**
 * The text without the passwords that it gives under their name: as fields of JSON, and in sentences where what follows
 * looks generated. What has spaces in it is words about a password, as in `"password": "The password is too short."`.
 */
export function withoutPasswords(text: string): string {
  return withoutPasswordFields(text).replace(inWords, (whole: string, before: string, word: string) =>
    looksGenerated(word) && !word.startsWith(mask) ? `${before}${mask}` : whole,
  );
}

/** The same of fields alone. @param isRecord sentences are data, and a password may have spaces in it */
export function withoutPasswordFields(text: string, isRecord = false): string {
  const plain = withPlainLetters(text);
  let [clean, from] = ['', 0];
  for (const { start, end, hidden } of passwordFields(plain, isRecord)) {
    // What stands within another one is gone with it.
    if (start < from) continue;
    clean += plain.slice(from, start) + hidden;
    from = end;
  }
  return from === 0 ? plain : clean + plain.slice(from);
}

/** A shorter value may be a word such as `none`, or a number. */
const shortestReported = 6;

/** The passwords that JSON gives under their name, whether it is whole or not. */
export function passwordsGiven(json: string): string[] {
  return [...passwordFields(withPlainLetters(json), false)].flatMap(({ value }) => {
    if (value.length < shortestReported) return [];
    try {
      return [String(JSON.parse(`"${value}"`))];
    } catch {
      return [value];
    }
  });
}

/** Two kinds of letters, digits and signs, where a word of a sentence has one and a capital at its beginning. */
function looksGenerated(word: string): boolean {
  const inner = word.slice(1).replace(/[.!?)]+$/, '');
  const kinds = [/[a-z]/, /[A-Z]/, /\d/, /[^\w\s.:/-]/].filter((kind) => kind.test(inner)).length;
  return kinds >= 2;
}

/** The values of the fields of a body that are called passwords, however deep they stand. */
export function passwordsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    typeof inner === 'string' ? (namesPassword(name) ? [inner] : []) : passwordsIn(inner),
  );
}

/** An address as it was given, for messages: without a user, a password and a query. */
export function withoutCredentials(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url !== undefined && [url.username, url.password, url.search, url.hash].join('') === '') return address;
  const [scheme = ''] = /^[a-z+.-]*:\/\//i.exec(address) ?? [];
  const at = address.lastIndexOf('@');
  const plain = at === -1 ? address : `${scheme}${mask}${address.slice(at)}`;
  return plain.replace(/[?#].+/s, (query) => `${query[0]}${mask}`);
}

/** The address of a database as it was given, for messages: its user may be seen. */
export function withoutPassword(address: string): string {
  return address.replace(/:(?!\/\/).*@/s, `:${mask}@`).replaceAll(/(pass\w*=)[^&]*/gi, `$1${mask}`);
}

/** The secrets that a process has come to know. */
export class SecretWords {
  readonly #words = new Set<string>();
  #hide: Hide = (text) => text;

  add(word: string): void {
    if (word.length < shortest || this.#words.has(word)) return;
    this.#words.add(word);
    this.#hide = hiderOf([...this.#words]);
  }

  redact(text: string): string {
    return this.#hide(text);
  }
}

/** Four hex digits: enough to notice a change, and far too few to find out or test what it was. */
export function markOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 4);
}
