/** A mirror of a sandbox, and a comparison of the two, record for record. */
import { mkdirSync } from 'node:fs';
import { expect } from 'vitest';
import { type Client, openClient } from '../../src/api/operations.ts';
import { openStatus } from '../../src/mirror/open-status.ts';
import { openSyncEngine } from '../../src/mirror/open.ts';
import type { SyncEvent } from '../../src/store/mirror-types.ts';
import type { SyncRequest, SyncResult } from '../../src/mirror/sync.ts';
import { silentLog } from '../../src/model/log.ts';
import { resourceNames, resourceOf, type Field, type ResourceName } from '../../src/model/resources.ts';
import { Releases } from '../../src/model/releases.ts';
import { hourMs, systemClock, type Clock } from '../../src/model/time.ts';
import type { Settings } from '../../src/settings/settings.ts';
import type { Sandbox, SandboxOptions } from './bent/sandbox.ts';
import type { FreeSpace } from '../../src/store/files/durable-file.ts';
import type { MirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { alter, rowsOf } from './rows.ts';
import { startSandbox } from './sandbox.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface SyncTry extends Partial<SyncRequest> {
  readonly clock?: Clock;
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: SyncEvent) => void;
  readonly pageSize?: number;
  readonly historyIgnore?: readonly string[];
  readonly freeSpace?: FreeSpace;
  /** Wraps the store between the engine and the file. */
  readonly overStore?: (store: MirrorStore) => MirrorStore;
  /** The client's own time skips its waits; otherwise it retries until real time has passed. */
  readonly jumpsWaits?: boolean;
  /** The longest time for one request, ms. */
  readonly timeoutMs?: number;
}

/** A client of the sandbox that never waits. The caller closes it. */
export function testClient(sandbox: Sandbox, pageSize = 1_000, jumpsWaits = false, timeoutMs = 5_000): Client {
  let jumped = 0;
  return openClient({
    baseUrl: sandbox.url,
    key: sandbox.key,
    timeoutMs,
    concurrency: 8,
    attempts: 8,
    deadlineMs: 60_000,
    pageSize,
    userAgent: 'admin-mirror tests',
    clock: { now: () => systemClock.now() + jumped },
    log: silentLog,
    // A wait passes at once.
    sleep: (ms) => {
      // At least one whole ms: a fraction would be lost in the precision of the clock.
      if (jumpsWaits) jumped += Math.max(1, Math.ceil(ms));
      return Promise.resolve();
    },
  });
}

/** One sync in this process: the engine as the command opens it, with a client that never waits. */
export async function sync(sandbox: Sandbox, file: string, tried: SyncTry = {}): Promise<SyncResult> {
  const clock = tried.clock ?? { now: () => sandbox.control.now() };
  const client = testClient(sandbox, tried.pageSize, tried.jumpsWaits, tried.timeoutMs);
  const engine = openSyncEngine({
    client,
    file,
    clock,
    pageSize: tried.pageSize ?? 1_000,
    signal: tried.signal ?? new AbortController().signal,
    progress: tried.onEvent ?? (() => {}),
    historyIgnore: tried.historyIgnore ?? [],
    ...(tried.freeSpace === undefined ? {} : { freeSpace: tried.freeSpace }),
    ...(tried.overStore === undefined ? {} : { overStore: tried.overStore }),
  });
  try {
    return await engine.run({
      resources: resourceNames,
      mode: 'default',
      only: null,
      allowDeletions: false,
      requestsPerRun: 1_000,
      windowPages: 20,
      concurrency: 8,
      ...tried,
    });
  } finally {
    engine.close();
    await client.close();
  }
}

/** A sandbox, and where its mirror will be. */
export async function newMirror(options: SandboxOptions = {}) {
  return { sandbox: await startSandbox(options), file: `${temporaryFolder()}/mirror.db` };
}

/** A sandbox, and a mirror of it that one run filled an hour ago. */
export async function mirrored(options: SandboxOptions = {}, tried: SyncTry = {}) {
  const { sandbox, file } = await newMirror(options);
  const first = await sync(sandbox, file, tried);
  sandbox.control.advanceClock(hourMs);
  return { sandbox, file, first };
}

/** A sandbox, and a working folder with a mirror at its default path, filled by one run. */
export async function mirroredFolder(options: SandboxOptions = {}, tried: SyncTry = {}) {
  const sandbox = await startSandbox(options);
  const folder = temporaryFolder();
  mkdirSync(`${folder}/data`);
  const file = `${folder}/data/mirror.db`;
  await sync(sandbox, file, tried);
  return { sandbox, folder, file };
}

/** The expected value in the mirror: implemented again here, so that a mistake in the store is found. */
function expected(value: unknown): unknown {
  if (value === null || value === undefined) return null;
  if (typeof value === 'object') return JSON.parse(JSON.stringify(value)) as unknown;
  if (typeof value === 'boolean') return Number(value);
  return value;
}

function stored(field: Field, cell: unknown): unknown {
  const isJson =
    typeof cell === 'string' && (field.type === 'object' || field.type === 'strings' || field.type === 'any');
  if (!isJson || !/^[[{]/.test(cell)) return cell;
  return JSON.parse(cell) as unknown;
}

/** Fails unless the mirror has exactly the records of the sandbox, value for value. */
export function expectMirrored(
  sandbox: Sandbox,
  file: string,
  resources: readonly ResourceName[] = resourceNames,
): void {
  for (const resource of resources) {
    const { fields } = resourceOf(resource);
    const rows = rowsOf(file, `SELECT * FROM "${resource}" ORDER BY id`);
    const inMirror = rows.map((row) => fields.map((field) => stored(field, row[field.name])));
    const onServer = sandbox.control.dump(resource).map((record) => fields.map(({ name }) => expected(record[name])));
    // Ids first: a missing record is reported as such, not as a thousand differing rows.
    expect(inMirror.map(([id]) => id)).toEqual(onServer.map(([id]) => id));
    expect(inMirror).toEqual(onServer);
  }
}

export interface MirrorEvent {
  readonly resource: string;
  readonly kind: string;
  readonly subject: string;
  readonly detail: string;
}

/** What the runs have noted in the mirror, of one kind or of all, by resource. */
export function eventsOf(file: string, kind = '%'): MirrorEvent[] {
  const sql = 'SELECT resource, kind, subject, detail FROM mirror_events WHERE kind LIKE ? ORDER BY resource, subject';
  return rowsOf<MirrorEvent>(file, sql, kind);
}

/** What `status` says of the users. */
export function usersStatus(file: string) {
  const settings = { store: { mirror: file } } as Settings;
  return openStatus(settings, new Releases()).resources.users;
}

/** Another program's triggers in the file while a sync has it open: with them it would not be opened. */
export function underTriggers(file: string, triggers: string): Pick<SyncTry, 'overStore'> {
  const names = Array.from(triggers.matchAll(/CREATE TRIGGER (\w+)/g), ([, name]) => name);
  return {
    overStore: (store) => {
      alter(file, triggers);
      const close = (): void => {
        alter(file, names.map((name) => `DROP TRIGGER ${name};`).join(' '));
        store.close();
      };
      return { ...store, close };
    },
  };
}
