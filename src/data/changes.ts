/** Who changed what between two times, field by field: the changes of the mirror's rows, one by one as they came or come. */
import type { QueryFormat } from './formats.ts';
import { jsonCell, mayHoldJson, header, rowLines, listChunks, type TextListForm } from './text-lines.ts';
import { namedColumns } from './text-table.ts';
import { type ResourceName, resourceOf } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type { Cell, ChangeSpan, RecordChange, Row } from '../store/reading-types.ts';
import type { ReadingStore, Snapshot, SharedReading } from '../store/reading.ts';
import { Buffer } from 'node:buffer';
import { setTimeout as wait } from 'node:timers/promises';

interface ReportedValue {
  readonly cell: Cell;
  readonly json: string;
}

interface FieldChange {
  /** A field of the reference, or `_extra.name` for another. */
  readonly field: string;
  readonly old: ReportedValue;
  readonly new: ReportedValue;
}

export interface ReportedChange {
  readonly at: Timestamp;
  readonly resource: ResourceName;
  readonly id: bigint;
  /** By what a person knows the record: a username, a code, a subject, a name; null where it has none. */
  readonly label: string | null;
  readonly change: RecordChange['kind'];
  /** Of an insertion what came, of a deletion what went: fields that were or are null are left out. */
  readonly fields: readonly FieldChange[];
  /** Where the changes after a number were requested. */
  readonly seq?: number;
}

interface ChangesRequest {
  readonly resources: readonly ResourceName[];
  readonly span: ChangeSpan;
  readonly ignore: readonly string[];
}

interface SinceRequest extends Pick<ChangesRequest, 'resources' | 'ignore'> {
  readonly after: number;
  /** Nothing from before it is new. */
  readonly newest: Timestamp | undefined;
}

const labelFields: Readonly<Record<ResourceName, string>> = {
  users: 'username',
  packages: 'name',
  emails: 'subject',
  coupons: 'code',
};

/** Every change in the order of time; a change of ignored fields alone is none. */
export function changesOf(snapshot: Snapshot, { resources, span, ignore }: ChangesRequest): Generator<ReportedChange> {
  const sources = resources.map((resource) => reported(resource, ignore, snapshot.changes(resource, span)));
  return merged(sources, (one, other) => one.at < other.at);
}

/** The same after a number, in the order of the numbers; of several changes of a record, what they come to. */
export function changesSince(
  snapshot: Snapshot,
  { resources, ignore, after, newest }: SinceRequest,
): Generator<ReportedChange & { readonly seq: number }> {
  const sources = resources.map((name) => reported(name, ignore, snapshot.changesAfter(name, after, newest)));
  return merged(sources, (one, other) => one.seq < other.seq);
}

/** All that the sources give, the first of their heads at each time. */
function* merged<T>(sources: readonly Generator<T>[], isBefore: (one: T, other: T) => boolean): Generator<T> {
  try {
    const heads = sources.map((source) => source.next());
    for (;;) {
      let first: T | undefined;
      let index = -1;
      for (const [each, head] of heads.entries()) {
        if (head.done === true || (first !== undefined && !isBefore(head.value, first))) continue;
        first = head.value;
        index = each;
      }
      const source = sources[index];
      if (first === undefined || source === undefined) return;
      yield first;
      heads[index] = source.next();
    }
  } finally {
    // Whoever stops in the middle leaves no statement open.
    for (const source of sources) source.return(undefined);
  }
}

/** What the operator should know of the span: resources whose history does not reach back to its beginning. */
function reachWarnings(snapshot: Pick<Snapshot, 'historyReach'>, request: ChangesRequest): string[] {
  return request.resources.flatMap((resource) => {
    const { beginsAt } = snapshot.historyReach(resource);
    if (beginsAt === null || request.span.from >= beginsAt) return [];
    return [`the history of ${resource} begins at ${beginsAt}; what changed before that is not known`];
  });
}

function* reported<C extends RecordChange>(
  resource: ResourceName,
  ignore: readonly string[],
  changes: Iterable<C>,
): Generator<ReportedChange & Pick<C, Exclude<keyof C, keyof RecordChange>>> {
  const fieldsOf = comparison(resource, ignore);
  const names = resourceOf(resource).fields.map(({ name }) => name);
  const labelAt = names.indexOf(labelFields[resource]);
  for (const { at, id, kind, before, after, ...rest } of changes) {
    const fields = fieldsOf(before, after);
    if (kind === 'updated' && fields.length === 0) continue;
    const label = (after ?? before)?.[labelAt] ?? null;
    yield { ...rest, at, resource, id, label: label === null ? null : String(label), change: kind, fields };
  }
}

const nothing: ReportedValue = { cell: null, json: 'null' };

function comparison(
  resource: ResourceName,
  ignore: readonly string[],
): (before: Row | null, after: Row | null) => FieldChange[] {
  const columns = resourceOf(resource).fields.map(({ name }) => ({
    name,
    embedded: mayHoldJson({ name, table: resource, origin: name }),
  }));
  const ignored = new Set(ignore);
  return (before, after) => {
    const changes: FieldChange[] = [];
    const compare = (field: string, old: ReportedValue, next: ReportedValue): void => {
      if (old.json !== next.json && !ignored.has(field)) changes.push({ field, old, new: next });
    };
    for (const [index, { name, embedded }] of columns.entries()) {
      compare(name, valueOf(before?.[index] ?? null, embedded), valueOf(after?.[index] ?? null, embedded));
    }
    const [olds, news] = [before, after].map((row) => extrasOf(row?.[columns.length] ?? null));
    for (const name of new Set([...(olds?.keys() ?? []), ...(news?.keys() ?? [])])) {
      compare(`_extra.${name}`, olds?.get(name) ?? nothing, news?.get(name) ?? nothing);
    }
    return changes;
  };
}

function valueOf(cell: Cell, embedded: boolean): ReportedValue {
  return { cell, json: jsonCell(cell, embedded) };
}

/** The fields of `_extra`, their numbers with all the digits that were served. */
function extrasOf(cell: Cell): ReadonlyMap<string, ReportedValue> {
  if (typeof cell !== 'string') return new Map();
  const exact = (_key: string, value: unknown, context?: { readonly source?: string }): unknown =>
    typeof value === 'number' && context?.source !== undefined ? JSON.rawJSON(context.source) : value;
  const extras = JSON.parse(cell, exact) as Record<string, unknown>;
  return new Map(
    Object.entries(extras).map(([name, value]) => {
      const json = JSON.stringify(value);
      return [name, { cell: typeof value === 'string' ? value : value === null ? null : json, json }];
    }),
  );
}

/** What `changes` prints, in pieces. @param onWarning called with what the operator should know of the changes */
export async function* changesChunks(
  store: ReadingStore,
  request: ChangesRequest,
  form: TextListForm,
  run: { readonly signal: AbortSignal; readonly onWarning: (warning: string) => void },
): AsyncGenerator<Uint8Array> {
  const snapshot = store.snapshot();
  try {
    for (const warning of reachWarnings(snapshot, request)) run.onWarning(warning);
    const { from, to } = request.span;
    const head = `"since": ${JSON.stringify(from)},\n  "until": ${JSON.stringify(to)},\n  "changes": `;
    yield* listChunks({ columns, rowsOf, jsonOf, head }, changesOf(snapshot, request), form, run.signal);
  } finally {
    snapshot.release();
  }
}

/** The changes as an endless list: JSON lines, CSV, or TSV also in place of a table, whose widths nobody could know. */
function linesOf(changes: readonly ReportedChange[], format: QueryFormat, isFirst: boolean): string {
  if (format === 'json' || format === 'jsonl') return changes.map((change) => `${jsonOf(change)}\n`).join('');
  const style = { format: format === 'csv' ? 'csv' : 'tsv', raw: false } as const;
  return (isFirst ? header(style, columns) : '') + rowLines(style, columns)(changes.flatMap(rowsOf));
}

const columns = namedColumns('at, resource, id, who, change, field, old, new');

/** A row for each field that changed; one alone for a record that came or went. */
function rowsOf({ at, resource, id, label, change, fields }: ReportedChange): Row[] {
  const head: Row = [at, resource, id, label, change];
  if (change !== 'updated') return [[...head, null, null, null]];
  return fields.map(({ field, old, new: next }) => [...head, field, old.cell, next.cell]);
}

function jsonOf({ at, resource, id, label, change, fields, seq }: ReportedChange): string {
  const number = seq === undefined ? '' : `"seq":${seq},`;
  const inner = fields.map((each) => `${JSON.stringify(each.field)}:{"old":${each.old.json},"new":${each.new.json}}`);
  // The id as it is: a number of JavaScript would not hold every one.
  return `{${number}"at":"${at}","resource":"${resource}","id":${id},"label":${JSON.stringify(label)},"change":"${change}","fields":{${inner.join(',')}}}`;
}

/** Between two looks at the mirror's last number, a page in memory. SQLite tells nobody of a commit. */
const lookMs = 500;

/** Changes that are written at a time. */
const heldChanges = 100;

interface FollowRequest extends Pick<ChangesRequest, 'resources' | 'ignore'> {
  /** Where to begin: after a cursor, at a time, or now. */
  readonly since: { readonly cursor: string } | { readonly at: Timestamp } | undefined;
  readonly format: QueryFormat;
}

interface FollowPorts {
  readonly store: ReadingStore;
  /** The same mirror, for looking. */
  readonly looking: SharedReading;
  readonly signal: AbortSignal;
  /** Called whenever all changes up to a cursor have been written. */
  readonly onCursor: (cursor: string) => void;
}

/**
 * The changes as text, for ever: what those of each state come to, with its cursor in JSON lines. Throws the signal's reason, and a
 * CursorError where the mirror cannot go on from the cursor, as when another file takes its place.
 */
export async function* followChunks(request: FollowRequest, ports: FollowPorts): AsyncGenerator<Uint8Array> {
  const { store, looking, signal, onCursor } = ports;
  const { since, format } = request;
  let isFirst = true;
  let cursor = since !== undefined && 'cursor' in since ? since.cursor : undefined;
  /** Nothing from before it is new. */
  let newest: Timestamp | undefined;

  function* toldOf(snapshot: Snapshot, changes: Iterable<ReportedChange>) {
    let held: ReportedChange[] = [];
    const take = (): Uint8Array => {
      const lines = linesOf(held, format, isFirst);
      isFirst = false;
      held = [];
      return Buffer.from(lines);
    };
    for (const change of changes) {
      if (change.change === 'inserted' && (newest === undefined || change.at > newest)) newest = change.at;
      held.push(change);
      if (held.length < heldChanges) continue;
      // Whoever comes back from this has written them.
      yield take();
      if (change.seq !== undefined) onCursor(snapshot.cursor(change.seq));
    }
    yield take();
  }

  for (;;) {
    if (cursor === undefined || cursor !== looking.read((snapshot) => snapshot.cursor())) {
      const snapshot = store.snapshot();
      try {
        const changes = changesUpTo(snapshot, request, cursor, newest);
        yield* toldOf(snapshot, changes);
        cursor = snapshot.cursor();
        if (format === 'json' || format === 'jsonl') yield Buffer.from(`${JSON.stringify({ cursor })}\n`);
        onCursor(cursor);
      } finally {
        snapshot.release();
      }
    }
    try {
      await wait(lookMs, undefined, { signal });
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  }
}

function changesUpTo(
  snapshot: Snapshot,
  { resources, ignore, since }: FollowRequest,
  cursor: string | undefined,
  newest: Timestamp | undefined,
): Iterable<ReportedChange> {
  if (cursor !== undefined) return changesSince(snapshot, { resources, ignore, after: snapshot.seqOf(cursor), newest });
  if (since === undefined || !('at' in since)) return [];
  const span = { from: since.at, to: '9999-12-31T23:59:59.999999Z' as Timestamp };
  return changesOf(snapshot, { resources, ignore, span });
}
