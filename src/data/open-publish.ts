/** Opens publishing with the settings. Apart from open.ts, because this loads the PostgreSQL driver. */
import { UsageError } from '../model/errors.ts';
import { networkOf, secretIn } from '../settings/server.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { check } from './publish/check.ts';
import type { Destination } from './publish/database.ts';
import { publish } from './publish/publish.ts';
import { publishedIn, restore, renewWorkingCopy, workingCopyOf } from './publish/restore.ts';

/** @param progress called with the share of the work that is done, from 0 to 1 */
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
    /** Must never be printed. */
    password: destination.password,
    publish: (request: { readonly whole: boolean }) => publish({ ...ports, file }, request),
    check: () => check({ ...ports, file }),
    /** When the mirror was last published; null if never. */
    publishedAt: async () => (await publishedIn(destination, signal))?.at ?? null,
    /** Makes a mirror file at the path from what is published. */
    restore: (target: string) => restore({ ...ports, file: target }),
    /** How this machine's mirror compares with what is published. */
    compare: () => workingCopyOf(file, destination, signal),
    /** Replaces this machine's mirror by what is published. */
    renew: () => renewWorkingCopy({ ...ports, file }),
  };
}

function destinationOf(settings: Settings): Destination {
  const { url: address, password, passwordFile, schema, reader } = settings.publish;
  if (address === undefined) {
    throw new UsageError('no database is set to publish to', {
      advice: 'Set publish.url, as in postgresql://publisher@db.example.com/analytics: docs/publish.md.',
    });
  }
  const secret = secretIn(password, passwordFile, 'publish.password');
  return { address, password: secret, ca: networkOf(settings).ca, schema, reader };
}
