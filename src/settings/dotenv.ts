/** The file `.env` of the working folder: `NAME=value` lines, quoted values, and comments. */
import { resolve } from 'node:path';
import { UsageError } from '../model/errors.ts';
import { fileReason, notUtf8, readTrustedFile } from '../model/files.ts';
import type { Variables } from './sources.ts';

/** Reads the file `.env` of the folder. There are no variables if it is missing or must not be trusted. */
export function readDotenv(folder: string) {
  const none: { variables: Variables; warnings: string[]; problems: UsageError[]; isOpen: boolean } = {
    variables: {},
    warnings: [],
    problems: [],
    isOpen: false,
  };
  const what = 'the file .env in the working folder';
  try {
    const file = readTrustedFile(resolve(folder, '.env'), what);
    const problem = notUtf8(file.bytes, '.env');
    if (problem !== undefined) return { ...none, problems: [problem] };
    const read = parseDotenv(file.bytes.toString('utf8').replace(/^\uFEFF/, ''));
    return { ...none, ...read, isOpen: (file.mode & 0o044) !== 0 };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EISDIR') return none;
    const cannot = () => new UsageError(`${what} cannot be read: ${fileReason(error)}`);
    return { ...none, problems: [error instanceof UsageError ? error : cannot()] };
  }
}

/**
 * Reads the lines. A `#` begins a comment only after a blank: Node's own parser ends `data/team#1.db` and a password at theirs.
 * Warnings name the line and never show a value, which may be a secret.
 */
export function parseDotenv(text: string): { variables: Record<string, string>; warnings: string[] } {
  const variables: Record<string, string> = {};
  const warnings: string[] = [];
  const lines = text.split(/\r\n|[\r\n]/);
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    if (/^\s*(?:#|$)/.test(line)) continue;
    const place = `line ${at + 1} of .env`;
    const [begin, name = ''] = /^\s*(?:export\s+)?([\w.-]+)\s*=/.exec(line) ?? [];
    if (begin === undefined) {
      warnings.push(`${place} is not NAME=value, and was not read.`);
      continue;
    }
    const given = line.slice(begin.length);
    const [quote = ''] = /["'`]/.exec(given.trimStart()[0] ?? '') ?? [];
    // A quoted value may span several lines.
    const whole = quote === '' ? given : [given, ...lines.slice(at + 1)].join('\n');
    const from = whole.length - whole.trimStart().length + 1;
    const end = quote === '' ? -1 : closingQuote(whole, quote, from);
    const [after = ''] = end === -1 ? [] : whole.slice(end + 1).split('\n', 1);
    if (end !== -1) {
      const value = whole.slice(from, end);
      variables[name] =
        quote === '"' ? value.replaceAll(/\\([nrt"\\])/g, (_, sign: string) => escapes[sign] ?? '') : value;
      at += value.split('\n').length - 1;
    } else {
      const comment = given.search(/\s#/);
      variables[name] = (comment === -1 ? given : given.slice(0, comment)).trim();
    }
    if (!name.startsWith('ADMIN_MIRROR_')) continue;
    if (quote !== '' && end === -1) warnings.push(`${place}: the quote that begins ${name} has no end.`);
    const isCut = end === -1 ? /\s#/.test(given) : /^\s*[^#\s]/.test(after);
    if (isCut)
      warnings.push(`${place}: a part was left out of ${name}. If it belongs to the value, put it all in quotes.`);
  }
  return { variables, warnings };
}

const escapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' };

/** Returns where the quote ends; -1 if it does not. Only in double quotes does a backslash keep the next character. */
function closingQuote(text: string, quote: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    if (quote === '"' && text[at] === '\\') at += 1;
    else if (text[at] === quote) return at;
  }
  return -1;
}
