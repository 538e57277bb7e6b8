/** What is really in a column that a statement computes: nothing is declared of it, so its values decide about its type. */
import { wholeSeconds } from '../model/api-time.ts';
import type { Cell, Row } from '../store/reading-types.ts';
import type { ColumnKind } from './column-kind.ts';
import type { RowEncoder } from './encoding.ts';

export interface ColumnFacts {
  /** How many values are whole numbers, floating-point numbers, text, and bytes. */
  integers: number;
  reals: number;
  texts: number;
  blobs: number;
  /** How many of the texts are times as the API writes them; counted where the column may be one of times. */
  times: number;
  smallest: bigint;
  largest: bigint;
}

export function noFacts(): ColumnFacts {
  return {
    integers: 0,
    reals: 0,
    texts: 0,
    blobs: 0,
    times: 0,
    smallest: 0n,
    largest: 0n,
  };
}

/** Collects the facts of columns of those kinds. */
export function factsEncoder(kinds: readonly ColumnKind[]): RowEncoder {
  let facts = kinds.map(noFacts);
  let rows = 0;
  return {
    add: (batch) => {
      addRows(facts, kinds, batch);
      rows += batch.length;
    },
    take: () => {
      const piece = { bytes: new Uint8Array(0), rows, facts };
      facts = kinds.map(noFacts);
      rows = 0;
      return piece;
    },
  };
}

function addRows(facts: readonly ColumnFacts[], kinds: readonly ColumnKind[], rows: readonly Row[]): void {
  for (const [index, of] of facts.entries()) {
    const mayBeTime = kinds[index] === 'time' || kinds[index] === 'open';
    for (const row of rows) addCell(of, row[index] ?? null, mayBeTime);
  }
}

function addCell(facts: ColumnFacts, cell: Cell, mayBeTime: boolean): void {
  if (cell === null) return;
  if (typeof cell === 'string') {
    // One text that is no time decides the matter.
    if (mayBeTime && facts.times === facts.texts && !Number.isNaN(wholeSeconds(cell))) facts.times += 1;
    facts.texts += 1;
  } else if (typeof cell === 'bigint') {
    facts.integers += 1;
    if (cell < facts.smallest) facts.smallest = cell;
    if (cell > facts.largest) facts.largest = cell;
  } else if (typeof cell === 'number') {
    facts.reals += 1;
  } else {
    facts.blobs += 1;
  }
}

/** Adds what another part of the rows says. */
export function mergeFacts(into: readonly ColumnFacts[], part: readonly ColumnFacts[]): void {
  for (const [index, facts] of into.entries()) {
    const other = part[index];
    if (other === undefined) continue;
    facts.integers += other.integers;
    facts.reals += other.reals;
    facts.texts += other.texts;
    facts.blobs += other.blobs;
    facts.times += other.times;
    if (other.smallest < facts.smallest) facts.smallest = other.smallest;
    if (other.largest > facts.largest) facts.largest = other.largest;
  }
}
