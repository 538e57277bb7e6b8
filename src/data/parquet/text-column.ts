/** Text of a row group, given to the library so that little memory is spent on it. */
import type { ParquetValue } from './columns.ts';

type TextColumn =
  | { readonly data: ParquetValue[] }
  /** The bytes of each text, to be written as they are. */
  | { readonly data: (Uint8Array | null)[]; readonly encoding: 'PLAIN' };

const sampled = 500;
/** Parts of a column that differ from each other, from which on a dictionary of them would not pay. */
const mostlyDistinct = 0.8;

/**
 * Texts that repeat go in as they are: the library makes a dictionary of them. Of those that do not, it would make bytes
 * with a memory of their own for each, a million times over; here they share one.
 */
export function textColumn(values: ParquetValue[]): TextColumn {
  return repeats(values) ? { data: values } : { data: bytesOf(values), encoding: 'PLAIN' };
}

function repeats(values: readonly ParquetValue[]): boolean {
  const step = Math.max(1, Math.floor(values.length / sampled));
  const seen = new Set<ParquetValue>();
  let filled = 0;
  for (let index = 0; index < values.length; index += step) {
    const value = values[index] ?? null;
    if (value === null) continue;
    filled += 1;
    seen.add(value);
  }
  return seen.size < mostlyDistinct * filled;
}

function bytesOf(values: readonly ParquetValue[]): (Uint8Array | null)[] {
  let characters = 0;
  for (const value of values) if (typeof value === 'string') characters += value.length;
  // A character takes three bytes at most; two that make up one take four.
  const room = new Uint8Array(3 * characters);
  const encoder = new TextEncoder();
  let at = 0;
  return values.map((value) => {
    if (typeof value !== 'string') return null;
    const { written } = encoder.encodeInto(value, room.subarray(at));
    const bytes = room.subarray(at, at + written);
    at += written;
    return bytes;
  });
}
