/** The mirror and the journal as something to be copied. Fills src/data/copy-types.ts. */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { resourceNames, type ResourceName } from '../model/resources.ts';
import { earliest, type Clock, type Timestamp } from '../model/time.ts';
import type { CopyContents, CopySource, MirrorCopySource } from './copy-types.ts';
import { writeAnonymousCopy } from './anonymous-copy.ts';
import { checkCopy, copyFile } from './copy.ts';
import type { FileKind } from '../store/file-kind.ts';
import { journalKind } from '../journal/schema.ts';
import { mirrorKind } from '../store/migrations.ts';
import { openMirrorForReading } from '../store/open.ts';
import { quoteName } from '../store/schema.ts';
import { build, Runner } from '../store/tables.ts';

/** The mirror at `file`, to be copied. */
export function mirrorToCopy(file: string, clock: Clock): MirrorCopySource {
  return {
    ...toCopy(mirrorKind, file),
    copyAnonymous: async (target, run, thoroughness) => {
      await writeAnonymousCopy(file, target, clock, run);
      checkCopy(mirrorKind, target, thoroughness === 'whole' ? 'whole' : 'rows');
    },
    contents,
  };
}

/** The journal at `file`, to be copied. */
export function journalToCopy(file: string): CopySource {
  return toCopy(journalKind, file);
}

function toCopy(kind: FileKind, file: string): CopySource {
  return {
    name: kind.name,
    file,
    size: () => {
      const bytes = sizeOf(file);
      return bytes === 0 ? undefined : bytes + sizeOf(`${file}-wal`);
    },
    replaceable: (path) => isCopyOf(kind, path),
    copy: (target, run, thoroughness) => copyFile(kind, file, target, run, thoroughness),
  };
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

/** Places in the header of an SQLite file (https://www.sqlite.org/fileformat.html). */
const header = { magic: 'SQLite format 3\0', writeVersion: 18, applicationId: 68, length: 100 } as const;
const withoutLog = 1;

/** By its first bytes alone: opening it would be using it. A file with a log, or with changes in hand, is one in use. */
function isCopyOf(kind: FileKind, path: string): boolean {
  if (sizeOf(path) === 0) return true;
  if (sizeOf(`${path}-wal`) > 0 || sizeOf(`${path}-journal`) > 0) return false;
  const bytes = Buffer.alloc(header.length);
  const handle = openSync(path, 'r');
  try {
    readSync(handle, bytes, 0, header.length, 0);
  } finally {
    closeSync(handle);
  }
  return (
    bytes.toString('latin1', 0, header.magic.length) === header.magic &&
    bytes[header.writeVersion] === withoutLog &&
    bytes.readUInt32BE(header.applicationId) === kind.applicationId
  );
}

function contents(copy: string): CopyContents {
  const database = openMirrorForReading(copy);
  try {
    const fresh = new Map(
      new Runner(database)
        .all(build.selectFrom('mirror_freshness').select(['resource', 'fresh_as_of']))
        .map((row) => [row.resource, row.fresh_as_of as Timestamp | null]),
    );
    const resources: Partial<Record<ResourceName, { rows: number; fresh_as_of: Timestamp | null }>> = {};
    for (const name of resourceNames) {
      const rows =
        database
          .prepare<[], number>(`SELECT count(*) FROM ${quoteName(name)}`)
          .pluck()
          .get() ?? 0;
      resources[name] = { rows, fresh_as_of: fresh.get(name) ?? null };
    }
    const times = Object.values(resources).map((each) => each.fresh_as_of);
    return { bytes: sizeOf(copy), fresh_as_of: earliest(times), resources };
  } finally {
    database.close();
  }
}
