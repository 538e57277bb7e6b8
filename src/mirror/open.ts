/** Opens what syncs and compares a mirror, as every command and every test does. */
import type { Client } from '../api/client.ts';
import type { FreeSpace } from '../store/files/disk-space.ts';
import type { MirrorStore } from '../store/mirror-types.ts';
import type { Clock } from '../model/time.ts';
import { apiSource } from './api-source.ts';
import { openPageReader, type PageReader } from './page-reader.ts';
import type { SyncProgress } from './progress.ts';
import { runSync, type SyncRequest, type SyncResult } from './run.ts';
import type { Source } from './source.ts';
import { openMirrorStore } from './store/mirror-store.ts';
import { openVerifyStore } from './store/verify-store.ts';
import { verify, type VerifyRequest, type VerifyResult } from './verify.ts';

export interface EngineOptions {
  /** The caller closes it. */
  readonly client: Client;
  /** The mirror. */
  readonly file: string;
  /** Records asked for on a page at the most. */
  readonly pageSize: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly progress: SyncProgress;
  /** What makes pages of responses; a thread unless told. */
  readonly readPages?: PageReader;
  /** What stands between the engine and the server. */
  readonly overSource?: (source: Source) => Source;
}

export interface Engine<Request, Result> {
  run(request: Request): Promise<Result>;
  close(): void;
}

export interface SyncEngineOptions extends EngineOptions {
  /** Fields whose change alone makes no version in the history. */
  readonly historyIgnore: readonly string[];
  /** What stands between the engine and the file. */
  readonly overStore?: (store: MirrorStore) => MirrorStore;
  /** As the system says, unless told. */
  readonly freeSpace?: FreeSpace;
}

function sourceOf(options: EngineOptions): Source {
  const { client, pageSize, clock, readPages = openPageReader(), overSource = (source) => source } = options;
  return overSource(apiSource(client, pageSize, clock, readPages));
}

/** Opens what runs a sync; the mirror is made where there is none. Throws a FileError. */
export function openSyncEngine(options: SyncEngineOptions): Engine<SyncRequest, SyncResult> {
  const { client, file, clock, signal, progress, historyIgnore, freeSpace, overStore = (store) => store } = options;
  const source = sourceOf(options);
  const store = overStore(openMirrorStore(file, clock, { historyIgnore }));
  const space = freeSpace === undefined ? {} : { freeSpace };
  const ports = { source, store, clock, signal, progress, counts: () => client.counters, ...space };
  return { run: (request) => runSync(ports, request), close: () => store.close() };
}

/** Opens what compares a mirror with its server; it cannot write to it. Throws a FileError where there is none. */
export function openVerifyEngine(options: EngineOptions): Engine<VerifyRequest, VerifyResult> {
  const { client, file, clock, signal, progress } = options;
  const store = openVerifyStore(file);
  const ports = { source: sourceOf(options), store, clock, signal, progress, counts: () => client.counters };
  return { run: (request) => verify(ports, request), close: () => store.close() };
}
