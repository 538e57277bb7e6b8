/**
 * `bulk results`: writes every row of the batch to exactly one of four files, in the columns and order of its sheet, and a manifest
 * with their counts and hashes. A file that a person may have changed holds somebody's work, so it is replaced only with --force.
 * Section "Writing" of docs/architecture.md.
 */
import { createHash, hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Batch, Intent, Journal } from '../journal/port.ts';
import { UsageError } from '../model/errors.ts';
import { explainFileError, makeFolder, readRegularFile, refuseUnfit } from '../model/files.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';
import { intentStates, type ResultFile, resultFileOf, resultFiles } from './intent.ts';
import { factsOf, recordOf, reportOf } from './report.ts';
import { ownCells } from './review.ts';
import { limits } from './sheet/limits.ts';
import { type Table, type TableCell, tableFormats, type TableWriter } from '../model/spreadsheet.ts';

/** The columns that result files have besides those of the sheet. */
export const ourColumns: readonly string[] = (
  '_row _state _balance_before _balance_after _http_status _evidence _problem _discrepancy _token _user_id _sent_at ' +
  '_transaction_id'
).split(' ');

interface WrittenFile {
  readonly name: string;
  /** Without the header. */
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

export type Manifest = Readonly<Awaited<ReturnType<typeof manifestOf>>>;

/**
 * Writes the files into the folder, and makes it if necessary. The manifest is written last. Throws a UsageError if a file there was
 * changed since, or is somebody else's, unless `force` is set. Unchanged files in another format are deleted: they are out of date.
 */
export async function writeResults(
  { journal, clock, signal }: { readonly journal: Journal; readonly clock: Clock; readonly signal: AbortSignal },
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
  const names = (format: string): string[] => resultFiles.map((name) => `${name}.${format}`);
  // The hash that would be written now: a run that was cut off may have left files without a manifest.
  const fresh = async (file: string): Promise<string | undefined> => {
    const name = resultFiles.find((each) => `${each}.${writer.format}` === file);
    return name && (await fileNow(journal, batch, name, writer)).sha256;
  };
  if (!force) await refuseChanged(folder, [...names(writer.format), manifestName], fresh);
  const others = tableFormats.filter((format) => format !== writer.format).flatMap(names);
  const outdated = await unchangedFiles(folder, others);
  const files: WrittenFile[] = [];
  // One after the other: each reads the journal as it stands.
  for (const name of resultFiles) {
    const { chunks, written } = rowsFile(journal, batch, name, writer);
    await writeDurableFile(join(folder, `${name}.${writer.format}`), chunks, signal);
    files.push(written());
  }
  const manifest = await manifestOf({ journal, clock }, batch, files);
  await writeDurableFile(join(folder, manifestName), once(sealedManifest(manifest)), signal);
  for (const name of outdated) await rm(join(folder, name), { force: true });
  return manifest;
}

async function manifestOf(
  { journal, clock }: { readonly journal: Journal; readonly clock: Clock },
  batch: Batch,
  files: readonly WrittenFile[],
) {
  return {
    ...(await reportOf(journal, batch)),
    ...(await recordOf(journal, batch)),
    ...factsOf(batch),
    written_at: timestampOf(clock.now()),
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
export async function manifestText(
  ports: { readonly journal: Journal; readonly clock: Clock },
  batch: Batch,
  writer: TableWriter,
): Promise<string> {
  const files: WrittenFile[] = [];
  for (const name of resultFiles) files.push(await fileNow(ports.journal, batch, name, writer));
  return sealedManifest(await manifestOf(ports, batch, files));
}

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

function rowsFile(journal: Journal, batch: Batch, name: ResultFile, writer: TableWriter) {
  const digest = createHash('sha256');
  let [rows, bytes] = [0, 0];
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for await (const chunk of writer.chunks(tableOf(journal, batch, name, () => void (rows += 1)))) {
      digest.update(chunk);
      bytes += chunk.length;
      yield chunk;
    }
  }
  const file = `${name}.${writer.format}`;
  return { chunks: chunks(), written: (): WrittenFile => ({ name: file, rows, bytes, sha256: digest.digest('hex') }) };
}

async function fileNow(journal: Journal, batch: Batch, name: ResultFile, writer: TableWriter): Promise<WrittenFile> {
  const { chunks, written } = rowsFile(journal, batch, name, writer);
  for await (const chunk of chunks) void chunk;
  return written();
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

const manifestName = 'manifest.json';

const manifestShape = z.looseObject({
  files: z.array(z.object({ name: z.string(), sha256: z.string() })),
  seal: z.string(),
});

/** The manifest as text. The seal at its end is the hash of the rest, so that a change is noticed. */
function sealedManifest(manifest: object): string {
  return jsonText({ ...manifest, seal: hash('sha256', jsonText(manifest)) });
}

/** Throws a UsageError if one of the files exists and is neither what the manifest says nor what would be written now. */
async function refuseChanged(
  folder: string,
  names: readonly string[],
  freshHash: (name: string) => Promise<string | undefined>,
): Promise<void> {
  const hashes = hashesIn(folder);
  const changed: string[] = [];
  for (const name of names) {
    const hash = await hashOf(join(folder, name));
    const kept = name === manifestName ? hashes !== undefined : hashes?.get(name) === hash;
    if (hash !== null && !kept && hash !== (await freshHash(name))) changed.push(name);
  }
  if (changed.length === 0) return;
  const [are, them] = changed.length === 1 ? ['is', 'it'] : ['are', 'them'];
  throw new UsageError(
    `${changed.join(', ')} in ${folder} ${are} not as \`bulk results\` wrote ${them}, and may hold somebody's work; nothing was written`,
    { advice: `Name another folder with -o, or replace ${them} with --force.` },
  );
}

async function unchangedFiles(folder: string, names: readonly string[]): Promise<string[]> {
  const hashes = hashesIn(folder);
  const same: string[] = [];
  for (const name of names) {
    const hash = hashes?.get(name);
    if (hash !== undefined && (await hashOf(join(folder, name))) === hash) same.push(name);
  }
  return same;
}

/** The hashes in the folder's manifest, by file name; undefined if there is no manifest, or somebody has changed it. */
function hashesIn(folder: string): ReadonlyMap<string, string> | undefined {
  try {
    const text = readRegularFile(join(folder, manifestName), limits.fileBytes).bytes.toString('utf8');
    const json: unknown = JSON.parse(text);
    const { files } = manifestShape.parse(json);
    // From the unparsed JSON: the seal covers all members in their order, also those that the shape does not name.
    const { seal: _, ...manifest } = json as { readonly seal: string };
    if (text !== sealedManifest(manifest)) return undefined;
    return new Map(files.map(({ name, sha256: hash }) => [name, hash]));
  } catch {
    return undefined;
  }
}

/** Returns null if there is no such file, and '' if it cannot be read. */
async function hashOf(path: string): Promise<string | null> {
  const digest = createHash('sha256');
  try {
    refuseUnfit(path);
    for await (const chunk of createReadStream(path)) digest.update(chunk as Uint8Array);
    return digest.digest('hex');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? null : '';
  }
}

const jsonText = (value: object): string => `${JSON.stringify(value, undefined, 2)}\n`;
