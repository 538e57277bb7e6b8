/**
 * Values that must never be printed, and functions that remove them from text: known values, and passwords by the names of
 * their fields.
 */
import { inspect } from 'node:util';
import { createHash, timingSafeEqual } from 'node:crypto';
import { escapedPattern } from './text.ts';

/**
 * Wraps a key. In a template, a log line, JSON, an inspected error or a debugger it reads `****` and its last four characters
 * (none for a key of less than eight). Only `reveal` returns the key itself.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** Returns the value itself, for the request and nothing else. */
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

/** An address that must not be printed whole: anybody who knows what follows its host can use it. */
export class SecretAddress extends Secret {
  /** `hooks.example.com:8443`, for logs and messages. */
  get host(): string {
    return new URL(this.reveal()).host;
  }

  override toString(): string {
    return `${new URL(this.reveal()).origin}/****`;
  }
}

/** Compares in constant time: how long it takes does not tell where the words differ. */
export function isSameWord(given: string, word: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(word)];
  return one.length === other.length && timingSafeEqual(one, other);
}

const mask = '****';

/** A shorter word is part of too many other texts to be replaced. */
const shortest = 4;

/** The encoded form of a shorter word appears in unrelated texts. */
const shortestEncoded = 8;

/** Returns the forms in which a word appears in text: plain, in a URL, in JSON and in base64. */
export function formsOf(word: string): string[] {
  const plain = [word, encodeURIComponent(word.toWellFormed()), JSON.stringify(word).slice(1, -1)];
  const encoded = word.length < shortestEncoded ? [] : inBase64(word);
  // JSON may have a backslash before each slash.
  const forms = [...plain, ...encoded].flatMap((form) => [form, form.replaceAll('/', '\\/')]);
  // The longest first: a shorter one may be a part of it.
  return [...new Set(forms)].filter((form) => form !== '').sort((a, b) => b.length - a.length);
}

/** Returns the part of the base64 that depends on the word alone, for each of its three positions. */
function inBase64(word: string): string[] {
  const { length } = Buffer.from(word);
  const standard = [0, 1, 2].map((before) => {
    const whole = Buffer.from('\0'.repeat(before) + word).toString('base64');
    return whole.slice(Math.ceil((before * 4) / 3), Math.floor(((before + length) * 4) / 3));
  });
  return [...standard, ...standard.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'))];
}

type Hide = (text: string) => string;

/** Returns a function that replaces each form of the words with `****`. It ignores case, except for short words. */
export function hiderOf(words: readonly string[]): Hide {
  const isLong = (word: string): boolean => word.length >= shortestEncoded;
  const patterns = [
    patternOf(words.filter(isLong), 'gi'),
    patternOf(
      words.filter((word) => !isLong(word)),
      'g',
    ),
  ].filter((pattern) => pattern !== undefined);
  return (text) => patterns.reduce((clean, pattern) => clean.replaceAll(pattern, mask), text);
}

function patternOf(words: readonly string[], flags: string): RegExp | undefined {
  const forms = words.flatMap(formsOf).map(escapedPattern);
  return forms.length === 0 ? undefined : new RegExp(forms.join('|'), flags);
}

/** Names of password fields: `password`, `newPassword`, `password_hash`; not `password_changed_at`. */
const passwordName =
  /(?:passw(?:or[dt]|d)|passphrase|pwd)(?:confirm(?:ation)?|plain|hash(?:ed)?|generated|text|new|old)?\d*$/;

/** Returns whether a field or column with this name holds passwords. */
export function namesPassword(name: string): boolean {
  const words = name.toLowerCase();
  return passwordName.test(words.replaceAll(/[^a-z\d]+/g, '')) || /(?:^|[^a-z\d])pass$/.test(words.trim());
}

/** A field whose name may be that of a password, up to its value: in JSON, or in JSON inside a JSON string. */
const likelyField = /(?:pass[^a-z\d"]{0,2}(?:w|phrase)|pwd|(?<![a-z\d])pass)[^"\\]{0,24}(\\*)"\s*:\s*/gi;

/** Returns whether a field may have a password's name. */
export function mayHoldPasswordField(json: string): boolean {
  return json.search(likelyField) !== -1;
}

interface Found {
  readonly start: number;
  readonly end: number;
  readonly value: string;
  readonly hidden: string;
}

/** Yields the values of password fields: strings and numbers. */
function* passwordFields(text: string): Generator<Found> {
  for (const match of text.matchAll(likelyField)) {
    const [whole, strokes = ''] = match;
    const upToName = text.slice(Math.max(0, match.index - 64), match.index + whole.lastIndexOf(`${strokes}"`));
    if (!namesPassword(upToName.slice(upToName.lastIndexOf('"') + 1))) continue;
    const start = match.index + whole.length;
    const quote = `${strokes}"`;
    if (text.startsWith(quote, start)) {
      const value = valueAt(text, start + quote.length, strokes);
      if (value === '') continue;
      yield { start: start + quote.length, end: start + quote.length + value.length, value, hidden: mask };
      continue;
    }
    const number = stickyMatch(/-?\d[\d.eE+-]{3,}/y, text, start);
    if (number !== undefined) {
      yield { start, end: start + number.length, value: number, hidden: `${quote}${mask}${quote}` };
    }
  }
}

/** Returns the text up to the closing quotes, or to the end if the text was cut off. */
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

function stickyMatch(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

/** Returns the text without the values of password fields in its JSON, which may be cut off. */
export function withoutPasswords(text: string): string {
  let [clean, from] = ['', 0];
  for (const { start, end, hidden } of passwordFields(text)) {
    // It lies within the one before.
    if (start < from) continue;
    clean += text.slice(from, start) + hidden;
    from = end;
  }
  return from === 0 ? text : clean + text.slice(from);
}

/** A shorter value may be a word such as `none`, or a number. */
const shortestReported = 6;

/** Returns the values of password fields in JSON, which may be cut off. */
export function passwordsGiven(json: string): string[] {
  return [...passwordFields(json)].flatMap(({ value }) => {
    if (value.length < shortestReported) return [];
    try {
      return [String(JSON.parse(`"${value}"`))];
    } catch {
      return [value];
    }
  });
}

/** Returns the values of all password fields of a body, at any depth. */
export function passwordsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    typeof inner === 'string' ? (namesPassword(name) ? [inner] : []) : passwordsIn(inner),
  );
}

/** Returns an address for messages, without user, password and query. */
export function withoutCredentials(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url !== undefined && [url.username, url.password, url.search, url.hash].join('') === '') return address;
  const [scheme = ''] = /^[a-z+.-]*:\/\//i.exec(address) ?? [];
  const at = address.lastIndexOf('@');
  const plain = at === -1 ? address : `${scheme}${mask}${address.slice(at)}`;
  return plain.replace(/[?#].+/s, (query) => `${query[0]}${mask}`);
}

/** Returns the address of a database for messages, without its password. The user may be seen. */
export function withoutPassword(address: string): string {
  const [start, end] = [address.search(/:(?!\/\/)/), address.lastIndexOf('@')];
  const plain = start === -1 || end < start ? address : `${address.slice(0, start)}:${mask}${address.slice(end)}`;
  return plain.replaceAll(/(pass\w{0,30}=)[^&]*/gi, `$1${mask}`);
}

/** The secrets that a process has learned. */
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

/** Four hex digits: enough to notice a change, and far too few to guess or test the value. */
export function markOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 4);
}
