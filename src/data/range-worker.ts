/** A thread that reads ranges of a table from its own snapshot and gives them back as pieces of the export. */
import { parentPort, workerData } from 'node:worker_threads';
import { failureOf } from '../model/failure.ts';
import type { ReadingModule, ReadingStore, Snapshot } from '../store/reading-types.ts';
import type { EncodedPiece } from './encoding.ts';
import { openRangeReader } from './range-reader.ts';
import type { RangeReply, RangeRequest, RangeWorkerData, TaskRange } from './range-task.ts';

const port = parentPort;
if (port === null) throw new Error('range-worker runs as a worker thread only');
const { source } = workerData as RangeWorkerData;
const { openReadingStore } = (await import(source.module)) as ReadingModule;
let store: ReadingStore | undefined;
let snapshot: Snapshot | undefined;
let read: ((asked: TaskRange) => EncodedPiece) | undefined;

const nothing = (): EncodedPiece => ({ bytes: new Uint8Array(0), rows: 0 });

async function answer(request: RangeRequest): Promise<EncodedPiece> {
  if (request === 'begin') {
    snapshot?.release();
    store ??= openReadingStore(source.file);
    snapshot = store.snapshot();
    return nothing();
  }
  if ('task' in request) {
    if (snapshot === undefined) throw new Error('a table was named before a snapshot');
    read = await openRangeReader(snapshot, request.task);
    return nothing();
  }
  if (read === undefined) throw new Error('a range was asked for before its table');
  return read(request);
}

async function reply(request: RangeRequest): Promise<void> {
  try {
    const piece = await answer(request);
    port?.postMessage(piece satisfies RangeReply, [piece.bytes.buffer as ArrayBuffer]);
  } catch (error) {
    port?.postMessage({ failure: failureOf(error) } satisfies RangeReply);
  }
}

let last = Promise.resolve();
// Requests are answered in their order, though a table takes a moment to open.
port.on('message', (request: RangeRequest) => {
  last = last.then(() => reply(request));
});
