/** Result files that a person may have changed: they are notes of somebody's work, and no command replaces them by itself. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { UsageError } from '../model/errors.ts';
import { readRegularFile, refuseUnfit } from '../model/read-file.ts';
import { limits } from './sheet/limits.ts';

export const manifestName = 'manifest.json';

const manifestShape = z.looseObject({
  files: z.array(z.object({ name: z.string(), sha256: z.string() })),
  seal: z.string(),
});

/** The manifest as text, with the hash of what it says at its end, by which a change of it is noticed. */
export function sealedManifest(manifest: object): string {
  return jsonText({ ...manifest, seal: sha256(jsonText(manifest)) });
}

/**
 * Throws a UsageError where one of the files is there and is not what the manifest in the folder says, or not what it
 * said when it was written.
 * @param freshHash of what would be written under that name now: a run that was cut off has left files without a manifest
 */
export async function refuseChanged(
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

/** Those of the files that are there just as the manifest in the folder says. */
export async function unchangedFiles(folder: string, names: readonly string[]): Promise<string[]> {
  const hashes = hashesIn(folder);
  const same: string[] = [];
  for (const name of names) {
    const hash = hashes?.get(name);
    if (hash !== undefined && (await hashOf(join(folder, name))) === hash) same.push(name);
  }
  return same;
}

/** Of the files of the manifest there; undefined where there is none, or another than was written. */
function hashesIn(folder: string): ReadonlyMap<string, string> | undefined {
  try {
    const text = readRegularFile(join(folder, manifestName), limits.fileBytes).bytes.toString('utf8');
    const json: unknown = JSON.parse(text);
    const { files } = manifestShape.parse(json);
    // As it stands there, with its members in their order.
    const { seal: _, ...manifest } = json as { readonly seal: string };
    if (text !== sealedManifest(manifest)) return undefined;
    return new Map(files.map(({ name, sha256: hash }) => [name, hash]));
  } catch {
    return undefined;
  }
}

/** Null where there is no such file; '' where it cannot be read, so that nobody can say what is in it. */
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

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
const jsonText = (value: object): string => `${JSON.stringify(value, undefined, 2)}\n`;
