/** The changes of the mirror's rows, field by field: between two times, or followed as they happen. */
import type { QueryFormat } from './formats.ts';
import { jsonCell, mayHoldJson, header, rowLines, listChunks, type TextListForm } from './text-lines.ts';
import { namedColumns } from './text-table.ts';
import { type ResourceName, resourceOf } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type { Cell, ChangeSpan, RecordChange, Row } from './reading-types.ts';
import type { ReadingStore, Snapshot } from './reading.ts';
import { grouped } from '../model/text.ts';
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
  /** The name by which people know the record: a username, code, subject or name; null if it has none. */
  readonly label: string | null;
  readonly change: RecordChange['kind'];
  /** For an insertion or a deletion, every field that is not null. */
  readonly fields: readonly FieldChange[];
  /** Only if the changes after a number were requested. */
  readonly seq?: number;
}

interface ChangesRequest {
  readonly resources: readonly ResourceName[];
  readonly span: ChangeSpan;
  readonly ignore: readonly string[];
  /** Only changes of this kind. */
  readonly kind?: RecordChange['kind'] | undefined;
  /** Only updates that changed this field, and only what they did to it. */
  readonly field?: string | undefined;
  /** At most so many changes, the oldest. */
  readonly limit?: number | undefined;
}

interface SinceRequest extends Pick<ChangesRequest, 'resources' | 'ignore'> {
  readonly after: number;
  /** Records that were first seen before this time do not count as inserted. */
  readonly newest: Timestamp | undefined;
}

export const endOfTime = '9999-12-31T23:59:59.999999Z' as Timestamp;

const labelFields: Readonly<Record<ResourceName, string>> = {
  users: 'username',
  packages: 'name',
  emails: 'subject',
  coupons: 'code',
};

/** Yields the changes in the order of time, except for updates of ignored fields alone. */
export function changesOf(snapshot: Snapshot, request: ChangesRequest): Iterable<ReportedChange> {
  const { resources, span, ignore, limit = Infinity } = request;
  const sources = resources.map((resource) => reported(resource, ignore, snapshot.changes(resource, span)));
  return chosen(
    merged(sources, (one, other) => one.at < other.at),
    request,
  ).take(limit);
}

function chosen(changes: Generator<ReportedChange>, { kind, field }: ChangesRequest): IteratorObject<ReportedChange> {
  return changes.flatMap((each) => {
    if (kind !== undefined && each.change !== kind) return [];
    if (field === undefined) return [each];
    const fields = each.fields.filter((changed) => changed.field === field);
    return each.change === 'updated' && fields.length > 0 ? [{ ...each, fields }] : [];
  });
}

/** Yields the changes after a number, in the order of the numbers. Several changes of one record come as one. */
export function changesSince(
  snapshot: Snapshot,
  { resources, ignore, after, newest }: SinceRequest,
): Generator<ReportedChange & { readonly seq: number }> {
  const sources = resources.map((name) => reported(name, ignore, snapshot.changesAfter(name, after, newest)));
  return merged(sources, (one, other) => one.seq < other.seq);
}

/** Merges sorted sources into one sorted sequence. */
function* merged<T>(sources: readonly Generator<T>[], isBefore: (one: T, other: T) => boolean): Generator<T> {
  try {
    const heads = sources.map((source) => source.next());
    for (;;) {
      let first: T | undefined;
      let index = -1;
      for (const [at, head] of heads.entries()) {
        if (head.done === true || (first !== undefined && !isBefore(head.value, first))) continue;
        first = head.value;
        index = at;
      }
      const source = sources[index];
      if (first === undefined || source === undefined) return;
      yield first;
      heads[index] = source.next();
    }
  } finally {
    // Closes their statements if the caller stops early.
    for (const source of sources) source.return(undefined);
  }
}

/** Warns of resources whose history begins after the span does. */
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

/** Parses `_extra`. Its numbers keep all digits that the server sent. */
export function extrasOf(cell: Cell): ReadonlyMap<string, ReportedValue> {
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

/** Yields the output of `changes`. */
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
    if (form.format === 'table') yield Buffer.from(countLines(changesOf(snapshot, request), request.resources));
    yield* listChunks({ columns, rowsOf, jsonOf, head }, changesOf(snapshot, request), form, run.signal);
  } finally {
    snapshot.release();
  }
}

/** So many changes fit on a few screens; with more, a table begins with how many there are. */
const shownUncounted = 200;

/** `users     12 inserted, 340 updated`, a line for each resource; nothing for a few changes. */
function countLines(changes: Iterable<ReportedChange>, resources: readonly ResourceName[]): string {
  const counts = new Map<ResourceName, Map<RecordChange['kind'], number>>();
  let all = 0;
  for (const { resource, change } of changes) {
    const own = counts.get(resource) ?? new Map<RecordChange['kind'], number>();
    own.set(change, (own.get(change) ?? 0) + 1);
    counts.set(resource, own);
    all += 1;
  }
  if (all <= shownUncounted) return '';
  const lines = resources.map((resource) => {
    const kinds = Array.from(counts.get(resource) ?? [], ([kind, count]) => `${grouped(count)} ${kind}`);
    return `${resource.padEnd(9)} ${kinds.length === 0 ? 'none' : kinds.join(', ')}\n`;
  });
  return `${lines.join('')}\n`;
}

/** Writes a part of an endless list as JSON lines, CSV or TSV. TSV also replaces a table, whose widths nobody could know. */
function linesOf(changes: readonly ReportedChange[], format: QueryFormat, isFirst: boolean): string {
  if (format === 'json' || format === 'jsonl') return changes.map((change) => `${jsonOf(change)}\n`).join('');
  const style = { format: format === 'csv' ? 'csv' : 'tsv', raw: false } as const;
  return (isFirst ? header(style, columns) : '') + rowLines(style, columns)(changes.flatMap(rowsOf));
}

const columns = namedColumns('at, resource, id, who, change, field, old, new');

/** Returns a row for each field that changed; a single row for an inserted or deleted record. */
function rowsOf({ at, resource, id, label, change, fields }: ReportedChange): Row[] {
  const head: Row = [at, resource, id, label, change];
  if (change !== 'updated') return [[...head, null, null, null]];
  return fields.map(({ field, old, new: next }) => [...head, field, old.cell, next.cell]);
}

function jsonOf({ at, resource, id, label, change, fields, seq }: ReportedChange): string {
  const number = seq === undefined ? '' : `"seq":${seq},`;
  const inner = fields.map((each) => `${JSON.stringify(each.field)}:{"old":${each.old.json},"new":${each.new.json}}`);
  // Written by hand: the id is a bigint, which JSON.stringify refuses, and the values are JSON already.
  return `{${number}"at":"${at}","resource":"${resource}","id":${id},"label":${JSON.stringify(label)},"change":"${change}","fields":{${inner.join(',')}}}`;
}

/** How often to read the mirror's last number, which takes some milliseconds. SQLite does not report commits of other processes. */
const pollMs = 500;

const changesPerPiece = 100;

interface FollowRequest extends Pick<ChangesRequest, 'resources' | 'ignore'> {
  /** Where to begin: after a cursor, at a time; undefined: now. */
  readonly since: { readonly cursor: string } | { readonly at: Timestamp } | undefined;
  readonly format: QueryFormat;
}

interface FollowPorts {
  readonly store: ReadingStore;
  readonly signal: AbortSignal;
  /** Called each time that all changes up to a cursor have been written. */
  readonly onCursor: (cursor: string) => void;
}

/**
 * Yields the changes as text, until the signal stops it: those of each new state, followed by its cursor in JSON lines. Throws the
 * signal's reason, and a CursorError if the mirror does not know the cursor, as when another file takes its place.
 */
export async function* followChunks(request: FollowRequest, ports: FollowPorts): AsyncGenerator<Uint8Array> {
  const { store, signal, onCursor } = ports;
  const { since, format } = request;
  let isFirst = true;
  let cursor = since !== undefined && 'cursor' in since ? since.cursor : undefined;
  /** When the newest record written so far was first seen. */
  let newest: Timestamp | undefined;

  function* piecesOf(snapshot: Snapshot, changes: Iterable<ReportedChange>) {
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
      if (held.length < changesPerPiece) continue;
      yield take();
      // The caller has written the piece when it asks for the next.
      if (change.seq !== undefined) onCursor(snapshot.cursor(change.seq));
    }
    yield take();
  }

  for (;;) {
    const snapshot = store.snapshot();
    try {
      if (cursor !== snapshot.cursor()) {
        yield* piecesOf(snapshot, newChanges(snapshot, request, cursor, newest));
        cursor = snapshot.cursor();
        if (format === 'json' || format === 'jsonl') yield Buffer.from(`${JSON.stringify({ cursor })}\n`);
        onCursor(cursor);
      }
    } finally {
      snapshot.release();
    }
    try {
      await wait(pollMs, undefined, { signal });
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    }
  }
}

function newChanges(
  snapshot: Snapshot,
  { resources, ignore, since }: FollowRequest,
  cursor: string | undefined,
  newest: Timestamp | undefined,
): Iterable<ReportedChange> {
  if (cursor !== undefined) return changesSince(snapshot, { resources, ignore, after: snapshot.seqOf(cursor), newest });
  if (since === undefined || !('at' in since)) return [];
  return changesOf(snapshot, { resources, ignore, span: { from: since.at, to: endOfTime } });
}
