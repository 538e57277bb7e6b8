/** Changes as a table for a person, as lines of another format, or as one JSON document. */
import { Buffer } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';
import type { ReadingStore, ResultColumn, Row } from '../store/reading-types.ts';
import { type ChangesRequest, changesOf, reachWarnings, type ToldChange } from './changes.ts';
import type { QueryFormat } from './formats.ts';
import { header, type Lines, resultLines } from './text-lines.ts';
import { tableText } from './text-table.ts';

/** Pieces of text that are written at a time. */
const heldPieces = 100;

export interface ChangesForm {
  readonly format: QueryFormat;
  /** Columns of the terminal that a table is to fit in; undefined where nothing is cut. */
  readonly room: number | undefined;
}

/**
 * What `changes` prints, in pieces; holds no more of the changes than a screen or two. CSV and TSV have the columns of the
 * table, JSON lines an object for each change.
 * @param onWarning told what the operator should know of the answer
 */
export async function* changesChunks(
  store: ReadingStore,
  request: ChangesRequest,
  { format, room }: ChangesForm,
  run: { readonly signal: AbortSignal; readonly onWarning: (warning: string) => void },
): AsyncGenerator<Uint8Array> {
  const snapshot = store.snapshot();
  try {
    for (const warning of reachWarnings(snapshot, request)) run.onWarning(warning);
    const changes = changesOf(snapshot, request);
    for await (const text of textsOf(request, changes, { format, room })) {
      run.signal.throwIfAborted();
      yield Buffer.from(text);
      // Signals are heard between two pieces.
      await setImmediate();
    }
  } finally {
    snapshot.release();
  }
}

async function* textsOf(
  request: ChangesRequest,
  changes: Iterable<ToldChange>,
  { format, room }: ChangesForm,
): AsyncGenerator<string> {
  switch (format) {
    case 'table':
      return yield* joined(ended(tableText(columns, rowsOf(changes), room)));
    case 'csv':
    case 'tsv': {
      const style = { format, raw: false };
      const write = await resultLines(style, columns);
      yield await header(style, columns);
      return yield* joined(written(changes, write));
    }
    case 'jsonl':
      return yield* joined(ended(objectsOf(changes)));
    case 'json':
      return yield* joined(documentOf(request, changes));
  }
}

function* ended(lines: Iterable<string>): Generator<string> {
  for (const line of lines) yield `${line}\n`;
}

function* written(changes: Iterable<ToldChange>, write: Lines): Generator<string> {
  for (const row of rowsOf(changes)) yield write([row]);
}

function* objectsOf(changes: Iterable<ToldChange>): Generator<string> {
  for (const change of changes) yield objectOf(change);
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
