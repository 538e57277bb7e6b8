/** The bytes of a text file as text. UTF-8, or UTF-16 that says so; nothing is guessed. */
import { type Buffer, isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { refusal } from './refusal.ts';
import { shown } from './shown.ts';

const saveAsUtf8 = 'Save it as "CSV UTF-8" in the spreadsheet program, or as .xlsx.';

/** Which line has the first bytes that are not UTF-8, and what they look like. */
function firstWrongLine(bytes: Buffer): string {
  let from = 0;
  for (let number = 1; from < bytes.length; number += 1) {
    const end = bytes.indexOf(0x0a, from);
    const line = bytes.subarray(from, end === -1 ? bytes.length : end);
    if (!isUtf8(line)) return `the text of line ${number} is not UTF-8: ${shown(line.toString('utf8').trimEnd())}`;
    from += line.length + 1;
  }
  return 'its text is not UTF-8';
}

/** @throws UsageError where the bytes are anything else, or hold NUL, which no text does */
export function decodeText(file: string, bytes: Buffer): string {
  const mark = bytes.subarray(0, 2).toString('hex');
  const encoding = mark === 'fffe' ? 'utf-16le' : mark === 'feff' ? 'utf-16be' : 'utf-8';
  let text: string;
  try {
    text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch (error) {
    const reason =
      encoding === 'utf-8' ? firstWrongLine(bytes) : `it begins as ${encoding.toUpperCase()} and then is not`;
    throw refusal(file, reason, saveAsUtf8, error);
  }
  if (text.includes('\0')) throw refusal(file, 'it holds NUL characters, which no text does', saveAsUtf8);
  return text;
}
