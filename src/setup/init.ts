/** What `init` needs to know before it writes, and how it writes: the config file and the file of the key, both or neither. */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { FileError, UsageError } from '../model/errors.ts';
import { explainFileError, makeFolder, readRegularFile } from '../model/files.ts';
import { resourceNames } from '../model/resources.ts';
import type { Secret } from '../model/secret.ts';
import { type ConfigFile, parseConfigFile } from '../settings/config-file.ts';
import { profileName } from '../settings/kinds.ts';
import { profileVariable } from '../settings/profiles.ts';
import { typedKey } from '../settings/server.ts';
import { defaultConfigFile, type Settings, type SettingsReading, valueOf } from '../settings/settings.ts';
import { settingOf } from '../settings/table.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';
import { newFile, type Related, withServer } from './config-edit.ts';

/** The config file, and the part of it that `init` writes. */
export interface Target {
  readonly profile: string | undefined;
  /** The name of the file, as in the settings. */
  readonly config: string;
  readonly path: string;
  /** Undefined if there is no file yet. */
  readonly text: string | undefined;
  /** The server that this part of the file already names. */
  readonly other: string | undefined;
  /** The server that the file already names outside of any profile. */
  readonly common: string | undefined;
}

export interface InitInput {
  readonly baseUrl: string;
  /** Written to the config file as it is: relative to the working folder, or absolute. Null if the key stays in its variable. */
  readonly keyFile: string | null;
  readonly key: Secret;
  /** Whether the key file must be written. */
  readonly isNew: boolean;
}

/** The related records of users that most people ask for. */
export const usualRelations = ['orders', 'payments', 'balance_transactions'] as const;

/** Returns the section `resources` with these of users, and those of other resources as they are in force. */
export function relatedWith({ resources }: Settings, ofUsers: readonly string[]): Related {
  const all = resourceNames.map(
    (name) => [name, { include: name === 'users' ? ofUsers : resources[name].include }] as const,
  );
  return Object.fromEntries(all.filter(([, { include }]) => include.length > 0));
}

/** Throws an OperatorError if the config file cannot be read or is wrong. */
export function targetOf(reading: SettingsReading, folder: string): Target {
  const named = valueOf(reading, 'profile');
  // A profile in the config file is only the default for other commands, not the one to add.
  const profile = /^(flag|environment|\.env) /.test(named.origin) ? String(named.value) : undefined;
  if (profile !== undefined && !profileName.test(profile)) {
    const advice = 'Use up to 32 letters, digits, - and _.';
    throw new UsageError(`a profile cannot be called "${profile}"`, { advice });
  }
  const config = String(valueOf(reading, 'config').value ?? defaultConfigFile);
  const path = resolve(folder, config);
  const text = existsSync(path) ? textOf(path, 'config file') : undefined;
  const file = parseConfigFile(text ?? '', config);
  const [problem] = file.problems;
  if (problem !== undefined) throw problem;
  const own = profile === undefined ? file : file.profiles.find(({ name }) => name === profile);
  return { profile, config, path, text, other: addressIn(own), common: addressIn(file) };
}

function addressIn(file: Pick<ConfigFile, 'values'> | undefined): string | undefined {
  const address = file?.values.get('api.base_url')?.value;
  return typeof address === 'string' ? address : undefined;
}

function textOf(path: string, what: string): string {
  try {
    return readRegularFile(path).bytes.toString('utf8');
  } catch (error) {
    throw explainFileError(error, `read the ${what}`, path) ?? error;
  }
}

/** Returns the name of the variable that holds the key itself. */
export function keyVariable(profile: string | undefined): string {
  return profile === undefined ? settingOf('api.key').env : profileVariable(settingOf('api.key'), profile);
}

/** Reads the key from the file; undefined if the file does not exist. Throws a FileError or a UsageError. */
export function keyIn(folder: string, file: string): Secret | undefined {
  const path = resolve(folder, file);
  return existsSync(path) ? typedKey(textOf(path, 'key file'), `the key file ${file}`) : undefined;
}

const schema = fileURLToPath(new URL('../../config/admin-mirror.schema.json', import.meta.url));

/** Writes key and config, both or neither. Throws a FileError. */
export async function writeServer(
  { profile, path, text }: Target,
  { baseUrl, keyFile, key, isNew }: InitInput,
  {
    folder,
    signal,
    ...more
  }: { folder: string; insecureHttp: boolean; related: Related | undefined; signal: AbortSignal },
): Promise<void> {
  const server = { profile, baseUrl, keyFile, ...more };
  const written = text === undefined ? newFile(relative(dirname(path), schema), server) : withServer(text, server);
  const undo = isNew && keyFile !== null ? writeKey(resolve(folder, keyFile), key) : () => {};
  try {
    makeFolder(dirname(path));
    // A service of another user may have to read it. Others must not write to it, or it would be refused.
    await writeDurableFile(path, Readable.from([Buffer.from(written)]), signal, 0o644);
  } catch (error) {
    undo();
    throw error;
  }
}

/** Writes the key to a new file that only its owner can read. Returns the function that undoes it. */
function writeKey(path: string, key: Secret): () => void {
  const undo = () => rmSync(path, { force: true });
  try {
    makeFolder(dirname(path));
    writeFileSync(path, `${key.reveal()}\n`, { flag: 'wx', mode: 0o600, flush: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      throw new FileError(`${path} already exists and was left as it is`, { advice: 'Name another file.' });
    }
    undo();
    throw explainFileError(error, 'write the key file', path) ?? error;
  }
  return undo;
}
