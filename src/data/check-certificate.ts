/** Checks certificates: alone, against a mirror, against each other. Section "Certificates" of docs/architecture.md. */
import type { Database } from 'better-sqlite3';
import {
  firstDifference,
  jsonOf,
  LineReader,
  NoDocument,
  readDocument,
  signatureProblems,
} from '../journal/signed-document.ts';
import type { CheckingKey } from '../journal/signing-key.ts';
import { counted } from '../model/text.ts';
import { IncompleteError, UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/files.ts';
import { relationTable, type ResourceName, resourceNames } from '../model/resources.ts';
import { type DayHash, dayHashes, saltRecord } from '../store/certified.ts';
import { quoteName } from '../store/schema.ts';
import { build, Runner } from '../store/kysely-sqlite.ts';
import {
  type CertificateHead,
  certificateForm,
  type CertifiedResource,
  type CertifiedWindow,
  daysHash,
  headShape,
  lastEnds,
  rootOf,
  saltId,
  windowShape,
} from './certificate.ts';

/** A day whose rows differ, with the number of its rows; null if there are none. */
interface DifferingDay {
  readonly day: string;
  readonly before: number | null;
  readonly now: number | null;
}

export interface DifferingWindow {
  readonly resource: ResourceName;
  readonly from: string;
  readonly to: string;
  readonly days: readonly DifferingDay[];
}

interface MirrorComparison {
  readonly status: 'same' | 'different';
  /** Whether a run has read any of it since; then a difference may come from the server. */
  readonly read_again: boolean;
  readonly windows: readonly DifferingWindow[];
  /** Other differences from the certificate. */
  readonly problems: readonly string[];
}

/** Reads a whole certificate. If there are problems, nothing in it can be trusted. Throws a FileError. */
async function readCertificate(file: string, key: CheckingKey, signal: AbortSignal) {
  const lines = new LineReader(file, signal);
  const windows: CertifiedWindow[] = [];
  const problems: string[] = [];
  let head: CertificateHead | null = null;
  try {
    const shapes = { head: headShape, part: windowShape };
    const document = readDocument(lines, await lines.next(), certificateForm, shapes);
    head = document.head;
    for await (const window of document.parts) windows.push(window);
    const signed = { ...document.signed(), what: 'it says' };
    await lines.end();
    problems.push(...signatureProblems(key, head, [signed]), ...contradictions(head, windows));
  } catch (error) {
    if (!(error instanceof NoDocument)) throw explainFileError(error, 'read the certificate', file) ?? error;
    // Any further problem would only follow from this one.
    return { head, windows: [], problems: [`line ${lines.number}: ${error.message}`] };
  } finally {
    await lines.close();
  }
  return { head, windows, problems };
}

/** Returns where the certificate contradicts itself: whoever has the key could sign such a one. */
function contradictions(head: CertificateHead, windows: readonly CertifiedWindow[]): string[] {
  const problems: string[] = [];
  if (rootOf(windows) !== head.root) problems.push(`its windows do not make the root ${head.root}`);
  const counts = new Map<ResourceName, { rows: number; windows: number }>();
  let last: CertifiedWindow | undefined;
  for (const window of windows) {
    const { from, to, rows, days } = window;
    const sum = counts.get(window.resource) ?? { rows: 0, windows: 0 };
    counts.set(window.resource, { rows: sum.rows + rows, windows: sum.windows + 1 });
    const isBehind = last?.resource === window.resource && last.to > from;
    const inOrder = days.every(([each], at) => each >= from && each < to && each > (days[at - 1]?.[0] ?? ''));
    const isSum = days.reduce((all, [, each]) => all + each, 0) === rows && daysHash(days) === window.hash;
    if (isBehind || !inOrder || !isSum || from >= to) {
      problems.push(`${wordsOf(window)}: its days do not make the window`);
    }
    last = window;
  }
  for (const [name, { rows, windows: all }] of Object.entries(head.resources)) {
    const found = counts.get(name as ResourceName) ?? { rows: 0, windows: 0 };
    if (found.rows === rows && found.windows === all) continue;
    problems.push(
      `it says that ${name} has ${counted(rows, 'row')} in ${counted(all, 'window')}, but its windows say otherwise`,
    );
  }
  for (const name of counts.keys()) {
    if (head.resources[name] === undefined) problems.push(`it has windows of ${name}, but no statement about it`);
  }
  return problems;
}

export function wordsOf({ resource: name, from, to }: Pick<DifferingWindow, 'resource' | 'from' | 'to'>): string {
  return `${name} ${from}..${to}`;
}

/** Checks the certificate, then the mirror against it. @param mirror a connection that nothing else uses; undefined if there is no mirror */
export async function checkCertificate(
  file: string,
  key: CheckingKey,
  mirror: Database | undefined,
  signal: AbortSignal,
) {
  const { head, windows, problems } = await readCertificate(file, key, signal);
  const checked = (status: 'genuine' | 'refused', compared: MirrorComparison | string) => ({
    status,
    /** Trustworthy only if the status is genuine; null if the file cannot be read. */
    head,
    problems,
    /** Null if it was not compared with a mirror. */
    mirror: typeof compared === 'string' ? null : compared,
    not_compared: typeof compared === 'string' ? compared : null,
  });
  if (head === null || problems.length > 0) return checked('refused', 'it is not as it was signed');
  if (mirror === undefined) return checked('genuine', 'there is no mirror');
  // Reads one state, whoever writes meanwhile.
  mirror.exec('BEGIN');
  try {
    const salt = saltIn(mirror);
    const isOther = salt === undefined || saltId(salt) !== head.salt_id;
    return checked('genuine', isOther ? otherSalt : await compareMirror(mirror, head, windows, salt, signal));
  } finally {
    if (mirror.inTransaction) mirror.exec('ROLLBACK');
  }
}

const otherSalt =
  'the mirror has another salt: it is another mirror, was built anew, is an anonymised copy, or somebody was forgotten since';

function saltIn(database: Database): string | undefined {
  const query = build
    .selectFrom('mirror_capabilities')
    .select('value')
    .where('name', '=', saltRecord)
    .where('resource', '=', '');
  const found = new Runner(database).first(query);
  return found === undefined ? undefined : String(JSON.parse(found.value));
}

async function compareMirror(
  database: Database,
  head: CertificateHead,
  windows: readonly CertifiedWindow[],
  salt: string,
  signal: AbortSignal,
): Promise<MirrorComparison> {
  const ends = lastEnds(database);
  const problems: string[] = [];
  const differing: DifferingWindow[] = [];
  let readAgain = false;
  for (const [name, claim] of Object.entries(head.resources) as [ResourceName, CertifiedResource][]) {
    const missing = missingIn(database, name, claim);
    if (missing !== undefined) {
      problems.push(`the mirror has no ${missing}: run a sync with this version`);
      continue;
    }
    const relations = claim.relations.map((relation) => relationTable(name, relation));
    const { days } = await dayHashes(database, { resource: name, columns: claim.columns, relations }, salt, signal);
    const own = windows.filter((window) => window.resource === name);
    differing.push(...differences(name, daysOf(own), days, own));
    if (ends.get(name)?.run === claim.run) problems.push(...changedWindows(database, name, own));
    else readAgain = true;
  }
  const isSame = differing.length === 0 && problems.length === 0;
  return { status: isSame ? 'same' : 'different', read_again: readAgain, windows: differing, problems };
}

function missingIn(database: Database, name: ResourceName, { columns, relations }: CertifiedResource) {
  const known = database.prepare<[string], string>('SELECT name FROM pragma_table_info(?)').pluck();
  const own = new Set(known.all(name));
  const column = columns.find((each) => !own.has(each));
  if (column !== undefined) return `column ${quoteName(column)} in ${name}`;
  const tables = relations.map((relation) => relationTable(name, relation).table);
  const absent = tables.find((each) => known.all(each).length === 0);
  return absent === undefined ? undefined : `table ${quoteName(absent)}`;
}

/** Compares the windows of a resource that no run has read since: they cannot have changed. */
function changedWindows(database: Database, name: ResourceName, own: readonly CertifiedWindow[]): string[] {
  const query = build
    .selectFrom('mirror_windows')
    .select(['from_day as from', 'to_day as to', 'server_total', 'fresh_as_of', 'state'])
    .where('resource', '=', name)
    .orderBy('from_day');
  const found = new Map(new Runner(database).all(query).map((row) => [row.from, row]));
  const problems = own.flatMap((window) => {
    const row = found.get(window.from);
    found.delete(window.from);
    if (row === undefined) return [`${wordsOf(window)}: the mirror has no such window`];
    const difference = firstDifference({ ...window, state: 'settled' }, row, 'the mirror');
    return difference === null ? [] : [`${wordsOf(window)}: ${difference}`];
  });
  return [
    ...problems,
    ...[...found.values()].map((row) => `${wordsOf({ resource: name, ...row })}: the certificate has no such window`),
  ];
}

function daysOf(windows: readonly CertifiedWindow[]): ReadonlyMap<string, DayHash> {
  return new Map(windows.flatMap(({ days }) => days.map(([each, rows, hash]) => [each, { rows, hash }] as const)));
}

/** Returns the windows with days that differ. A day outside of all windows counts as one of its own. */
function differences(
  name: ResourceName,
  before: ReadonlyMap<string, DayHash>,
  now: ReadonlyMap<string, DayHash>,
  windows: readonly Pick<CertifiedWindow, 'from' | 'to'>[],
): DifferingWindow[] {
  const days = [...new Set([...before.keys(), ...now.keys()])].filter(
    (each) => before.get(each)?.hash !== now.get(each)?.hash || before.get(each)?.rows !== now.get(each)?.rows,
  );
  const found = new Map<string, DifferingWindow & { readonly days: DifferingDay[] }>();
  for (const each of days.sort()) {
    const { from, to } = windows.find((window) => each >= window.from && each < window.to) ?? { from: each, to: each };
    const window = found.get(from) ?? { resource: name, from, to, days: [] };
    window.days.push({ day: each, before: before.get(each)?.rows ?? null, now: now.get(each)?.rows ?? null });
    found.set(from, window);
  }
  return [...found.values()];
}

/** Throws a UsageError if one is not as it was signed, an IncompleteError if their salts differ. */
export async function compareCertificates(files: readonly [string, string], key: CheckingKey, signal: AbortSignal) {
  const [first, second] = [await genuine(files[0], key, signal), await genuine(files[1], key, signal)];
  const [older, newer] = first.head.written_at <= second.head.written_at ? [first, second] : [second, first];
  if (older.head.salt_id !== newer.head.salt_id) {
    throw new IncompleteError('the two certificates have different salts, so their hashes cannot be compared', {
      advice: 'They belong to two mirrors, or between them the mirror was built anew or somebody was forgotten.',
    });
  }
  const windows: DifferingWindow[] = [];
  const notCompared: string[] = [];
  for (const name of resourceNames) {
    const [before, now] = [older.head.resources[name], newer.head.resources[name]];
    if (before === undefined && now === undefined) continue;
    if (before === undefined || now === undefined) {
      notCompared.push(`${name}: only one of the certificates covers it`);
    } else if (jsonOf([before.columns, before.relations]) !== jsonOf([now.columns, now.relations])) {
      notCompared.push(`${name}: they cover different columns or related records`);
    } else {
      const windowsIn = (certificate: typeof older) => certificate.windows.filter(({ resource }) => resource === name);
      windows.push(...differences(name, daysOf(windowsIn(older)), daysOf(windowsIn(newer)), windowsIn(newer)));
    }
  }
  const shortOf = ({ written_at, root }: CertificateHead) => ({ written_at, root });
  const isSame = windows.length === 0;
  return {
    status: isSame ? ('same' as const) : ('different' as const),
    older: shortOf(older.head),
    newer: shortOf(newer.head),
    /** The windows are those of the newer one. */
    windows,
    /** What was not compared, and why. */
    not_compared: notCompared,
  };
}

async function genuine(file: string, key: CheckingKey, signal: AbortSignal) {
  const { head, windows, problems } = await readCertificate(file, key, signal);
  if (head !== null && problems.length === 0) return { head, windows };
  throw new UsageError(`${file} is not as it was signed: ${problems.join('; ')}`, {
    advice: 'Check it by itself with `admin-mirror certify --check`.',
  });
}
