/**
 * Pseudonyms: what stands in the place of a text about a person. The same text gives the same pseudonym, in every
 * column and table, as long as the secret is the same; without the secret nobody can find out whose one is, not even by
 * trying every address there is.
 */
import { hash } from 'node:crypto';
import { isIP } from 'node:net';

/**
 * Sixteen letters without a vowel: a pseudonym never reads as a name or a word, and never holds one, so that a search of a
 * copy for a name finds nothing by chance.
 */
const letters = 'bcdfghjkmnpqrstv';

/** 60 bits: among a million texts, two share a pseudonym in one of two million copies. */
const tokenLetters = 15;

/** Senders, domains and subjects come again and again; so many are remembered and then forgotten together. */
const remembered = 20_000;

export interface PseudonymMaker {
  /** Of a name, Capitalised as one. */
  readonly name: (text: string) => string;
  /** Of any other text: an address stays an address, an IP one, a URL one. */
  readonly text: (text: string) => string;
  /** A whole number of at most 15 digits. */
  readonly number: (text: string) => number;
}

/** @param secret what the pseudonyms follow from; at least 16 bytes that nobody can guess */
export function pseudonymMaker(secret: Uint8Array): PseudonymMaker {
  const tokens = new Map<string, string>();

  // Of one length whatever the secret's, and before the text. No more than 60 of the 256 bits ever leave this function's
  // callers, so nothing can be worked out for longer texts; an HMAC would take twenty times as long.
  const prefix = hash('sha256', secret, 'hex');
  const digest = (text: string): string => hash('sha256', prefix + text, 'hex');

  /** Upper and lower case, and the ways in which an accent can be written, make no difference. */
  function token(text: string): string {
    const key = text.trim().normalize('NFC').toLowerCase();
    const known = tokens.get(key);
    if (known !== undefined) return known;
    const made = spelt(digest(key));
    if (key.length <= 100) {
      if (tokens.size >= remembered) tokens.clear();
      tokens.set(key, made);
    }
    return made;
  }

  /** The domain by itself, so that addresses of one stay together; `.invalid` so that no message ever gets anywhere. */
  function address(text: string): string {
    const domain = text.slice(text.lastIndexOf('@') + 1);
    return `${token(text)}@${token(domain)}.invalid`;
  }

  function named(text: string): string {
    const [, label = '', plain = ''] = labelled.exec(text) ?? [];
    return label.trim() === '' ? `<${address(plain)}>` : `${capitalised(token(label))} <${address(plain)}>`;
  }

  function ip(text: string): string {
    // The block for documentation, of either version: the other has no room for as many as there are.
    const hex = digest(text.toLowerCase());
    return `2001:db8:${[0, 4, 8, 12].map((at) => hex.slice(at, at + 4)).join(':')}:0:1`;
  }

  function text(value: string): string {
    const trimmed = value.trim();
    if (trimmed === '') return value;
    if (plainAddress.test(trimmed)) return address(trimmed);
    if (isIP(trimmed) !== 0) return ip(trimmed);
    if (/^https?:\/\//i.test(trimmed)) return `https://${token(trimmed)}.invalid/`;
    if (trimmed.includes('@')) {
      const parts = trimmed.split(/[,;]/).map((part) => part.trim());
      if (parts.every((part) => plainAddress.test(part) || labelled.test(part))) {
        return parts.map((part) => (plainAddress.test(part) ? address(part) : named(part))).join(', ');
      }
    }
    return token(trimmed);
  }

  return {
    text,
    name: (value) => {
      const made = text(value);
      return made.includes('@') ? made : capitalised(made);
    },
    number: (value) => Number.parseInt(digest(value).slice(0, 12), 16),
  };
}

const plainAddress = /^[^\s<>,;"@]+@[^\s<>,;"@]+$/;
const labelled = /^([^<>@]*)<([^\s<>,;"@]+@[^\s<>,;"@]+)>$/;

function spelt(hex: string): string {
  let text = '';
  for (let at = 0; at < tokenLetters; at += 1) text += letters[Number.parseInt(hex[at] ?? '', 16)] ?? '';
  return text;
}

function capitalised(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}
