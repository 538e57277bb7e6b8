/** A page as the engine takes it, made of the bytes of a response: which records are on it, and the rows of some. */
import { type ListPage, pageOf, whenOf } from '../api/envelope.ts';
import type { HttpResponse } from '../api/http.ts';
import type { InParts, Places } from '../api/narrow.ts';
import { pieceBytes } from '../model/memory.ts';
import type { KeptOut, KeptOutRecord, PageRows, RelatedRow, RelatedRows, SchemaDrift } from '../model/page-rows.ts';
import { isRecord, recordId, recordKey, type RecordKey, type ServedRecord } from '../model/records.ts';
import {
  relationTable,
  type RelationTable,
  type Field,
  type FieldType,
  type ResourceName,
  resourceNames,
  resourceOf,
} from '../model/resources.ts';
import { relatedList, relatedRows } from '../store/cell.ts';
import type { RememberedPage } from '../store/mirror-types.ts';
import { nullDrift, recordRows, replaced } from './store/page-rows.ts';

/** What is known of a page that came before. */
export type KnownPage = Pick<RememberedPage, 'hash' | 'total' | 'lastPage' | 'perPage'>;

/** What a page is read for. */
export interface PageWanted {
  /** The page as it came last; the same bytes are not parsed again. */
  readonly known?: KnownPage | null | undefined;
  /** Rows are made of the records with these creation times, apart for each. */
  readonly rowsOf?: readonly ((createdAt: unknown) => boolean)[];
  /** Records that rows are never made of. */
  readonly keptOut?: KeptOut;
  /** A field of each record besides. */
  readonly field?: string;
  /** It may lie behind the end of its list: it comes whole, or fails. */
  readonly isBehind?: boolean;
}

export interface PageTask extends PageWanted {
  readonly resource: ResourceName;
  readonly page: number;
  readonly relations: readonly string[];
  readonly places?: Places | undefined;
}

export interface ReadPage extends ListPage {
  readonly hash: string;
  /** Of each record; null where it has none that it could be kept under. None of the known page. */
  readonly ids: readonly (RecordKey | null)[];
  /** When each record was created, as it says. */
  readonly createdAt: readonly unknown[];
  readonly field: readonly unknown[];
  readonly rows: readonly PageRows[];
}

export type MirrorPage = InParts<ReadPage> & {
  /** Where the page came again just as it was: its records are those that the mirror holds. */
  readonly recalled?: RememberedPage;
};

/** The response as a page. Throws an UnreadableResponse as `pageOf` does. */
export function readPageOf(response: HttpResponse, task: PageTask): ReadPage {
  const { known, resource, places, field, rowsOf = [] } = task;
  const { digest } = response;
  const nothing = { hash: digest, ids: [], createdAt: [], field: [], rows: [] };
  if (digest === known?.hash) {
    response.discard();
    const { total, lastPage, perPage } = known;
    return { page: task.page, total, lastPage, perPage, ...whenOf(response), ...nothing };
  }
  const served = asServed(response, task);
  if (served !== undefined) return served;
  const { records: all, text: _text, ...page } = pageOf(response, task.page, resource);
  response.discard();
  const records = places === undefined ? all : all.slice(places.from, places.to);
  const createdAt = records.map((record) => record['created_at']);
  return {
    ...page,
    hash: digest,
    ids: records.map((record) => recordKey(record) ?? null),
    createdAt,
    field: field === undefined ? [] : records.map((record) => record[field]),
    rows: rowsOf.map((isMeant) =>
      rowsFor(
        task,
        records.filter((_, at) => isMeant(createdAt[at])),
      ),
    ),
  };
}

// A page whose records are just as documented is not parsed: one expression looks at its text, and SQLite reads the records out of
// the response itself. To parse it, make rows and write them takes five times as long. What the expression does not know is no
// error: such a page is parsed, and becomes rows record by record.

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
/** As `startsWithDay` has it. */
const time = String.raw`"[^"\\\0-\x1f]{4}-[^"\\\0-\x1f]{2}-[^"\\\0-\x1f]*"`;
// Of so few digits that it is one number to whoever reads it.
const integer = String.raw`0|-?[1-9]\d{0,14}`;
const decimal = String.raw`(?:0|-?[1-9]\d{0,11})(?:\.\d{1,3})?`;
const object = String.raw`\{[^{}[\]\\]*\}`;
const list = String.raw`\[[^{}[\]\\]*\]`;

const nothing = '(?!)';

/** Of what SQLite makes the same cell as `cellOf` does, whatever stands there; and what is captured for a closer look. */
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

/** The field with its value, in one group what is to be looked at. */
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

/** Whether it is the text that would be written for the document that it holds. */
function isCanonical(document: string): boolean {
  try {
    return JSON.stringify(JSON.parse(document)) === document;
  } catch {
    return false;
  }
}

/** Only what is short and plain stands before the records, so that no other list is taken for theirs. */
const beforeRecords = /^\{(?:"(?!data")[a-z_]+":(?:[\w.-]+|"[^"\\]*"),)*"data":\[/;

/** Each record, up to one that is not as the expression has it; the last one with the byte behind its list. */
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

/** The page that the body holds; undefined where its records are not as documented, but for fields that are null and may not be. */
export function servedPage(resource: ResourceName, body: Buffer): ServedPage | undefined {
  const expression = expressions.get(resource);
  const [before] = beforeRecords.exec(body.toString('utf8', 0, pieceBytes)) ?? [];
  if (expression === undefined || before === undefined || body.includes(replaced)) return undefined;
  const { fields } = resourceOf(resource);
  const ids: number[] = [];
  const createdAt: string[] = [];
  const drifts = new Map<string, SchemaDrift>();
  let end: number | undefined;
  for (const { values, listEnd } of documentedRecords(expression, body, Buffer.byteLength(before))) {
    // Counted by hand: over `entries()` a page takes a third longer.
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
    // Texts of their own: a piece of the body would keep all of it in memory.
    createdAt: JSON.parse(`[${createdAt.join(',')}]`) as string[],
    drifts: [...drifts.values()],
  };
}

/** The page where all of it is as documented, and nothing of its records is left out; its rows are the response itself. */
function asServed(response: HttpResponse, task: PageTask): ReadPage | undefined {
  const { resource, relations, places, keptOut, field, rowsOf = [] } = task;
  if (relations.length > 0 || places !== undefined || field !== undefined || !isNobody(keptOut)) return undefined;
  const json = response.cleanBytes();
  const served = json === undefined ? undefined : servedPage(resource, json);
  if (json === undefined || served === undefined) return undefined;
  const { envelope, ids, createdAt, drifts } = served;
  const owned = rowsOf.map((isMeant) => createdAt.filter(isMeant).length);
  // The bytes go whole to one, which gives their memory back.
  const some = owned.filter((count) => count > 0);
  if (some.length > 1 || some.some((count) => count < ids.length)) return undefined;
  const { headers, milliseconds } = response;
  const {
    records: _none,
    text: _text,
    ...page
  } = pageOf({ body: envelope, headers, milliseconds }, task.page, resource);
  const none = { unusable: 0, keptOut: [], related: [] };
  const rows = { json, ids, drifts, isServed: true, ...none } as const;
  return {
    ...page,
    hash: response.digest,
    ids,
    createdAt,
    field: [],
    rows: owned.map((count) => (count === 0 ? noRows() : rows)),
  };
}

function isNobody(keptOut: KeptOut | undefined): boolean {
  return keptOut === undefined || [keptOut.own, keptOut.users, keptOut.emails].every((ids) => ids.length === 0);
}

function rowsFor({ resource, relations, keptOut }: PageTask, records: readonly ServedRecord[]): PageRows {
  const { wanted, out } = keptOut === undefined ? { wanted: records, out: [] } : parted(resource, records, keptOut);
  const names = relations.map((name) => relationTable(resource, name));
  const related = names.map((relation) => relatedOf(relation, wanted, keptOut));
  return { ...recordRows(resource, names.length === 0 ? wanted : without(wanted, relations)), keptOut: out, related };
}

function without(records: readonly ServedRecord[], names: readonly string[]): ServedRecord[] {
  return records.map((record) => Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name))));
}

function parted(resource: ResourceName, records: readonly ServedRecord[], { own, users }: KeptOut) {
  const out: KeptOutRecord[] = [];
  if (own.length === 0 && (resource !== 'emails' || users.length === 0)) return { wanted: records, out };
  const wanted = records.filter((record) => {
    const id = recordId(record);
    if (id === undefined) return true;
    const owner = resource === 'emails' ? ownersOf(record).find((each) => users.includes(each)) : undefined;
    const user = owner ?? (own.includes(id) ? id : undefined);
    if (user === undefined) return true;
    out.push({ id, user, createdAt: record['created_at'] });
    return false;
  });
  return { wanted, out };
}

/** Ids of users that a record, of the list of emails or a related one, says it belongs to. */
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
  // What is called so elsewhere need not be emails that were sent.
  if (resource === 'users' && relation === 'emails' && id !== undefined && emails.includes(id)) return true;
  return ownersOf(related).some((owner) => users.includes(owner));
}

/** What a page without records brings. */
export function noRows(): PageRows {
  return { json: new TextEncoder().encode('{}'), ids: [], drifts: [], unusable: 0, keptOut: [], related: [] };
}

/** The page with the records of its parts, in their order; rows stay with the parts. */
export function joinPages(page: ReadPage, parts: readonly ReadPage[]): ReadPage {
  return {
    ...page,
    ids: parts.flatMap(({ ids }) => ids),
    createdAt: parts.flatMap(({ createdAt }) => createdAt),
    field: parts.flatMap(({ field }) => field),
    rows: [],
  };
}

/** The id of each record, null where it has none of use, or cannot be read; of a known page only those of use. */
export function entriesOn({ ids, recalled, unreadable }: MirrorPage): readonly (RecordKey | null)[] {
  const shown = recalled?.ids ?? ids;
  if (unreadable === undefined) return shown;
  return [...shown, ...unreadable.flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, () => null))];
}

/** The ids on the page; records without a usable one are left out. */
export function idsOn(page: MirrorPage): readonly RecordKey[] {
  return entriesOn(page).filter((id) => id !== null);
}

/** When each record was created, in the order of `entriesOn`; of a known page the last one alone. */
export function createdAtOn({ createdAt, recalled }: MirrorPage): readonly unknown[] {
  return recalled === undefined ? createdAt : [recalled.lastCreatedAt];
}
