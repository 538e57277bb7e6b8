/** A thread that reads ranges of a table from its own snapshot and gives them back as the text of the export. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Mask, RangedRows, ReadingModule, ReadingStore, Snapshot } from '../store/ports/reading.ts';
import { tableLines, type Lines } from './encoder.ts';
import { failureOf } from '../model/failure.ts';
import type { EncodedRange, RangeReply, RangeRequest, RangeTask } from './range-task.ts';

const port = parentPort;
if (port === null) throw new Error('range-worker runs as a worker thread only');
const task = workerData as RangeTask;
const { openReadingStore } = (await import(task.source.module)) as ReadingModule;
const { mask } = task.source;
const masked = mask === undefined ? same : await masking(mask);
const encoder = new TextEncoder();
let store: ReadingStore | undefined;
let current: { readonly snapshot: Snapshot; readonly ranged: RangedRows; readonly lines: Lines } | undefined;

function same(store: ReadingStore): ReadingStore {
  return store;
}

async function masking(mask: Mask): Promise<typeof same> {
  const { maskedStore } = await import('./mask.ts');
  return (store) => maskedStore(store, mask);
}

function begin(): EncodedRange {
  current?.snapshot.release();
  store ??= masked(openReadingStore(task.source.file));
  const snapshot = store.snapshot();
  const ranged = snapshot.selectRanges(task.relation, task.columns);
  current = { snapshot, ranged, lines: tableLines(task.style, ranged.columns) };
  return { bytes: new Uint8Array(0), rows: 0 };
}

function answer(request: RangeRequest): EncodedRange {
  if (request === 'begin') return begin();
  if (current === undefined) throw new Error('a range was asked for before a snapshot');
  const rows = current.ranged.rowsIn(request);
  return { bytes: encoder.encode(current.lines(rows)), rows: rows.length };
}

port.on('message', (request: RangeRequest) => {
  try {
    const reply = answer(request);
    port.postMessage(reply satisfies RangeReply, [reply.bytes.buffer as ArrayBuffer]);
  } catch (error) {
    port.postMessage({ failure: failureOf(error) } satisfies RangeReply);
  }
});
