/** Every state that a run commits to its mirror, as the files that a process killed at that moment leaves. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { MirrorStore } from '../../src/mirror/store/mirror-store.ts';

export interface Checkpoint {
  /** The store's step that made the state. */
  readonly step: string;
  readonly database: Buffer;
  readonly log: Buffer;
}

function contentOf(path: string): Buffer {
  return existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
}

function digestOf(...parts: readonly Buffer[]): string {
  return parts.map((part) => createHash('sha1').update(part).digest('base64')).join(' ');
}

/** The same store; after each of its steps the files are read, and kept if they changed. */
export function watched(store: MirrorStore, file: string): { store: MirrorStore; checkpoints: Checkpoint[] } {
  const checkpoints: Checkpoint[] = [];
  const met = new Set<string>();
  const look = (step: string): void => {
    const [database, log] = [contentOf(file), contentOf(`${file}-wal`)];
    const digest = digestOf(database, log);
    if (met.has(digest)) return;
    met.add(digest);
    checkpoints.push({ step, database, log });
  };
  look('open');
  const proxy = new Proxy(store, {
    get(target, name, receiver) {
      const value: unknown = Reflect.get(target, name, receiver);
      if (typeof value !== 'function') return value;
      return (...given: unknown[]): unknown => {
        const result: unknown = Reflect.apply(value, target, given);
        // Reads and a closed connection commit nothing.
        if (name !== 'close') look(String(name));
        return result;
      };
    },
  });
  return { store: proxy, checkpoints };
}

/**
 * Writes the state into its own file, as its dead owner left it: the file that this process has locked is another one.
 */
export function restore({ database, log }: Checkpoint, file: string): void {
  writeFileSync(file, database);
  writeFileSync(`${file}-wal`, log);
}

/** The state after a power failure: the last part of the log that was not yet synced may be lost, cut anywhere. */
export function withoutEnd(checkpoint: Checkpoint, share: number): Checkpoint {
  const { step, log } = checkpoint;
  return { ...checkpoint, step: `${step}, its log cut`, log: log.subarray(0, Math.floor(log.length * (1 - share))) };
}
