/** Publishing with the settings. Apart from what only reads, since it loads the driver of PostgreSQL. */
import { UsageError } from '../model/errors.ts';
import type { Secret } from '../model/secret.ts';
import type { Timestamp } from '../model/time.ts';
import { networkOf } from '../settings/network.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { passwordIn } from '../settings/shared.ts';
import { check, type CheckReport } from './publish/check.ts';
import type { Destination } from './publish/database.ts';
import { publish, type PublishReport } from './publish/publish.ts';
import { publishedAt, restore, type RestoreReport } from './publish/restore.ts';
import { renewWorkingCopy, type WorkingCopy, workingCopyOf } from './publish/working-copy.ts';

interface Publisher {
  /** What must stand in nothing that is printed. */
  readonly password: Secret | undefined;
  readonly publish: (request: { readonly whole: boolean }) => Promise<PublishReport>;
  readonly check: () => Promise<CheckReport>;
  /** When it was published last; null where it never was. */
  readonly publishedAt: () => Promise<Timestamp | null>;
  /** Makes the mirror at the path from what is published. */
  readonly restore: (file: string) => Promise<RestoreReport>;
  /** How the mirror of this machine stands to what is published. */
  readonly compare: () => Promise<WorkingCopy>;
  /** Puts what is published in the place of the mirror of this machine. */
  readonly renew: () => Promise<RestoreReport>;
}

/** @param progress called with how much of the work is done, from 0 to 1 */
export function openPublisher(
  { settings, clock, signal, log }: Surroundings,
  progress: (share: number) => void,
): Publisher {
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
    password: destination.password,
    publish: (request) => publish({ ...ports, file }, request),
    check: () => check({ ...ports, file }),
    publishedAt: () => publishedAt(destination, signal),
    restore: (target) => restore({ ...ports, file: target }),
    compare: () => workingCopyOf(file, destination, signal),
    renew: () => renewWorkingCopy({ ...ports, file }),
  };
}

function destinationOf(settings: Settings): Destination {
  const { address, password, passwordFile, schema, reader, servers } = settings.publish;
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
