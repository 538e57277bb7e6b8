/**
 * `bulk results`: every row of the file in exactly one of four files, in the file's own columns and order, and a manifest
 * that counts and hashes them. Section "Writing" of docs/architecture.md.
 */
import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { explainFileError } from '../model/file-error.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import { csvLines, guardedText } from '../store/files/csv.ts';
import { ownerAlone, writeDurableFile } from '../store/files/durable-file.ts';
import type { Batch, Intent, Journal } from '../store/ports/journal.ts';
import { intentStates, type ResultFile, resultFileOf } from './intent.ts';
import { manifestName, refuseChanged, sealedManifest } from './kept-results.ts';
import { type BatchReport, reportOf } from './report.ts';

/** Besides the columns of the file. */
const ourColumns = [
  '_row',
  '_state',
  '_balance_before',
  '_balance_after',
  '_http_status',
  '_evidence',
  '_problem',
] as const;

const fileNames = ['applied', 'rejected', 'unknown', 'unprocessed'] as const satisfies readonly ResultFile[];

export interface WrittenFile {
  readonly name: string;
  /** Without the header. */
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

export interface Manifest extends Omit<BatchReport, 'file'> {
  readonly file: { readonly name: string; readonly bytes: number | null; readonly sha256: string | null } | null;
  readonly server: string;
  readonly undo_of: string | null;
  readonly created_at: Timestamp;
  readonly applied_at: Timestamp | null;
  readonly finished_at: Timestamp | null;
  readonly written_at: Timestamp;
  readonly files: readonly WrittenFile[];
}

/**
 * Writes the files into the folder, which is made where it is not there. The manifest comes last. Throws a UsageError where
 * a file there was changed since, or is another's, unless `force` says that it may be replaced.
 */
export async function writeResults(
  { journal, clock, signal }: { readonly journal: Journal; readonly clock: Clock; readonly signal: AbortSignal },
  batch: Batch,
  folder: string,
  force = false,
): Promise<Manifest> {
  try {
    await mkdir(folder, { recursive: true, mode: ownerAlone.folder });
  } catch (error) {
    throw explainFileError(error, 'make the folder', folder) ?? error;
  }
  const names = [...fileNames.map((name) => `${name}.csv`), manifestName];
  if (!force) await refuseChanged(folder, names, (name) => freshHash(journal, batch, name));
  const files: WrittenFile[] = [];
  // One after the other: each reads the journal as it stands.
  for (const name of fileNames) files.push(await writeFile(journal, batch, name, folder, signal));
  const { file, ...report } = reportOf(journal, batch);
  const manifest: Manifest = {
    ...report,
    file: file === null ? null : { name: file, bytes: batch.fileBytes, sha256: batch.fileHash },
    server: batch.server.address,
    undo_of: batch.undoOf,
    created_at: batch.createdAt,
    applied_at: batch.appliedAt,
    finished_at: batch.finishedAt,
    written_at: timestampOf(clock.now()),
    files,
  };
  await writeDurableFile(join(folder, manifestName), once(sealedManifest(manifest)), signal);
  return manifest;
}

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

async function writeFile(
  journal: Journal,
  batch: Batch,
  name: ResultFile,
  folder: string,
  signal: AbortSignal,
): Promise<WrittenFile> {
  const digest = createHash('sha256');
  let rows = 0;
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (const { text, count } of pieces(journal, batch, name)) {
      rows += count;
      const bytes = Buffer.from(text);
      digest.update(bytes);
      yield bytes;
    }
  }
  const bytes = await writeDurableFile(join(folder, `${name}.csv`), chunks(), signal);
  return { name: `${name}.csv`, rows, bytes, sha256: digest.digest('hex') };
}

/** Of a file of rows as it would be written now; undefined for any other file. */
function freshHash(journal: Journal, batch: Batch, file: string): string | undefined {
  const name = fileNames.find((each) => `${each}.csv` === file);
  if (name === undefined) return undefined;
  const digest = createHash('sha256');
  for (const { text } of pieces(journal, batch, name)) digest.update(text);
  return digest.digest('hex');
}

const rowsAPiece = 2_000;

function* pieces(
  journal: Journal,
  { batch, columns }: Batch,
  name: ResultFile,
): Iterable<{ readonly text: string; readonly count: number }> {
  const states = intentStates.filter((state) => resultFileOf(state) === name);
  // Guarded here, cell by cell: amounts of the file are text, and none for a spreadsheet to run.
  const lines = csvLines({ delimiter: ',', guard: false });
  yield { text: lines([[...columns.map(guarded), ...ourColumns]]), count: 0 };
  let rows: (string | number | null)[][] = [];
  for (const intent of journal.intents(batch, states)) {
    rows.push(cellsOf(intent, columns.length));
    if (rows.length < rowsAPiece) continue;
    yield { text: lines(rows), count: rows.length };
    rows = [];
  }
  yield { text: lines(rows), count: rows.length };
}

function cellsOf(intent: Intent, columns: number): (string | number | null)[] {
  const own = Array.from({ length: columns }, (_, at) => guarded(intent.cells[at] ?? ''));
  const { row, state, before, after, plannedBefore, httpStatus, evidence, problem } = intent;
  const shownBefore = before ?? plannedBefore;
  return [...own, row, state, shownBefore, after, httpStatus, evidence, problem === null ? null : guarded(problem)];
}

const plainNumber = /^-?\d+(?:\.\d+)?$/;

function guarded(text: string): string | null {
  if (text === '') return null;
  return plainNumber.test(text) ? text : guardedText(text);
}
