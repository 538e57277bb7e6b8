/** What the programs that the worker starts are given: the config file as it was checked, the flags, the environment. */
import { renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { FileError } from '../../model/errors.ts';
import { explainFileError } from '../../model/file-error.ts';
import { makeFolder } from '../../model/folder.ts';
import { type SettingsReading, settingsFrom } from '../../settings/settings.ts';
import { allSettings, isSecret } from '../../settings/table.ts';
import type { CliContext } from '../context.ts';

/**
 * Keeps a copy of the config file beside the mirror, and gives its path: a file that is being edited, or was broken since,
 * neither stops tonight's jobs nor changes half of them. SIGHUP brings a new one into force. Throws a FileError.
 */
export function keepConfig(reading: SettingsReading): string {
  const { mirror } = settingsFrom(reading).store;
  const copy = `${mirror.replace(/\.db$/, '')}.worker.yaml`;
  try {
    makeFolder(dirname(copy));
    // What was checked and not what stands there by now; in one step, since a disk that is full must leave the copy that the
    // old config file goes on by.
    writeFileSync(`${copy}.new`, reading.configBytes ?? '', { mode: 0o600 });
    renameSync(`${copy}.new`, copy);
  } catch (error) {
    throw explainFileError(error, 'keep the config file as', copy) ?? new FileError(String(error), { cause: error });
  }
  return copy;
}

/** The flags of every command that this one was given, as they are given on. */
export function givenFlags(reading: SettingsReading): string[] {
  return reading.readings.flatMap(({ setting, value, origin }) => {
    const flag = /^flag (--[\w-]+)$/.exec(origin)?.[1];
    if (flag === undefined || setting.key === 'config') return [];
    // `--quiet` and `--verbose` stand for a value, and so does a switch.
    return setting.flag?.includes('<') === true ? [flag, String(value)] : [flag];
  });
}

const secretNames = allSettings.filter(isSecret).map(({ env }) => env);

/** The environment as a program of somebody else may have it: the key, that of a profile too, and the like stay here. */
export function withoutSecrets(environment: CliContext['environment']): CliContext['environment'] {
  const holdsSecret = (name: string) => secretNames.some((each) => name === each || name.startsWith(`${each}_`));
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !holdsSecret(name)));
}
