/** Publishing a mirror into a database of the tests. */
import { parseDatabaseAddress } from '../../src/model/address.ts';
import { Secret } from '../../src/model/secret.ts';
import { systemClock } from '../../src/model/time.ts';
import { check } from '../../src/data/publish/check.ts';
import type { Destination } from '../../src/data/publish/database.ts';
import { publish, type PublishPorts } from '../../src/data/publish/publish.ts';
import { restore } from '../../src/data/publish/restore.ts';
import type { TestDatabase } from './postgres.ts';

export function destinationIn({ url, password, name }: Pick<TestDatabase, 'url' | 'password' | 'name'>): Destination {
  const address = parseDatabaseAddress(url);
  if (address === undefined) throw new Error(`no address: ${url}`);
  return { address, password: new Secret(password), ca: undefined, schema: 'mirror', reader: `${name}_reader` };
}

export interface PublishTry {
  readonly whole?: boolean;
  readonly signal?: AbortSignal;
  readonly onWarning?: (text: string) => void;
  readonly onProgress?: (rows: number, all: number) => void;
}

export function portsOf(file: string, destination: Destination, tried: PublishTry = {}): PublishPorts {
  return {
    file,
    destination,
    clock: systemClock,
    signal: tried.signal ?? new AbortController().signal,
    warn: tried.onWarning ?? (() => {}),
    progress: tried.onProgress ?? (() => {}),
  };
}

export const publishTo = (file: string, destination: Destination, tried: PublishTry = {}) =>
  publish(portsOf(file, destination, tried), { whole: tried.whole ?? false });

export const checkIn = (file: string, destination: Destination) => check(portsOf(file, destination));

export const restoreTo = (file: string, destination: Destination) => restore(portsOf(file, destination));
