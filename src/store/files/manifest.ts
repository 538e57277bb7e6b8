/**
 * Manifests: a file of JSON beside the files that a command writes. It says what they hold, and has the SHA-256 of each under `files`,
 * so one line of jq gives `sha256sum -c` what to check. A folder has `manifest.json`, a single file `<name>.manifest.json`.
 */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { readRegularFile } from '../../model/files.ts';
import { version } from '../../model/program.ts';
import { isRecord } from '../../model/records.ts';
import { type Clock, timestampOf } from '../../model/time.ts';
import { writeDurableFile } from './durable-file.ts';

export const manifestName = 'manifest.json';

/** A file of a manifest. */
export interface ManifestFile {
  /** Its name, without a folder. */
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** What every manifest says first: which command of which version wrote it, and when. */
export function manifestHead<P extends string>(program: P, clock: Clock) {
  return { program, version: version(), written_at: timestampOf(clock.now()) };
}

/** Where the manifest of a single file lies. */
export function manifestBeside(file: string): string {
  return `${file}.${manifestName}`;
}

/** Writes the manifest, which appears whole or not at all. Throws a FileError. */
export async function writeManifest(
  path: string,
  manifest: { readonly files: readonly Pick<ManifestFile, 'file'>[] },
  signal: AbortSignal,
): Promise<void> {
  await writeDurableFile(path, bytesOf(`${JSON.stringify(manifest, undefined, 2)}\n`), signal);
}

/** Reads the manifest of a folder; undefined if there is none, and an empty one if it cannot be read as such. */
export function readManifest(folder: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const found: unknown = JSON.parse(readRegularFile(join(folder, manifestName)).bytes.toString('utf8'));
    return isRecord(found) ? found : {};
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? undefined : {};
  }
}

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

/** Passes the chunks on. Once they have been taken, `end` returns their length and hash. */
export function measured(chunks: AsyncIterable<Uint8Array>) {
  const digest = createHash('sha256');
  let bytes = 0;
  async function* passing(): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      digest.update(chunk);
      bytes += chunk.length;
      yield chunk;
    }
  }
  return { chunks: passing(), end: () => ({ bytes, sha256: digest.digest('hex') }) };
}

const hashedAtOnce = 1 << 20;

/** Returns the SHA-256 of the file. */
export async function hashOfFile(path: string): Promise<string> {
  const digest = createHash('sha256');
  const handle = await open(path, 'r');
  try {
    // A stream would make a new buffer for each piece, and leave a gigabyte of them to the collector.
    const buffer = Buffer.allocUnsafeSlow(hashedAtOnce);
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, hashedAtOnce);
      if (bytesRead === 0) return digest.digest('hex');
      digest.update(buffer.subarray(0, bytesRead));
    }
  } finally {
    await handle.close();
  }
}
