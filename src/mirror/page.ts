/** A page as the engine takes it, made from the bytes of a response: the records on it, and the rows made of some of them. */
import { hash } from 'node:crypto';
import { type ListPage, type Page, pageOf, UnreadableResponse } from '../api/body.ts';
import { parseExactly } from '../api/exact.ts';
import { whenOf } from '../api/headers.ts';
import type { HttpResponse } from '../api/http.ts';
import type { InParts } from '../api/narrow.ts';
import {
  isRecord,
  type KeptOut,
  type KeptOutRecord,
  type PageRows,
  recordId,
  recordKey,
  type RecordKey,
  type RelatedRow,
  type RelatedRows,
  type SchemaDrift,
  type ServedRecord,
} from '../model/records.ts';
import {
  relationTable,
  type RelationTable,
  type Field,
  type FieldType,
  type ResourceName,
  resourceNames,
  resourceOf,
} from '../model/resources.ts';
import { relatedList, relatedRows } from './cell.ts';
import type { RememberedPage } from '../store/mirror-types.ts';
import { nullDrift, recordRows, replaced, replacedIn } from './rows.ts';

/** What to take from a page besides the ids of its records. */
export interface PageWanted {
  /** The page as it came last. If it has the same bytes, it is not parsed again. */
  readonly known?: RememberedPage | null | undefined;
  /** Make rows of the records with these creation times; by default of none. */
  readonly isMeant?: (createdAt: unknown) => boolean;
  /** Never make rows of these records. */
  readonly keptOut?: KeptOut;
  /** Hash the records, so that the next walk need read only those that changed. */
  readonly hashesRecords?: boolean;
  /** The page may lie behind the end of its list: it comes whole, or fails. */
  readonly isBehind?: boolean;
}

export interface PageTask extends PageWanted {
  readonly resource: ResourceName;
  readonly page: number;
  readonly relations: readonly string[];
}

export interface ReadPage extends ListPage {
  readonly hash: string;
  /** The hashes of its records, one after the other, if they were asked for and could be told apart. */
  readonly hashes?: string;
  /** Records with the same bytes as when the page came last: their rows are not among `rows`. */
  readonly unchanged?: ReadonlySet<RecordKey>;
  /** The id of each record; null if it has no usable one. A known page has none here. */
  readonly ids: readonly (RecordKey | null)[];
  /** The creation time of each record, as served. */
  readonly createdAt: readonly unknown[];
  readonly rows: PageRows;
}

export type MirrorPage = InParts<ReadPage> & {
  /** Set if the page came again unchanged: the mirror already has its records. */
  readonly recalled?: RememberedPage;
};

/** Reads the response as a page. Throws an UnreadableResponse like `pageOf`. */
export function readPageOf(response: HttpResponse, task: PageTask): ReadPage {
  const { known, resource, isMeant } = task;
  const { digest } = response;
  if (digest === known?.hash) {
    const { total, lastPage, perPage } = known;
    const nothing = { hash: digest, ids: [], createdAt: [], rows: noRows() };
    // The first walk made no hashes of the records. Made now, they are there when the page changes for the first time.
    const isUnhashed = task.hashesRecords === true && known.records === null;
    const hashes = isUnhashed ? hashesOf(response.cleanBytes(), known.ids) : undefined;
    const found = { ...nothing, ...(hashes === undefined ? {} : { hashes }) };
    return { page: task.page, total, lastPage, perPage, ...whenOf(response), ...found };
  }
  const changed = known === undefined || known === null ? undefined : changesOf(response, task, known);
  if (changed !== undefined) return changed;
  const served = asServed(response, task);
  if (served !== undefined) return served;
  const { records, text: _text, ...page } = pageOf(response, task.page, resource);
  const createdAt = records.map((record) => record['created_at']);
  const ids = records.map((record) => recordKey(record) ?? null);
  const hashes = task.hashesRecords === true ? hashesOf(response.cleanBytes(), ids) : undefined;
  return {
    ...page,
    hash: digest,
    ...(hashes === undefined ? {} : { hashes }),
    ids,
    createdAt,
    rows: rowsFor(
      task,
      records.filter((_, at) => isMeant?.(createdAt[at]) === true),
    ),
  };
}

// A page whose records are exactly as documented is not parsed. One expression checks its text, and SQLite reads the records out
// of the response itself: parsing it, making rows and writing them takes five times as long. A page that the expression does not
// match is no error: it is parsed, and its records become rows one by one.

interface ServedPage {
  /** The body with an empty list in the place of its records. */
  readonly envelope: string;
  readonly ids: readonly number[];
  readonly createdAt: readonly string[];
  readonly drifts: readonly SchemaDrift[];
}

const hex = String.raw`[\da-fA-F]`;
const surrogate = (second: string): string => String.raw`\\u[dD][${second}]${hex}{2}`;
const escape = String.raw`\\["\\/bfnrt]|\\u(?!0000|[dD][89a-fA-F])${hex}{4}|${surrogate('89abAB')}${surrogate('c-fC-F')}`;
const text = String.raw`"[^"\\\0-\x1f]*(?:(?:${escape})[^"\\\0-\x1f]*){0,9999}"`;
/** Must accept no more than `startsWithDay` does. */
const time = String.raw`"[^"\\\0-\x1f]{4}-[^"\\\0-\x1f]{2}-[^"\\\0-\x1f]*"`;
// Few enough digits that every program reads the same number.
const integer = String.raw`0|-?[1-9]\d{0,14}`;
const decimal = String.raw`(?:0|-?[1-9]\d{0,11})(?:\.\d{1,3})?`;
const object = String.raw`\{[^{}[\]\\]*\}`;
const list = String.raw`\[[^{}[\]\\]*\]`;

const nothing = '(?!)';

/** For each type, the text of which SQLite always makes the same cell as `cellOf`, and the text that needs a closer look. */
const valuesOf: Readonly<Record<FieldType, readonly [sure: string, unsure: string]>> = {
  integer: [integer, nothing],
  flag: [integer, nothing],
  number: [decimal, nothing],
  string: [text, nothing],
  timestamp: [time, nothing],
  any: [text, object],
  object: [nothing, object],
  strings: [nothing, list],
};

/** Returns the expression of a field with its value. Its group captures a value that needs a closer look. */
function memberOf({ name, type, nullable }: Field): string {
  if (name === 'id') return `"id":(${integer})`;
  if (name === 'created_at') return `"created_at":(${time})`;
  const [sure, unsure] = valuesOf[type];
  return `"${name}":(?:${nullable ? `${sure}|null|(${unsure})` : `${sure}|(${unsure}|null)`})`;
}

const expressions = new Map(
  resourceNames.map((name) => {
    const members = resourceOf(name).fields.map(memberOf);
    return [name, new RegExp(String.raw`\{${members.join(',')}\}([,\]])`, 'y')] as const;
  }),
);

/** Whether the document is written as JSON.stringify would write it. */
function isCanonical(document: string): boolean {
  try {
    return JSON.stringify(JSON.parse(document)) === document;
  } catch {
    return false;
  }
}

/**
 * A body is scanned in texts of this many bytes. For each text that is much longer, V8 maps new memory and returns it to the system,
 * which takes longer than scanning a page of half a megabyte.
 */
const pieceBytes = 50_000;

/** Only short, plain members may stand before the records, so that no other list is taken for theirs. */
const beforeRecords = /^\{(?:"(?!data")[a-z_]+":(?:[\w.-]+|"[^"\\]*"),)*"data":\[/;

/** Yields each record up to the first one that does not match; with the last record, the position after its list. */
function* documentedRecords(expression: RegExp, body: Buffer, start: number) {
  for (let [from, size] = [start, pieceBytes]; ;) {
    const piece = body.toString('utf8', from, from + size);
    let read = 0;
    expression.lastIndex = 0;
    for (let found = expression.exec(piece); found !== null; found = expression.exec(piece)) {
      read = expression.lastIndex;
      const isLast = found.at(-1) === ']';
      yield { values: found, listEnd: isLast ? from + Buffer.byteLength(piece.slice(0, read)) : undefined };
      if (isLast) return;
    }
    if (read > 0) from += Buffer.byteLength(piece.slice(0, read));
    else if (from + size < body.length) size *= 2;
    else return;
  }
}

/**
 * Reads the page from the body; undefined if its records are not as documented. Nulls where none may be are reported, not
 * refused.
 */
function servedPage(resource: ResourceName, body: Buffer): ServedPage | undefined {
  const expression = expressions.get(resource);
  const [before] = beforeRecords.exec(body.toString('utf8', 0, pieceBytes)) ?? [];
  if (expression === undefined || before === undefined || body.includes(replaced)) return undefined;
  const { fields } = resourceOf(resource);
  const ids: number[] = [];
  const createdAt: string[] = [];
  const drifts = new Map<string, SchemaDrift>();
  let end: number | undefined;
  for (const { values, listEnd } of documentedRecords(expression, body, Buffer.byteLength(before))) {
    // Counted by hand: with `entries()` a page takes a third longer.
    let group = 0;
    for (const field of fields) {
      const value = values[(group += 1)];
      if (value === undefined) continue;
      if (field.name === 'id') ids.push(Number(value));
      else if (field.name === 'created_at') createdAt.push(value);
      else if (value === 'null') drifts.set(field.name, nullDrift(field));
      else if (!isCanonical(value)) return undefined;
    }
    end = listEnd;
  }
  if (end === undefined) return undefined;
  const after = body.toString('utf8', end - 1);
  if (after.includes('"data"')) return undefined;
  return {
    envelope: before + after,
    ids,
    // Copies: slices of the body would keep all of it in memory.
    createdAt: JSON.parse(`[${createdAt.join(',')}]`) as string[],
    drifts: [...drifts.values()],
  };
}

/** Makes the page of the response as it is, if all of it is as documented and none of its records is left out. */
function asServed(response: HttpResponse, task: PageTask): ReadPage | undefined {
  const { resource } = task;
  if (!takesWhole(task)) return undefined;
  const json = response.cleanBytes();
  const served = json === undefined ? undefined : servedPage(resource, json);
  if (json === undefined || served === undefined) return undefined;
  const { envelope, ids, createdAt, drifts } = served;
  if (!createdAt.every(task.isMeant)) return undefined;
  const { headers, milliseconds } = response;
  const {
    records: _none,
    text: _text,
    ...page
  } = pageOf({ body: envelope, headers, milliseconds }, task.page, resource);
  const none = { unusable: 0, keptOut: [], related: [] };
  const rows = { json, ids, drifts, isServed: true, ...none } as const;
  const hashes = task.hashesRecords === true ? hashesOf(json, ids) : undefined;
  return {
    ...page,
    hash: response.digest,
    ...(hashes === undefined ? {} : { hashes }),
    ids,
    createdAt,
    rows,
  };
}

const listStart = Buffer.from('"data":[{"id":');
const nextRecord = Buffer.from('},{"id":');

/**
 * Cuts a list into the bytes of its records, from after `{"id":` to before `}`, and the text around them; undefined if it cannot.
 * Bytes, since making texts of them would take as long as hashing them.
 */
function cutList(body: Buffer): { readonly records: readonly Buffer[]; readonly envelope: string } | undefined {
  const start = body.indexOf(listStart);
  if (start === -1 || body.indexOf('"data"') !== start) return undefined;
  const records: Buffer[] = [];
  let from = start + listStart.length;
  for (let next = body.indexOf(nextRecord, from); next !== -1; next = body.indexOf(nextRecord, from)) {
    records.push(body.subarray(from, next));
    from = next + nextRecord.length;
  }
  const end = endOfRecord(body, from);
  if (end === undefined) return undefined;
  records.push(body.subarray(from, end));
  return { records, envelope: `${body.toString('utf8', 0, start)}"data":[${body.toString('utf8', end + 1)}` };
}

const [quote, backslash, opening, closing] = Buffer.from('"\\{}');

/** Returns where the record ends that begins there, after its first brace; undefined if it does not. */
function endOfRecord(body: Buffer, from: number): number | undefined {
  let depth = 1;
  let isText = false;
  for (let at = from; at < body.length; at += 1) {
    const byte = body[at];
    if (byte === quote) isText = !isText;
    else if (isText) at += Number(byte === backslash);
    else if (byte === opening) depth += 1;
    else if (byte === closing && (depth -= 1) === 0) return at;
  }
  return undefined;
}

/** Ten characters of base64 are 60 bits. */
const hashLength = 10;

function hashOf(record: Buffer): string {
  return hash('sha1', record, 'base64').slice(0, hashLength);
}

/** Returns the hashes of the records, one after the other; undefined if they cannot be told apart. */
function hashesOf(body: Buffer | undefined, ids: readonly (RecordKey | null)[]): string | undefined {
  const records = body === undefined ? undefined : cutList(body)?.records;
  const isAligned =
    records?.length === ids.length && records.every((each, at) => each.indexOf(`${String(ids[at])},`) === 0);
  return isAligned ? records.map(hashOf).join('') : undefined;
}

/**
 * Reads only those records of a page whose bytes are others than when the page came last. Undefined if that cannot be told, or if
 * the page has records of other windows.
 */
function changesOf(response: HttpResponse, task: PageTask, known: RememberedPage): ReadPage | undefined {
  const knownHashes = known.records ?? '';
  const isWhole = known.owned === known.ids.length && known.ids.length * hashLength === knownHashes.length;
  const body = isWhole ? response.cleanBytes() : undefined;
  const list = body === undefined ? undefined : cutList(body);
  if (list === undefined || !takesWhole(task)) return undefined;
  const before = new Map<string, RecordKey>();
  for (const [at, id] of known.ids.entries()) before.set(knownHashes.slice(at * hashLength, (at + 1) * hashLength), id);
  const ids: RecordKey[] = [];
  const createdAt: unknown[] = [];
  const changed: ServedRecord[] = [];
  const unchanged = new Set<RecordKey>();
  const hashes = list.records.map(hashOf);
  for (const [at, bytes] of list.records.entries()) {
    const id = before.get(hashes[at] ?? '');
    // The last record is always read: its creation time is where the list ends.
    if (id !== undefined && at < hashes.length - 1 && !unchanged.has(id)) {
      unchanged.add(id);
      ids.push(id);
      createdAt.push(null);
    } else {
      const record = parsedRecord(`{"id":${bytes.toString()}}`);
      const key = record === undefined ? undefined : recordKey(record);
      if (record === undefined || key === undefined || !task.isMeant(record['created_at'])) return undefined;
      ids.push(key);
      createdAt.push(record['created_at']);
      changed.push(record);
    }
  }
  const { headers, milliseconds, digest } = response;
  let page: Page;
  try {
    page = pageOf({ body: list.envelope, headers, milliseconds }, task.page, task.resource);
  } catch (error) {
    // The whole response may well be a page: its records were cut in the wrong places.
    if (error instanceof UnreadableResponse) return undefined;
    throw error;
  }
  if (page.records.length > 0) return undefined;
  const { records: _none, text: _text, ...numbers } = page;
  const rows = rowsFor(task, changed);
  return { ...numbers, hash: digest, hashes: hashes.join(''), unchanged, ids, createdAt, rows };
}

function parsedRecord(text: string): ServedRecord | undefined {
  try {
    const record = parseExactly(text);
    return isRecord(record) ? record : undefined;
  } catch {
    return undefined;
  }
}

/** Whether all that a page shows becomes rows as it is. */
function takesWhole(task: PageTask): task is PageTask & Required<Pick<PageTask, 'isMeant'>> {
  const { relations, isMeant, keptOut } = task;
  const lacksNobody =
    keptOut === undefined || [keptOut.own, keptOut.users, keptOut.emails].every((ids) => ids.length === 0);
  return relations.length === 0 && isMeant !== undefined && lacksNobody;
}

function rowsFor({ resource, relations, keptOut }: PageTask, records: readonly ServedRecord[]): PageRows {
  const { kept, out } = keptOut === undefined ? { kept: records, out: [] } : withoutKeptOut(resource, records, keptOut);
  const tables = relations.map((name) => relationTable(resource, name));
  const related = tables.map((relation) => relatedOf(relation, kept, keptOut));
  const rows = recordRows(resource, tables.length === 0 ? kept : without(kept, relations));
  const drifts = [...rows.drifts, ...related.filter(holdsReplaced).map(({ relation }) => replacedIn(relation))];
  return { ...rows, drifts, keptOut: out, related };
}

function holdsReplaced({ parents }: RelatedRows): boolean {
  return parents.some(([, rows]) => rows.some(({ record }) => record.includes(replaced)));
}

function without(records: readonly ServedRecord[], names: readonly string[]): ServedRecord[] {
  return records.map((record) => Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name))));
}

/** Parts the records into those that may become rows and those that are kept out of the mirror. */
function withoutKeptOut(resource: ResourceName, records: readonly ServedRecord[], { own, users }: KeptOut) {
  const out: KeptOutRecord[] = [];
  if (own.length === 0 && (resource !== 'emails' || users.length === 0)) return { kept: records, out };
  const kept = records.filter((record) => {
    const id = recordId(record);
    if (id === undefined) return true;
    const owner = resource === 'emails' ? ownersOf(record).find((each) => users.includes(each)) : undefined;
    const user = owner ?? (own.includes(id) ? id : undefined);
    if (user === undefined) return true;
    out.push({ id, user, createdAt: record['created_at'] });
    return false;
  });
  return { kept, out };
}

/** Returns the ids of the users that an email, or a related record, says it belongs to. */
export function ownersOf(record: unknown): number[] {
  if (!isRecord(record)) return [];
  const { user } = record as { user?: unknown };
  const owners = [recordId({ id: record['user_id'] }), isRecord(user) ? recordId(user) : undefined];
  return owners.filter((id) => id !== undefined);
}

function relatedOf(
  relation: RelationTable,
  records: readonly ServedRecord[],
  keptOut: KeptOut | undefined,
): RelatedRows {
  const parents: [RecordKey, readonly RelatedRow[]][] = [];
  let absent = false;
  for (const record of records) {
    const id = recordKey(record);
    const value = record[relation.relation];
    if (value === undefined) absent = true;
    else if (id !== undefined) {
      const shown = relatedList(value).filter((each) => keptOut === undefined || !hides(relation, each, keptOut));
      parents.push([id, relatedRows(shown)]);
    }
  }
  return { relation: relation.relation, parents, absent };
}

function hides({ resource, relation }: RelationTable, related: unknown, { users, emails }: KeptOut): boolean {
  if (users.length === 0 || !isRecord(related)) return false;
  const id = recordId(related);
  if (relation === 'user' && id !== undefined && users.includes(id)) return true;
  // Other resources may have a relation of this name that holds something else.
  if (resource === 'users' && relation === 'emails' && id !== undefined && emails.includes(id)) return true;
  return ownersOf(related).some((owner) => users.includes(owner));
}

/** The rows of a page without records. */
function noRows(): PageRows {
  return { json: new TextEncoder().encode('{}'), ids: [], drifts: [], unusable: 0, keptOut: [], related: [] };
}

/** Joins the records of the parts, in their order. The rows stay with the parts. */
export function joinPages(page: ReadPage, parts: readonly ReadPage[]): ReadPage {
  return {
    ...page,
    ids: parts.flatMap(({ ids }) => ids),
    createdAt: parts.flatMap(({ createdAt }) => createdAt),
    rows: noRows(),
  };
}

/** The id of each record; null if it has no usable one, or could not be read. For a known page, only the usable ids. */
export function entriesOn({ ids, recalled, unreadable }: MirrorPage): readonly (RecordKey | null)[] {
  const shown = recalled?.ids ?? ids;
  if (unreadable === undefined) return shown;
  return [...shown, ...unreadable.map(() => null)];
}

/** The usable ids on the page. */
export function idsOn(page: MirrorPage): readonly RecordKey[] {
  return entriesOn(page).filter((id) => id !== null);
}

/** The creation time of each record, in the order of `entriesOn`. For a known page, only that of the last record. */
export function createdAtOn({ createdAt, recalled }: MirrorPage): readonly unknown[] {
  return recalled === undefined ? createdAt : [recalled.lastCreatedAt];
}
