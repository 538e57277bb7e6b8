/**
 * The zip archive that an .xlsx is. Everything is taken from its directory, and what is unpacked must be as the directory
 * says: a reader that believes other bytes than the next one can be shown another sheet.
 */
import type { Buffer } from 'node:buffer';
import { Readable } from 'node:stream';
import { crc32, createInflateRaw } from 'node:zlib';
import { limits, megabytes } from '../limits.ts';
import { refusal } from '../refusal.ts';

export interface ZipEntry {
  readonly name: string;
  readonly method: number;
  readonly crc: number;
  readonly packed: number;
  readonly unpacked: number;
  /** Of its local header, in the file. */
  readonly offset: number;
}

const endSignature = 0x06054b50;
const directorySignature = 0x02014b50;
const localSignature = 0x04034b50;
const endLength = 22;
const longestComment = 0xffff;
const encrypted = 1;
const stored = 0;
const deflated = 8;
/** In place of a size that stands in the entry's zip64 field. */
const elsewhere = 0xffffffff;

const damaged = (file: string, detail: string): Error => refusal(file, `it is damaged: ${detail}`);

/** Where the record at the end of the archive begins. Its comment must reach to the very end. */
function findEnd(file: string, bytes: Buffer): number {
  const first = Math.max(0, bytes.length - endLength - longestComment);
  for (let at = bytes.length - endLength; at >= first; at -= 1) {
    if (bytes.readUInt32LE(at) === endSignature && at + endLength + bytes.readUInt16LE(at + 20) === bytes.length)
      return at;
  }
  throw damaged(file, 'the end of the archive is missing');
}

/** The sizes and the offset that did not fit where they belong, in their order, out of the entry's zip64 field. */
function wideNumbers(extra: Buffer): number[] {
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2)) {
    if (extra.readUInt16LE(at) !== 1) continue;
    const field = extra.subarray(at + 4, at + 4 + extra.readUInt16LE(at + 2));
    return Array.from({ length: Math.floor(field.length / 8) }, (_, index) => Number(field.readBigUInt64LE(index * 8)));
  }
  return [];
}

function readEntry(file: string, bytes: Buffer, at: number): { readonly entry: ZipEntry; readonly next: number } {
  if (bytes.readUInt32LE(at) !== directorySignature) throw damaged(file, 'the directory of the archive is broken');
  const nameEnd = at + 46 + bytes.readUInt16LE(at + 28);
  const extraEnd = nameEnd + bytes.readUInt16LE(at + 30);
  const name = bytes.toString('utf8', at + 46, nameEnd);
  if ((bytes.readUInt16LE(at + 8) & encrypted) !== 0) {
    throw refusal(file, 'it is protected by a password', 'Save it without a password, and try that file.');
  }
  const wide = wideNumbers(bytes.subarray(nameEnd, extraEnd));
  const number = (place: number): number => {
    const value = bytes.readUInt32LE(place);
    return value === elsewhere ? (wide.shift() ?? value) : value;
  };
  const unpacked = number(at + 24);
  const packed = number(at + 20);
  const offset = number(at + 42);
  const entry = {
    name,
    method: bytes.readUInt16LE(at + 10),
    crc: bytes.readUInt32LE(at + 16),
    packed,
    unpacked,
    offset,
  };
  return { entry, next: extraEnd + bytes.readUInt16LE(at + 32) };
}

/**
 * The entries by name.
 * @throws UsageError where the archive is damaged or encrypted, holds a name twice, or would unpack to more than a sheet is
 */
export function readDirectory(file: string, bytes: Buffer): ReadonlyMap<string, ZipEntry> {
  const entries = new Map<string, ZipEntry>();
  try {
    const end = findEnd(file, bytes);
    const count = bytes.readUInt16LE(end + 10);
    if (count > limits.zipEntries) throw refusal(file, `it has ${count} parts, more than a sheet has`);
    let at = bytes.readUInt32LE(end + 16);
    let unpacked = 0;
    for (let index = 0; index < count; index += 1) {
      const { entry, next } = readEntry(file, bytes, at);
      if (entries.has(entry.name)) throw damaged(file, `its part ${entry.name} is there twice`);
      entries.set(entry.name, entry);
      unpacked += entry.unpacked;
      at = next;
    }
    if (unpacked > limits.unpackedBytes) {
      const most = megabytes(limits.unpackedBytes);
      throw refusal(file, `it unpacks to ${megabytes(unpacked)}, more than the ${most} that a sheet may have`);
    }
  } catch (error) {
    // What lies outside of the file was named as a place in it.
    if (error instanceof RangeError) throw damaged(file, 'the directory of the archive is broken');
    throw error;
  }
  return entries;
}

function packedBytes(file: string, bytes: Buffer, entry: ZipEntry): Buffer {
  const { offset, name } = entry;
  if (offset + 30 > bytes.length || bytes.readUInt32LE(offset) !== localSignature) {
    throw damaged(file, `its part ${name} is not where it should be`);
  }
  const nameEnd = offset + 30 + bytes.readUInt16LE(offset + 26);
  if (bytes.toString('utf8', offset + 30, nameEnd) !== name) throw damaged(file, `its part ${name} has two names`);
  const start = nameEnd + bytes.readUInt16LE(offset + 28);
  if (start + entry.packed > bytes.length) throw damaged(file, `its part ${name} is cut off`);
  return bytes.subarray(start, start + entry.packed);
}

/**
 * The bytes of an entry, piece by piece, never more than one at a time in memory.
 * @throws UsageError where they are damaged, or not as many as the directory says
 */
export async function* unpack(file: string, bytes: Buffer, entry: ZipEntry): AsyncGenerator<Buffer> {
  const packed = packedBytes(file, bytes, entry);
  if (entry.method !== stored && entry.method !== deflated) {
    throw refusal(
      file,
      `its part ${entry.name} is packed by method ${entry.method}, which no spreadsheet program uses`,
    );
  }
  let size = 0;
  let crc = 0;
  const pieces = Readable.from([packed]);
  const source = entry.method === stored ? pieces : pieces.pipe(createInflateRaw({ chunkSize: 65_536 }));
  try {
    for await (const piece of source as AsyncIterable<Buffer>) {
      size += piece.length;
      if (size > entry.unpacked) throw damaged(file, `its part ${entry.name} is larger than the archive says`);
      crc = crc32(piece, crc);
      yield piece;
    }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (code.startsWith('Z_')) throw damaged(file, `its part ${entry.name} does not unpack`);
    throw error;
  }
  if (size !== entry.unpacked) throw damaged(file, `its part ${entry.name} is smaller than the archive says`);
  if (crc !== entry.crc) throw damaged(file, `its part ${entry.name} is not what was packed`);
}
