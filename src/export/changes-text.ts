/** Changes as a table for a person, or as one JSON document. */
import { Buffer } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';
import type { ReadingStore, ResultColumn, Row } from '../store/ports/reading.ts';
import { type ChangesRequest, changesOf, reachWarnings, type ToldChange } from './changes.ts';
import { tableText } from './text-table.ts';

/** Pieces of text that are written at a time. */
const heldPieces = 100;

/**
 * What `changes` prints, in pieces; holds no more of the changes than a screen or two.
 * @param onWarning told what the operator should know of the answer
 */
export async function* changesChunks(
  store: ReadingStore,
  request: ChangesRequest,
  format: 'table' | 'json',
  run: { readonly signal: AbortSignal; readonly onWarning: (warning: string) => void },
): AsyncGenerator<Uint8Array> {
  const snapshot = store.snapshot();
  try {
    for (const warning of reachWarnings(snapshot, request)) run.onWarning(warning);
    const changes = changesOf(snapshot, request);
    for (const text of joined(format === 'json' ? documentOf(request, changes) : linesOf(changes))) {
      run.signal.throwIfAborted();
      yield Buffer.from(text);
      // Signals are heard between two pieces.
      await setImmediate();
    }
  } finally {
    snapshot.release();
  }
}

function* joined(pieces: Iterable<string>): Generator<string> {
  let held: string[] = [];
  for (const piece of pieces) {
    held.push(piece);
    if (held.length < heldPieces) continue;
    yield held.join('');
    held = [];
  }
  yield held.join('');
}

const columns: readonly ResultColumn[] = ['at', 'resource', 'id', 'who', 'change', 'field', 'old', 'new'].map(
  (name) => ({ name, table: null, origin: null }),
);

function* linesOf(changes: Iterable<ToldChange>): Generator<string> {
  for (const line of tableText(columns, rowsOf(changes))) yield `${line}\n`;
}

/** A row for each field that changed; one alone for a record that came or went. */
function* rowsOf(changes: Iterable<ToldChange>): Generator<Row> {
  for (const { at, resource, id, label, change, fields } of changes) {
    const head: Row = [at, resource, id, label, change];
    if (change === 'updated') for (const field of fields) yield [...head, field.field, field.old.cell, field.new.cell];
    else yield [...head, null, null, null];
  }
}

function* documentOf({ span }: ChangesRequest, changes: Iterable<ToldChange>): Generator<string> {
  yield `{\n  "since": ${JSON.stringify(span.from)},\n  "until": ${JSON.stringify(span.to)},\n  "changes": [`;
  let between = '\n';
  for (const change of changes) {
    yield `${between}    ${objectOf(change)}`;
    between = ',\n';
  }
  yield between === ',\n' ? '\n  ]\n}\n' : ']\n}\n';
}

function objectOf({ at, resource, id, label, change, fields }: ToldChange): string {
  const inner = fields.map((each) => `${JSON.stringify(each.field)}:{"old":${each.old.json},"new":${each.new.json}}`);
  // The id as it is: a number of JavaScript would not hold every one.
  return `{"at":"${at}","resource":"${resource}","id":${id},"label":${JSON.stringify(label)},"change":"${change}","fields":{${inner.join(',')}}}`;
}
