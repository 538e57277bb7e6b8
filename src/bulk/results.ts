/**
 * `bulk results`: writes every row of the batch to exactly one of four files, in the columns and order of its sheet, and a manifest
 * with their counts and hashes. A file that a person may have changed holds somebody's work, so it is replaced only with --force.
 * Section "Writing" of docs/architecture.md.
 */
import { join } from 'node:path';
import * as z from 'zod';
import type { Batch, Intent, Journal } from '../journal/port.ts';
import { UsageError } from '../model/errors.ts';
import { explainFileError, makeFolder, readRegularFile, refuseUnfit } from '../model/files.ts';
import type { Clock } from '../model/time.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';
import {
  hashOfFile,
  type ManifestFile,
  manifestHead,
  manifestName,
  measured,
  writeManifest,
} from '../store/files/manifest.ts';
import { intentStates, type ResultFile, resultFileOf, resultFiles } from './intent.ts';
import { factsOf, recordOf, reportOf } from './report.ts';
import { ownCells } from './review.ts';
import type { Table, TableCell, TableWriter } from '../model/spreadsheet.ts';

/** The columns that result files have besides those of the sheet. */
export const ourColumns: readonly string[] = (
  '_row _state _balance_before _balance_after _http_status _evidence _problem _discrepancy _token _user_id _sent_at ' +
  '_transaction_id'
).split(' ');

type Ports = { readonly journal: Journal; readonly clock: Clock };

interface ResultsManifestFile extends ManifestFile {
  /** Without the header. */
  readonly rows: number;
}

export type Manifest = Readonly<Awaited<ReturnType<typeof manifestOf>>>;

/**
 * Writes the files into the folder, and makes it if necessary. The manifest is written last. Throws a UsageError if a file there was
 * changed since, or is somebody else's, unless `force` is set.
 */
export async function writeResults(
  ports: Ports & { readonly signal: AbortSignal },
  batch: Batch,
  folder: string,
  writer: TableWriter,
  force = false,
): Promise<Manifest> {
  try {
    makeFolder(folder);
  } catch (error) {
    throw explainFileError(error, 'make the folder', folder) ?? error;
  }
  if (!force) await refuseChanged(folder, writer);
  const files: ResultsManifestFile[] = [];
  // One after the other: each reads the journal as it stands.
  for (const name of resultFiles) {
    const { file, chunks, written } = rowsFile(ports.journal, batch, name, writer);
    await writeDurableFile(join(folder, file), chunks, ports.signal);
    files.push(written());
  }
  const manifest = await manifestOf(ports, batch, files);
  await writeManifest(join(folder, manifestName), manifest, ports.signal);
  return manifest;
}

async function manifestOf({ journal, clock }: Ports, batch: Batch, files: readonly ResultsManifestFile[]) {
  return {
    ...manifestHead('admin-mirror bulk results', clock),
    ...(await reportOf(journal, batch)),
    ...(await recordOf(journal, batch)),
    ...factsOf(batch),
    files,
  };
}

/** The bytes of a single result file as of now. */
export function resultChunks(
  journal: Journal,
  batch: Batch,
  name: ResultFile,
  writer: TableWriter,
): AsyncIterable<Uint8Array> {
  return writer.chunks(tableOf(journal, batch, name));
}

/** The manifest of the files as of now, without writing them. */
export async function manifestNow(ports: Ports, batch: Batch, writer: TableWriter): Promise<Manifest> {
  const files: ResultsManifestFile[] = [];
  for (const name of resultFiles) {
    const { chunks, written } = rowsFile(ports.journal, batch, name, writer);
    for await (const chunk of chunks) void chunk;
    files.push(written());
  }
  return manifestOf(ports, batch, files);
}

function rowsFile(journal: Journal, batch: Batch, name: ResultFile, writer: TableWriter) {
  let rows = 0;
  const { chunks, end } = measured(writer.chunks(tableOf(journal, batch, name, () => void (rows += 1))));
  const file = `${name}.${writer.format}`;
  return { file, chunks, written: (): ResultsManifestFile => ({ file, rows, ...end() }) };
}

function tableOf(journal: Journal, { batch, columns }: Batch, name: ResultFile, onRow = (): void => {}): Table {
  const states = intentStates.filter((state) => resultFileOf(state) === name);
  async function* rows(): AsyncGenerator<readonly TableCell[]> {
    for await (const intent of journal.intents(batch, states)) {
      onRow();
      yield cellsOf(intent, columns);
    }
  }
  return { name, columns: [...columns, ...ourColumns], rows: rows() };
}

function cellsOf(intent: Intent, columns: readonly string[]): TableCell[] {
  const { row, state, before, after, plannedBefore, httpStatus, evidence, problem } = intent;
  const found = [intent.discrepancy, intent.token, intent.user, intent.sentAt, intent.recordId];
  const said = [row, state, before ?? plannedBefore, after, httpStatus, evidence, problem];
  return [...ownCells(intent.cells, columns), ...said, ...found];
}

/** Throws a UsageError if one of the files exists and is not as the manifest of an earlier run says. */
async function refuseChanged(folder: string, { format }: TableWriter): Promise<void> {
  const hashes = hashesIn(folder);
  const changed: string[] = [];
  for (const name of resultFiles.map((each) => `${each}.${format}`)) {
    const hash = await hashOf(join(folder, name));
    if (hash !== null && hashes.get(name) !== hash) changed.push(name);
  }
  if (changed.length === 0) return;
  const [are, them] = changed.length === 1 ? ['is', 'it'] : ['are', 'them'];
  throw new UsageError(
    `${changed.join(', ')} in ${folder} ${are} not as \`bulk results\` wrote ${them}, and may hold somebody's work; nothing was written`,
    { advice: `Name another folder with -o, or replace ${them} with --force.` },
  );
}

const manifestShape = z.object({ files: z.array(z.object({ file: z.string(), sha256: z.string() })) });

/** The hashes in the folder's manifest, by file name; empty if there is no manifest that can be read. */
function hashesIn(folder: string): ReadonlyMap<string, string> {
  try {
    const text = readRegularFile(join(folder, manifestName)).bytes.toString('utf8');
    return new Map(manifestShape.parse(JSON.parse(text)).files.map(({ file, sha256 }) => [file, sha256]));
  } catch {
    return new Map();
  }
}

/** Returns null if there is no such file, and '' if it cannot be read. */
async function hashOf(path: string): Promise<string | null> {
  try {
    refuseUnfit(path);
    return await hashOfFile(path);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? null : '';
  }
}
