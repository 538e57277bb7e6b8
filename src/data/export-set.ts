/** Exports all tables, from one state, to files in one folder with a manifest. Section "Exports" of docs/architecture.md. */
import { join } from 'node:path';
import { relationTables, isResourceName, type ResourceName, resourceNames } from '../model/resources.ts';
import { type Clock, earliest, type Timestamp, timestampOf } from '../model/time.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';
import { manifestHead, measured } from '../store/files/manifest.ts';
import { writeDurableFolder } from '../store/files/durable-folder.ts';
import type { Relation } from './reading-types.ts';
import type { ReadingStore, Snapshot } from './reading.ts';
import { type ExportRun, fileChunks, type FileForm } from './export.ts';
import { gzipEnding } from './formats.ts';
import { analystViews } from './dictionary.ts';
import { inventory, type InventoryTable } from './inventory.ts';
import { sourceOf, type SourceRequest } from './source.ts';

export const manifestProgram = 'admin-mirror';

export interface SetRequest {
  /** Created if it does not exist. */
  readonly folder: string;
  readonly form: FileForm;
  /** Also the mirror's own columns, whose names begin with `_`. */
  readonly meta: boolean;
  /** A cursor: of the tables that have change numbers, only the rows that changed after it. */
  readonly changedSince?: string | undefined;
  /** The head of the journal's chain; null if there is none. */
  readonly journalHead?: unknown;
  /** Called with the name of each file before anything is written; throws if that file must not be written. */
  readonly check: (file: string) => void;
}

/** Writes the set. Throws a FileError if the folder cannot be written; its earlier contents then stay as they were. */
export async function exportSet(store: ReadingStore, request: SetRequest, run: ExportRun & { readonly clock: Clock }) {
  const { folder, form, meta, changedSince } = request;
  const snapshot = store.snapshot();
  try {
    const head = {
      ...manifestHead(manifestProgram, run.clock),
      /** When the state was read that all files come from. */
      snapshot_at: timestampOf(run.clock.now()),
      /** For `--changed-since` of the next export. */
      cursor: snapshot.cursor(),
      /** The files have only the changes after this cursor; null if they have every row. */
      changed_since: changedSince ?? null,
    } as const;
    // Refuses a cursor that the mirror does not know, before anything is written.
    if (changedSince !== undefined) snapshot.seqOf(changedSince);
    const numbered = new Set(snapshot.numberedTables().map(({ name }) => name));
    const tables = tablesOf(snapshot.relations()).filter(
      ({ name }) => changedSince === undefined || numbered.has(name) || name === 'mirror_freshness',
    );
    const requested = (table: string): SourceRequest => ({
      relation: table,
      meta,
      ...(changedSince !== undefined && numbered.has(table) && { changedSince }),
    });
    for (const { name } of tables) request.check(fileName(name, form));
    const fill = async (stage: string) => {
      const files: Awaited<ReturnType<typeof writeTable>>[] = [];
      for (const table of tables) {
        files.push(await writeTable(snapshot, table, { stage, form, what: requested(table.name) }, run));
      }
      const fresh = freshAsOf(snapshot);
      return {
        ...head,
        fresh_as_of: fresh,
        complete: fresh !== null,
        journal_head: request.journalHead ?? null,
        files,
      };
    };
    return await writeDurableFolder(folder, manifestProgram, fill, run.signal);
  } finally {
    snapshot.release();
  }
}

/** Tables to export: without bookkeeping, except for freshness, and without the views that only count the rows of other tables. */
function tablesOf(relations: readonly Relation[]): readonly InventoryTable[] {
  return inventory(relations).filter(
    ({ name, in_file: inFile, columns }) =>
      inFile === true &&
      (!name.startsWith('mirror_') || name === 'mirror_freshness') &&
      !analystViews.some((view) => view.name === name) &&
      columns.some(({ source }) => source !== 'file'),
  );
}

function fileName(table: string, { format, compression }: FileForm): string {
  return `${table}.${format}${compression === null ? '' : gzipEnding}`;
}

async function writeTable(
  snapshot: Snapshot,
  { name, columns: described }: InventoryTable,
  { stage, form, what }: { readonly stage: string; readonly form: FileForm; readonly what: SourceRequest },
  run: ExportRun,
) {
  const onWarning = (warning: string) => run.onWarning(`${name}: ${warning}`);
  const source = sourceOf(snapshot, what, onWarning);
  let rows = 0;
  const onRows = (more: number) => {
    rows += more;
    run.onRows(more);
  };
  const { chunks, end } = measured(fileChunks(source, form, { ...run, onRows, onWarning, writesAtOnce: true }));
  const file = fileName(name, form);
  await writeDurableFile(join(stage, file), chunks, run.signal);
  const types = new Map(described.map((column) => [column.name, column.type]));
  return {
    table: name,
    file,
    format: form.format,
    compression: form.compression,
    rows,
    ...end(),
    /** Types as in the data dictionary. */
    columns: source.columns.map((column) => ({ name: column.name, type: types.get(column.name) ?? 'any' })),
    /** That of the table's resource; null if it was never read whole, or if the table belongs to none. */
    fresh_as_of: resourceBehind(name) === undefined ? null : freshAsOf(snapshot, name),
  };
}

/** How fresh the table's rows are; those of all resources for a table of none. Null if one was never read whole. */
export function freshAsOf(snapshot: Snapshot, table?: string): Timestamp | null {
  const resource = table === undefined ? undefined : resourceBehind(table);
  const freshness = snapshot.freshness();
  return earliest((resource === undefined ? resourceNames : [resource]).map((name) => freshness.get(name) ?? null));
}

/** Returns the resource whose records, earlier versions or related records the table holds. */
function resourceBehind(table: string): ResourceName | undefined {
  const related = relationTables.find((each) => each.table === table || each.view === table);
  if (related !== undefined) return related.resource;
  return isResourceName(table) ? table : resourceNames.find((name) => table === `${name}_history`);
}
