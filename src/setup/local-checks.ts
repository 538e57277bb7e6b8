/** Checks of this machine: settings, key, files, shared store, reports and approvers. Changes nothing. */
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type Check, type Finding, failed, ok, warn } from './check.ts';
import { blankSnapshot, checkReport, includeAdvice } from '../data/reports/run.ts';
import { journalKind } from '../journal/schema.ts';
import { openJournalForReading } from '../journal/open.ts';
import { hasRole } from '../model/actor.ts';
import { bytesText, counted } from '../model/text.ts';
import { databaseText } from '../model/address.ts';
import { FileError, OperatorError } from '../model/errors.ts';
import { explainFileError, freeSpace, refuseUnfit } from '../model/files.ts';
import type { RelationTable } from '../model/resources.ts';
import { certificatesIn, sharedStoreOf, baseUrlOf, keyOf } from '../settings/server.ts';
import { unreadMembers } from '../api/transport.ts';
import { type Settings, valueOf } from '../settings/settings.ts';
import { checkFileSoundness, type FileKind } from '../store/file-kind.ts';
import type { Snapshot } from '../data/reading.ts';
import { openReading, openReports } from '../data/open.ts';
import { withReleases } from '../model/releases.ts';
import { clockDifference, systemClock } from '../model/time.ts';
import { openPeopleForReading } from '../people/open.ts';
import { rightJournalAdvice } from '../bulk/journal-memory.ts';
import { readOtherServer } from '../bulk/open.ts';
import { openJournalDoubt } from '../bulk/open-memory.ts';
import { mirrorKind } from '../store/open.ts';

/** With less free space, the first sync of a medium-sized server may not fit. */
const littleRoomBytes = 512 * 1024 * 1024;

/** With less, nothing can be written at all: SQLite keeps a WAL file and its index beside each database. */
const noRoomBytes = 256 * 1024;

interface FileToCheck {
  readonly kind: FileKind;
  readonly path: string;
  /** The command that creates it: `sync`. */
  readonly madeBy: string;
  /** Opens it as its own commands would, and closes it; throws a FileError. */
  readonly open: () => Promise<unknown>;
  /** Throws a FileError or a UsageError if it is lost, or is not the right one. */
  readonly expect?: () => Promise<void>;
}

export const mirrorCheck: Check = {
  name: mirrorKind.name,
  run: ({ settings }) =>
    checkFile({
      kind: mirrorKind,
      path: settings.store.mirror,
      madeBy: '`sync`',
      open: () => withReleases((releases) => openReading(settings, releases).snapshot().release()),
      expect: async () => {
        const other = existsSync(settings.store.mirror) ? readOtherServer(settings) : undefined;
        if (other !== undefined) throw other;
      },
    }),
};

export const journalCheck: Check = {
  name: journalKind.name,
  run: ({ settings }) => {
    // A shared store has a check of its own.
    if (settings.store.shared !== undefined) return [];
    return checkFile({
      kind: journalKind,
      path: settings.store.journal,
      madeBy: '`bulk plan`',
      open: () => withReleases((releases) => openJournalForReading(settings, systemClock, releases)),
      expect: async () => {
        const doubt = await openJournalDoubt(settings, systemClock);
        if (doubt !== null) throw new FileError(doubt, { advice: rightJournalAdvice });
      },
    });
  },
};

async function checkFile(file: FileToCheck): Promise<Finding[]> {
  try {
    refuseUnfit(file.path);
    await file.expect?.();
    return existsSync(file.path) ? await checkExisting(file) : checkFuture(file);
  } catch (error) {
    throw explainFileError(error, 'look at', file.path) ?? error;
  }
}

async function checkExisting({ kind, path, open }: FileToCheck): Promise<Finding[]> {
  const { size, mode } = statSync(path);
  accessSync(path, constants.R_OK | constants.W_OK);
  // Whoever reads while the file is read-only leaves these read-only as well.
  const beside = ['-wal', '-shm'].map((end) => path + end).filter((each) => existsSync(each));
  const closed = beside.find((each) => (statSync(each).mode & 0o600) !== 0o600);
  if (closed !== undefined) throw new FileError(`${closed} cannot be written`, { advice: `Run: chmod 600 ${closed}` });
  // SQLite creates the WAL files beside it.
  accessSync(dirname(path), constants.W_OK);
  if (size > 0) {
    await open();
    // A file that opens may still be damaged. Find it now, while there are good backups.
    checkFileSoundness(kind, path);
  }
  return [
    ok(kind.name, `${path}: ${size === 0 ? 'empty' : bytesText(size)}`),
    ...((mode & 0o077) === 0
      ? []
      : [warn(kind.name, `${path} can be ${sharedBy(mode)} by others`, `Run: chmod 600 ${path}`)]),
    checkRoom(kind, dirname(path), size),
  ];
}

function sharedBy(mode: number): string {
  return (
    [...((mode & 0o044) === 0 ? [] : ['read']), ...((mode & 0o022) === 0 ? [] : ['changed'])].join(' and ') || 'used'
  );
}

function checkFuture({ kind, path, madeBy }: FileToCheck): Finding[] {
  const folder = folderAbove(path, path, kind.places);
  return [ok(kind.name, `${path}: does not exist yet; the first ${madeBy} creates it`), checkRoom(kind, folder, 0)];
}

/** Checks that the folder exists or can be created, is writable, and has room on its disk. */
export function checkFolder({ name, folder, places }: { name: string; folder: string; places: string }): Finding[] {
  try {
    const found = folderAbove(join(folder, 'any'), folder, places);
    const finding = found === folder ? folder : `${folder}: created when it is needed`;
    return [ok(name, finding), checkRoom({ name, places }, found, 0)];
  } catch (error) {
    return [failed(name, explainFileError(error, 'write to', folder) ?? error)];
  }
}

/** The store that several machines share: reachable, ours, with a clock that agrees and a private password file. */
export const sharedStoreCheck: Check = {
  name: 'shared store',
  run: async ({ settings }) => {
    const name = 'shared store';
    const store = sharedStoreOf(settings);
    if (store === undefined) return [];
    const { lookAtShared } = await import('../store/postgres-schema.ts');
    const found = await lookAtShared(store, journalKind);
    await withReleases(async (releases) => {
      await openJournalForReading(settings, systemClock, releases);
    });
    const where = `${databaseText(store.address)}, schema ${store.schema}, PostgreSQL ${found.server}`;
    const { sharedPasswordFile: file } = settings.store;
    const difference = clockDifference(found.aheadMs);
    const findings = [
      found.isMade || found.canBeMade
        ? ok(name, found.isMade ? where : `${where}: nothing there yet; the first \`bulk plan\` creates it`)
        : warn(name, `${where}: there is no such schema, and the user may not create it`, grantAdvice),
    ];
    if (difference !== null) {
      const advice = "Check which of the two is wrong: jobs, batches and sign-ins use the database's clock.";
      findings.push(warn(name, `the database's clock is ${difference} this machine's`, advice));
    }
    if (file !== undefined && (statSync(file).mode & 0o077) !== 0) {
      findings.push(warn(name, `${file} holds the password and can be read by others`, `Run: chmod 600 ${file}`));
    }
    return findings;
  },
};

const grantAdvice = 'Run there: GRANT CREATE ON DATABASE … TO …, or create the schema for that user.';

/** A rebuild may need room for a full copy of the file. */
function checkRoom({ name, places }: Pick<FileKind, 'name' | 'places'>, folder: string, size: number): Finding {
  const free = freeSpace(folder);
  if (free === undefined) return ok(`${name} disk`, 'the file system does not say how much is free');
  if (free >= Math.max(littleRoomBytes, size)) return ok(`${name} disk`, `${bytesText(free)} free`);
  const advice = `Make room, or name another file: ${places}.`;
  const little = `only ${bytesText(free)} free in ${folder}`;
  if (free < noRoomBytes) return failed(`${name} disk`, new FileError(little, { advice }));
  return warn(`${name} disk`, little, advice);
}

/** Returns the folder of the path, or the nearest existing one above it. Throws if it is not writable. @param what will be created */
function folderAbove(path: string, what: string, places: string): string {
  const folder = dirname(path);
  if (!existsSync(folder) && folder !== path) return folderAbove(folder, what, places);
  if (!statSync(folder).isDirectory()) {
    throw new FileError(`${what} cannot be created: ${folder} is not a folder`, { advice: `Name another: ${places}.` });
  }
  accessSync(folder, constants.W_OK);
  return folder;
}

/** The config file and all settings. */
export const settingsCheck: Check = {
  name: 'settings',
  run: ({ reading, folder }) => {
    const { value } = valueOf(reading, 'config');
    const profile = valueOf(reading, 'profile');
    const none = ok('config file', 'none; flags, environment and defaults are used');
    const there = value !== null && existsSync(resolve(folder, String(value)));
    const problems = reading.problems.map((problem) => failed('settings', problem));
    return [
      // A named file that does not exist is among the problems.
      ...(value === null ? [none] : there ? [ok('config file', String(value))] : []),
      ...(reading.rest.profile === undefined ? [] : [ok('profile', `${String(profile.value)} (${profile.origin})`)]),
      ...(problems.length > 0 ? problems : [ok('settings', 'every value is understood')]),
      ...reading.warnings.map((each) => warn('settings', each)),
      ...reading.rest.rivals.map((each) =>
        warn(
          'profile',
          `${each} has the same server, with a journal of its own: nothing can be changed on that server`,
        ),
      ),
    ];
  },
};

export const addressCheck: Check = {
  name: 'base address',
  run: ({ reading, settings }) => {
    const { value, origin } = valueOf(reading, 'api.base_url');
    // A refused address is among the problems of the settings.
    if (value !== null && settings.api.baseUrl === undefined) return [];
    return [ok('base address', `${baseUrlOf(settings)} (${origin})`)];
  },
};

export const keyCheck: Check = {
  name: 'key',
  run: ({ reading, settings }) => {
    const { key, warnings } = keyOf(settings);
    const found = ok('key', `${key.toString()} (${valueOf(reading, 'api.key').origin})`);
    return [found, ...warnings.map((each) => warn('key', each))];
  },
};

export const proxyCheck: Check = {
  name: 'proxy',
  run: ({ settings: { network } }) => {
    const { proxy, noProxy } = network;
    if (proxy === undefined) return [];
    const without = noProxy === undefined ? '' : `, except for ${noProxy}`;
    const found = ok('proxy', `${proxy.host} for https addresses${without}`);
    const unread = unreadMembers(noProxy ?? '').join(', ');
    if (unread === '') return [found];
    const advice = 'Write names, or ranges such as 10.0.0.0/8.';
    return [found, warn('proxy', `${unread} in NO_PROXY is no host and no range`, advice)];
  },
};

export const certificatesCheck: Check = {
  name: 'certificates',
  run: ({ reading, settings }) => {
    const { caFile } = settings.network;
    if (caFile === undefined) return [];
    const count = counted(certificatesIn(caFile).length, 'more certificate');
    return [ok('certificates', `${count} to trust (${valueOf(reading, 'network.ca_file').origin})`)];
  },
};

/** Fails for each broken report, with one line about all others. Runs none of them. */
export const reportsCheck: Check = {
  name: 'reports',
  run: async ({ settings }) => {
    const name = 'reports';
    const { reports, broken, replaced } = await openReports(settings);
    return await withReleases(async (releases) => {
      const blank = blankSnapshot();
      releases.add({ close: () => blank.release() });
      const mirror = await mirrorOf(settings);
      if (mirror !== undefined) releases.add({ close: () => mirror.release() });
      const found = reports.map((report) => ({ report, ...checkReport(report, mirror, blank) }));
      const wrong = found.filter(({ problems }) => problems.length > 0);
      const idle = found.filter(({ problems, off }) => problems.length === 0 && off.length > 0);
      const spoilt = [...broken, ...wrong.map(({ report, problems }) => ({ ...report, problems }))];
      return [
        ok(name, summary(found.length + broken.length, spoilt.length, idle)),
        ...spoilt.map(({ file, problems }) => failed(name, new FileError(`${file}: ${problems.join('; ')}`))),
        ...replaced.map((each) => warn(name, `${each} is your own, and replaces the one that comes with the program`)),
      ];
    });
  },
};

/** Returns undefined if there is no readable mirror, which another check reports. */
async function mirrorOf(settings: Settings): Promise<Snapshot | undefined> {
  if (!existsSync(settings.store.mirror)) return undefined;
  try {
    return await withReleases(async (releases) => openReading(settings, releases).snapshot());
  } catch (error) {
    if (error instanceof OperatorError) return undefined;
    throw error;
  }
}

function summary(all: number, spoilt: number, idle: readonly { readonly off: readonly RelationTable[] }[]): string {
  const sound = `${all - spoilt} of ${all} can be run`;
  if (idle.length === 0) return spoilt === 0 ? `${all}, each as its header says` : sound;
  const tables = new Map(idle.flatMap(({ off }) => off.map((each) => [each.table, each])));
  return `${all - spoilt - idle.length} of ${all} can be run; for ${idle.length} more: ${includeAdvice([...tables.values()])}`;
}

/** There are enough approvers for the policies, and nobody could act as two people. */
export const approvalCheck: Check = {
  name: 'approval',
  run: async ({ settings }) => {
    const policies = Object.entries(settings.bulk.approval);
    if (policies.length === 0) return [];
    const accounts = await withReleases(
      async (releases) => (await openPeopleForReading(settings, systemClock, releases))?.accounts() ?? [],
    );
    const able = accounts.filter((each) => hasRole(each, 'approver') && each.passwordAt !== null).length;
    const needed = Math.max(...policies.map(([, { approvers }]) => approvers));
    const finding = `${policies.map(([name]) => name).join(', ')}: by up to ${needed} of ${counted(able, 'approver')}`;
    if (able < needed) {
      const advice = 'Add approvers with `admin-mirror people add`, and give each a password.';
      return [warn('approval', `${finding}, so some batches can never be sent`, advice)];
    }
    // Whoever sets passwords can sign in as somebody else, and no rule can tell such an approval from a real one.
    const mayActAsTwo = accounts.filter(
      (each) => hasRole(each, 'admin') && (hasRole(each, 'maker') || hasRole(each, 'approver')),
    );
    if (mayActAsTwo.length === 0) return [ok('approval', finding)];
    const names = mayActAsTwo.map(({ name }) => name).join(', ');
    return [
      warn(
        'approval',
        `${finding}; ${names} may make or approve batches and, as admin, set the passwords of others: one person could act as two`,
        'Give the role admin to somebody without the roles maker and approver: `admin-mirror people role`. ' +
          '`admin-mirror audit` shows each account that was added and each password that was set, with who did it.',
      ),
    ];
  },
};
