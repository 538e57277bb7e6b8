/**
 * Reads served records without relying on their shape, recognises records of another list, and says how a page is passed on to
 * be stored.
 */
import { resourceNames, resourceOf, type ResourceName } from './resources.ts';

/** A record as parsed from JSON, whatever its shape. */
export type ServedRecord = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is ServedRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const canonicalInteger = /^-?(?:0|[1-9]\d{0,15})$/;

/** Returns the record's id; undefined if it has none that could be a key. Some servers send numbers as text. */
export function recordId(record: ServedRecord): number | undefined {
  const id = record['id'];
  if (typeof id === 'number') return Number.isSafeInteger(id) ? id : undefined;
  if (typeof id !== 'string' || !canonicalInteger.test(id)) return undefined;
  const parsed = Number(id);
  return Number.isSafeInteger(parsed) ? parsed : undefined;
}

/** The key of a stored record: its id, as a bigint if a number would not be exact. */
export type RecordKey = number | bigint;

const largeInteger = /^-?[1-9]\d{15,18}$/;

/** Returns the record's id, up to the 64 bits of a database integer; undefined if it has none that could be a key. */
export function recordKey(record: ServedRecord): RecordKey | undefined {
  const { id } = record;
  if (typeof id !== 'bigint' && !(typeof id === 'string' && largeInteger.test(id))) return recordId(record);
  const large = BigInt(id);
  if (BigInt.asIntN(64, large) !== large) return undefined;
  return Number.isSafeInteger(Number(large)) ? Number(large) : large;
}

/** Parses a user's id that a person wrote: a whole number above 0, up to 64 bits. Undefined if it is none. */
export function writtenId(text: string): RecordKey | undefined {
  if (!/^\d+$/.test(text)) return undefined;
  const id = BigInt(text);
  return id > 0n && BigInt.asIntN(64, id) === id ? keyOf(id) : undefined;
}

/** Returns why nothing is written to a user with so large an id: the journal has numbers up to 2^53. */
export function tooLargeToWrite(id: bigint): string {
  return `user ${id} has an id above ${Number.MAX_SAFE_INTEGER} (2^53 - 1): such users can be mirrored and read, but not changed`;
}

/** Returns the key for an integer from a database. */
export function keyOf(id: bigint): RecordKey {
  return Number.isSafeInteger(Number(id)) ? Number(id) : id;
}

export function keysJson(keys: readonly RecordKey[]): string {
  return `[${keys.join(',')}]`;
}

export function keysIn(json: string): RecordKey[] {
  if (!/\d{16}/.test(json)) return JSON.parse(json) as number[];
  return json
    .slice(1, -1)
    .split(',')
    .map((key) => keyOf(BigInt(key)));
}

const common: ReadonlySet<string> = new Set(['id', 'created_at', 'updated_at']);

const documented = new Map(
  resourceNames.map((name) => {
    const { fields, includes } = resourceOf(name);
    const own = fields.map((field) => field.name).filter((field) => !common.has(field));
    return [name, { own, known: new Set([...common, ...own, ...(includes ?? [])]) }] as const;
  }),
);

function fieldsOf(resource: ResourceName) {
  const fields = documented.get(resource);
  if (fields === undefined) throw new Error(`no fields of ${resource}`);
  return fields;
}

/** Whether the record has half of the fields that only this resource has. */
function fits(record: ServedRecord, resource: ResourceName): boolean {
  const { own } = fieldsOf(resource);
  let missing = 0;
  for (const name of own) if (record[name] === undefined && (missing += 1) * 2 > own.length) return false;
  return true;
}

/** Returns the other resource that the record seems to belong to; undefined if it may belong to this one. */
export function otherResourceOf(record: ServedRecord, resource: ResourceName): ResourceName | undefined {
  if (fits(record, resource)) return undefined;
  return resourceNames.find((name) => name !== resource && fits(record, name));
}

function isStrange(record: ServedRecord, resource: ResourceName): boolean {
  const { known } = fieldsOf(resource);
  const names = Object.keys(record);
  return !fits(record, resource) && names.filter((name) => !known.has(name)).length * 2 > names.length;
}

/**
 * Returns why the records of a page are no list of the resource: most look like records of another one, or all lack most of its
 * fields and consist mostly of unknown ones. Undefined if they may be one. A single record with unknown fields always may.
 */
export function foreignList(records: readonly ServedRecord[], resource: ResourceName): string | undefined {
  const [first] = records;
  const others = records.flatMap((record) => otherResourceOf(record, resource) ?? []);
  if (others.length * 2 > records.length) {
    return `it is not a list of ${resource}: ${others.length} of ${records.length} records look like ${others[0] ?? ''}`;
  }
  if (first === undefined || records.length < 2 || !records.every((record) => isStrange(record, resource))) return;
  const names = Object.keys(first).slice(0, 5).join(', ');
  return `it is not a list of ${resource}: its records lack most of the fields of one and have others (${names}, …)`;
}

export interface SchemaDrift {
  readonly kind:
    | 'unknown_field'
    | 'missing_field'
    | 'changed_type'
    | 'unreadable_text'
    | 'unusable_id'
    | 'foreign_record';
  readonly subject: string;
  readonly detail: string;
}

export interface RecordRows {
  /** JSON in UTF-8. Its list `data` has an object for each record, with a member for each column that is not null. */
  readonly json: Uint8Array;
  readonly ids: readonly RecordKey[];
  /** Each drift once. */
  readonly drifts: readonly SchemaDrift[];
  /** Whether everything is as documented, so that no record has anything in `_extra`. */
  readonly isServed?: true;
  /** How many records have no usable id. */
  readonly unusable: number;
}

/** Records that the mirror must not take in again. */
export interface KeptOut {
  /** Ids of the page's own resource. */
  readonly own: readonly number[];
  readonly users: readonly number[];
  readonly emails: readonly number[];
}

export interface KeptOutRecord {
  readonly id: number;
  readonly user: number;
  readonly createdAt: unknown;
}

export interface RelatedRow {
  /** Distinguishes the rows of one parent: the record's id, else `#` and its place in the list. */
  readonly key: string;
  readonly id: string | bigint | number | null;
  readonly record: string;
  /** The names of its members; null if it is no object. */
  readonly keys: readonly (string | null)[];
}

/** What a page brought of one requested relation. */
export interface RelatedRows {
  readonly relation: string;
  readonly parents: readonly (readonly [RecordKey, readonly RelatedRow[]])[];
  /** Whether a record came without the relation. */
  readonly absent: boolean;
}

/** Everything that a page brings for one window. */
export interface PageRows extends RecordRows {
  readonly keptOut: readonly KeptOutRecord[];
  readonly related: readonly RelatedRows[];
}
