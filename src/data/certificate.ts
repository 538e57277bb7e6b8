/**
 * Writes certificates: signed documents about what a complete mirror holds. They have a hash for each window and for each day, so that
 * two nights can be compared even if windows were joined or cut in between. Section "Certificates" of docs/architecture.md.
 */
import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { z } from 'zod';
import { type DocumentForm, documentLines, inPieces, jsonOf } from '../journal/signed-document.ts';
import type { SigningKey } from '../journal/signing-key.ts';
import { counted } from '../model/text.ts';
import type { DayRange } from '../model/era.ts';
import { IncompleteError } from '../model/errors.ts';
import { type ResourceName, resourceNames, resourceOf } from '../model/resources.ts';
import { type Clock, earliest, type Timestamp, timestampOf } from '../model/time.ts';
import { version } from '../model/program.ts';
import { type DayHash, dayHashes, type HashedTables } from '../store/certified.ts';
import type { Window } from '../store/mirror-types.ts';
import { relationsIncluded } from '../store/relations.ts';
import { servedColumns } from '../store/schema.ts';
import { build, Runner } from '../store/kysely-sqlite.ts';

const certificateKind = 'admin-mirror certificate 1';

export const certificateForm: DocumentForm = { kind: 'certificate', parts: 'windows' };

const resource = z.enum(resourceNames);
const count = z.int().nonnegative();
const time = z.string() as unknown as z.ZodType<Timestamp>;

/** The statement about one resource. It also has the measured `capabilities`, on which the reading rests. */
const claim = z.looseObject({
  rows: count,
  /** Forgotten people and their emails: the server may have them, but the mirror must not. */
  kept_out: count,
  server_total: count,
  fresh_as_of: time,
  /** The run that found it complete. */
  run: z.string(),
  windows: count,
  columns: z.array(z.string()).readonly(),
  relations: z.array(z.string()).readonly(),
});

/** Scripts and older certificates rely on these shapes. */
export const headShape = z.looseObject({
  certificate: z.literal(certificateKind),
  written_at: time,
  server: z.string().nullable(),
  fresh_as_of: time.nullable(),
  /** The root of the Merkle tree over all windows. */
  root: z.string(),
  /** Equal for two certificates, or a certificate and a mirror, that use the same salt. */
  salt_id: z.string(),
  key_id: z.string(),
  resources: z.partialRecord(resource, claim),
});

/** A day of creation, the number of its rows, and their hash. The names for rows before all days, and of no calendar day, are shorter. */
const certifiedDay = z.tuple([z.string().max(10), count, z.string()]).readonly();

export const windowShape = z.looseObject({
  resource,
  /** `[from, to)`; `0000-01-01` is before all days. */
  from: z.string().length(10),
  to: z.string().length(10),
  rows: count,
  server_total: count.nullable(),
  fresh_as_of: time.nullable(),
  hash: z.string(),
  /** Only days that have rows. */
  days: z.array(certifiedDay).readonly(),
});

export type CertifiedResource = z.infer<typeof claim>;
export type CertificateHead = z.infer<typeof headShape>;
export type CertifiedDay = z.infer<typeof certifiedDay>;
export type CertifiedWindow = z.infer<typeof windowShape>;

/** The mirror, which nobody may write meanwhile, and what else a certificate needs. */
interface CertifyPorts {
  readonly store: {
    windows(resource: ResourceName): readonly Window[];
    isAltered(window: Window): boolean;
    accountedCount(resource: ResourceName): number;
    liveCount(resource: ResourceName, range?: DayRange): number;
    suppressedIds(resource: ResourceName): ReadonlySet<number>;
    freshAsOf(resource: ResourceName): Timestamp | null;
  };
  /** A connection that nothing else uses. */
  readonly database: Database;
  readonly capabilities: (resource: ResourceName) => object | null;
  readonly server: string | null;
  readonly salt: string;
  readonly key: SigningKey;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Makes the certificate. Throws an IncompleteError that names every resource that is not complete, with the reason. */
export async function certificateOf(ports: CertifyPorts, resources: readonly ResourceName[]) {
  const { salt, key, clock, server } = ports;
  const ends = lastEnds(ports.database);
  const problems = resources.flatMap((resource) => {
    const problem = incompleteness(ports, resource, ends.get(resource));
    return problem === null ? [] : [{ resource, problem }];
  });
  if (problems.length > 0) throw notComplete(resources, problems);
  const windows: CertifiedWindow[] = [];
  const claims: Partial<Record<ResourceName, CertifiedResource>> = {};
  for (const resource of resources) {
    const own = await windowsOf(ports, resource);
    windows.push(...own);
    claims[resource] = claimOf(ports, resource, own, ends.get(resource));
  }
  const head: CertificateHead = {
    certificate: certificateKind,
    version: version(),
    written_at: timestampOf(clock.now()),
    server,
    fresh_as_of: earliest(Object.values(claims).map(({ fresh_as_of }) => fresh_as_of)),
    root: rootOf(windows),
    salt_id: saltId(salt),
    key_id: key.id,
    resources: claims,
  };
  return { head, windows, bytes: inPieces(documentLines(certificateForm, head, windows, key)) };
}

function notComplete(
  resources: readonly ResourceName[],
  problems: readonly { readonly resource: ResourceName; readonly problem: string }[],
): IncompleteError {
  const others = resources.filter((each) => !problems.some(({ resource }) => resource === each));
  const some = others.length === 0 ? '' : ` The complete resources can be certified now: certify ${others.join(' ')}.`;
  const reasons = problems.map(({ resource, problem }) => `${resource}: ${problem}`).join('; ');
  return new IncompleteError(`no certificate was written, because the mirror is not complete: ${reasons}`, {
    advice: `Run \`admin-mirror sync\` until it ends with 0, then certify.${some}`,
  });
}

interface ResourceEnd {
  readonly run: string;
  readonly status: string;
  readonly server_total: number | null;
  readonly problem: string | null;
}

/** Returns how the newest run of each resource ended. */
export function lastEnds(database: Database): ReadonlyMap<string, ResourceEnd> {
  const query = build
    .selectFrom('mirror_run_resources as end')
    .innerJoin('mirror_runs as run', 'run.run', 'end.run')
    .select(['end.resource', 'end.run', 'end.status', 'end.server_total', 'end.problem'])
    .orderBy('run.rowid' as 'run.run');
  return new Map(new Runner(database).all(query).map(({ resource, ...end }) => [resource, end]));
}

/** Returns why the resource is not complete; null if it is. */
function incompleteness(
  { store }: Pick<CertifyPorts, 'store'>,
  resource: ResourceName,
  end: ResourceEnd | undefined,
): string | null {
  const windows = store.windows(resource);
  const unsettled = windows.filter(({ state }) => state !== 'settled');
  if (end === undefined || windows.length === 0) return 'it was never read';
  if (unsettled.length > 0) return `${unsettled.length} of ${counted(windows.length, 'window')} are not settled`;
  if (end.status !== 'complete') return end.problem ?? `its last run is ${end.status}`;
  if (store.freshAsOf(resource) === null) return 'some of its windows were never read whole';
  const held = store.accountedCount(resource);
  if (held !== end.server_total) {
    return `the mirror has ${counted(held, 'record')}, and the last run left ${end.server_total ?? 'none'}`;
  }
  const owned = windows.reduce((sum, window) => sum + store.liveCount(resource, window), 0);
  if (owned !== store.liveCount(resource)) return 'it has rows that no window owns';
  const altered = windows.find((window) => store.isAltered(window));
  if (altered !== undefined) return `rows of ${altered.from}..${altered.to} are not as they were read`;
  return null;
}

/** The columns and related records that this version hashes. */
function hashedTables(database: Database, resource: ResourceName): HashedTables {
  return {
    resource,
    columns: servedColumns(resourceOf(resource)),
    relations: relationsIncluded(new Runner(database), resource),
  };
}

async function windowsOf(
  { store, database, salt, signal }: CertifyPorts,
  resource: ResourceName,
): Promise<CertifiedWindow[]> {
  const { days, isDamaged } = await dayHashes(database, hashedTables(database, resource), salt, signal);
  if (isDamaged) throw notComplete([resource], [{ resource, problem: 'a row holds bytes, which no record has' }]);
  return store.windows(resource).map((window) => certifiedWindow(window, days));
}

function certifiedWindow(
  { resource, from, to, serverTotal, freshAsOf }: Window,
  all: ReadonlyMap<string, DayHash>,
): CertifiedWindow {
  const days = daysIn(all, { from, to });
  return {
    resource,
    from,
    to,
    rows: days.reduce((sum, [, rows]) => sum + rows, 0),
    server_total: serverTotal,
    fresh_as_of: freshAsOf,
    hash: daysHash(days),
    days,
  };
}

function daysIn(
  all: ReadonlyMap<string, DayHash>,
  { from, to }: { readonly from: string; readonly to: string },
): CertifiedDay[] {
  return [...all]
    .filter(([day]) => day >= from && day < to)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([day, { rows, hash: digest }]) => [day, rows, digest]);
}

function claimOf(
  { store, database, capabilities }: CertifyPorts,
  resource: ResourceName,
  windows: readonly CertifiedWindow[],
  end: ResourceEnd | undefined,
): CertifiedResource {
  const freshAsOf = store.freshAsOf(resource);
  if (end?.server_total === null || end === undefined || freshAsOf === null) {
    throw new Error(`${resource} is being certified, but is not complete`);
  }
  const { columns, relations } = hashedTables(database, resource);
  return {
    rows: windows.reduce((sum, { rows }) => sum + rows, 0),
    kept_out: store.suppressedIds(resource).size,
    server_total: end.server_total,
    fresh_as_of: freshAsOf,
    run: end.run,
    windows: windows.length,
    capabilities: capabilities(resource),
    columns,
    relations: relations.map(({ relation }) => relation),
  };
}

/** Identifies the salt without revealing it: the salt is too long to guess. */
export function saltId(salt: string): string {
  return hash('sha256', salt, 'hex').slice(0, 16);
}

export function rootOf(windows: readonly CertifiedWindow[]): string {
  return merkleRoot(windows.map(jsonOf));
}

export function daysHash(days: readonly CertifiedDay[]): string {
  return merkleRoot(days.map(([day, rows, digest]) => jsonOf([day, rows, digest])));
}

/** Returns the root of the tree of RFC 6962. With it, one part can be proven to belong to the whole without showing the others. */
function merkleRoot(parts: readonly string[]): string {
  // The prefixes 0 and 1 keep a part from passing for a node.
  let level = parts.map((part) => hash('sha256', `0${part}`, 'hex'));
  if (level.length === 0) return hash('sha256', '', 'hex');
  while (level.length > 1) {
    const above: string[] = [];
    for (let at = 0; at < level.length; at += 2) {
      const [left = '', right] = level.slice(at, at + 2);
      above.push(right === undefined ? left : hash('sha256', `1${left}${right}`, 'hex'));
    }
    level = above;
  }
  return level[0] ?? '';
}
