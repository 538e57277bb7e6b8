/** Publishing with the settings. Apart from what only reads, since it loads the driver of PostgreSQL. */
import { UsageError } from '../model/errors.ts';
import { networkOf, passwordIn } from '../settings/server.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { check } from './publish/check.ts';
import type { Destination } from './publish/database.ts';
import { publish } from './publish/publish.ts';
import { publishedIn, restore, renewWorkingCopy, workingCopyOf } from './publish/restore.ts';

/** @param progress called with how much of the work is done, from 0 to 1 */
export function openPublisher({ settings, clock, signal, log }: Surroundings, progress: (share: number) => void) {
  const destination = destinationOf(settings);
  const ports = {
    destination,
    clock,
    signal,
    warn: (text: string) => log.warn({}, text),
    progress: (rows: number, all: number) => progress(all === 0 ? 1 : Math.min(1, rows / all)),
  };
  const { mirror: file } = settings.store;
  return {
    /** What must stand in nothing that is printed. */
    password: destination.password,
    publish: (request: { readonly whole: boolean }) => publish({ ...ports, file }, request),
    check: () => check({ ...ports, file }),
    /** When it was published last; null where it never was. */
    publishedAt: async () => (await publishedIn(destination, signal))?.at ?? null,
    /** Makes the mirror at the path from what is published. */
    restore: (target: string) => restore({ ...ports, file: target }),
    /** How the mirror of this machine stands to what is published. */
    compare: () => workingCopyOf(file, destination, signal),
    /** Puts what is published in the place of the mirror of this machine. */
    renew: () => renewWorkingCopy({ ...ports, file }),
  };
}

function destinationOf(settings: Settings): Destination {
  const { url: address, password, passwordFile, schema, reader, servers } = settings.publish;
  if (address === undefined) {
    throw new UsageError('no database is set to publish to', {
      advice: 'Set publish.url, as in postgresql://publisher@db.example.com/analytics: docs/publish.md.',
    });
  }
  const fromFile = () =>
    passwordFile === undefined
      ? undefined
      : passwordIn(passwordFile, 'password file', 'Correct publish.password_file.');
  const { ca } = networkOf(settings);
  return { address, password: password ?? fromFile(), ca, schema, reader, ...(servers !== undefined && { servers }) };
}
