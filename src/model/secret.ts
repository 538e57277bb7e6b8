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

/** The base64 of a shorter word appears in unrelated texts. */
const shortestInBase64 = 8;

/** Returns the forms in which a word appears in text: plain, in a URL, in JSON and in base64. */
export function formsOf(word: string): string[] {
  const plain = [word, encodeURIComponent(word.toWellFormed()), JSON.stringify(word).slice(1, -1)];
  const forms = word.length < shortestInBase64 ? plain : [...plain, ...inBase64(word)];
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

/** Returns a function that replaces each form of the words with `****`. */
export function hiderOf(words: readonly string[]): Hide {
  const forms = words.flatMap(formsOf).map(escapedPattern);
  if (forms.length === 0) return (text) => text;
  const pattern = new RegExp(forms.join('|'), 'g');
  return (text) => text.replaceAll(pattern, mask);
}

/** Names of password fields: `password`, `newPassword`, `password_hash`; not `password_changed_at`. */
const passwordName = /(?:passw(?:or[dt]|d)|passphrase|pwd)[-_]?(?:confirmation|hash)?\d*$/i;

/** Returns whether a field or column with this name holds passwords. */
export function namesPassword(name: string): boolean {
  return passwordName.test(name);
}

/** A field of JSON whose name may be that of a password, with its value, which may be cut off. */
const passwordField =
  /"([^"\\]{0,60}(?:passw|passphrase|pwd)[^"\\]{0,20})"(\s*:\s*)(?:"(?:[^"\\]|\\.){1,1000}"?|\d+)/gi;

/** Returns the text without the values of password fields in its JSON. */
export function withoutPasswords(text: string): string {
  return text.replaceAll(passwordField, (field, name: string, colon: string) =>
    namesPassword(name) ? `"${name}"${colon}"${mask}"` : field,
  );
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
