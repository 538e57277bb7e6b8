/** Every table as files of one folder, of one state, with a manifest. Section "Exports" of docs/architecture.md. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { relationTables, isResourceName, type ResourceName, resourceNames } from '../model/resources.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import { version } from '../model/program.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';
import { writeDurableFolder } from '../store/files/durable-folder.ts';
import type { Relation } from '../store/reading-types.ts';
import type { ReadingStore, Snapshot } from '../store/reading.ts';
import { type ExportRun, fileChunks, type FileForm } from './export.ts';
import { compressionEndings } from './formats.ts';
import { analystViews } from './dictionary.ts';
import { inventory, type InventoryTable } from './inventory.ts';
import { sourceOf, type SourceRequest } from './source.ts';

export const manifestProgram = 'admin-mirror';

export interface SetRequest {
  /** Made where it is not there. */
  readonly folder: string;
  readonly form: FileForm;
  /** Also the columns that the mirror keeps for itself, whose names begin with `_`. */
  readonly meta: boolean;
  /** A cursor: only what changed after it, of the tables that are numbered. */
  readonly changedSince?: string | undefined;
  /** Called with the name of each file before anything is written; throws where it must not be. */
  readonly check: (file: string) => void;
}

/** Writes the set. Throws a FileError where the folder cannot be written; what was in it then stays as it was. */
export async function exportSet(store: ReadingStore, request: SetRequest, run: ExportRun & { readonly clock: Clock }) {
  const { folder, form, meta, changedSince } = request;
  const snapshot = store.snapshot();
  try {
    const head = {
      program: manifestProgram,
      version: version(),
      /** The moment of the state that all files are of. */
      snapshot_at: timestampOf(run.clock.now()),
      /** Of this state, by which the files are traced to what the server had; null where none was written of it. */
      certificate: snapshot.certified(),
      /** What `--changed-since` takes to go on from this state. */
      cursor: snapshot.cursor(),
      /** The cursor after which the changes are in the files; null where every row is. */
      changed_since: changedSince ?? null,
    } as const;
    // Refused before anything is written.
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
      for (const table of tables)
        files.push(await writeTable(snapshot, table, { stage, form, what: requested(table.name) }, run));
      return { ...head, files };
    };
    return await writeDurableFolder(folder, manifestProgram, fill, run.signal);
  } finally {
    snapshot.release();
  }
}

/** Not the bookkeeping, freshness aside, nor the views that count what stands in the tables beside them. */
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
  return `${table}.${format}${compression === null ? '' : compressionEndings[compression]}`;
}

async function writeTable(
  snapshot: Snapshot,
  { name, columns: described }: InventoryTable,
  { stage, form, what }: { readonly stage: string; readonly form: FileForm; readonly what: SourceRequest },
  run: ExportRun,
) {
  const onWarning = (warning: string) => run.onWarning(`${name}: ${warning}`);
  const source = sourceOf(snapshot, what, onWarning);
  const digest = createHash('sha256');
  let rows = 0;
  const onRows = (more: number) => {
    rows += more;
    run.onRows(more);
  };
  async function* hashed(): AsyncGenerator<Uint8Array> {
    for await (const chunk of fileChunks(source, form, { ...run, onRows, onWarning, writesAtOnce: true })) {
      digest.update(chunk);
      yield chunk;
    }
  }
  const file = fileName(name, form);
  const bytes = await writeDurableFile(join(stage, file), hashed(), run.signal);
  const types = new Map(described.map((column) => [column.name, column.type]));
  const resource = resourceBehind(name);
  return {
    table: name,
    file,
    format: form.format,
    compression: form.compression,
    rows,
    bytes,
    sha256: digest.digest('hex'),
    /** With the types of the data dictionary. */
    columns: source.columns.map((column) => ({ name: column.name, type: types.get(column.name) ?? 'any' })),
    /** Of the resource that the table belongs to; null where it was never read whole, and of what belongs to none. */
    fresh_as_of: resource === undefined ? null : (snapshot.freshness().get(resource) ?? null),
  };
}

/** The resource whose records, earlier versions or related records the table holds. */
function resourceBehind(table: string): ResourceName | undefined {
  const related = relationTables.find((each) => each.table === table || each.view === table);
  if (related !== undefined) return related.resource;
  return isResourceName(table) ? table : resourceNames.find((name) => table === `${name}_history`);
}
