/**
 * The config file as the worker has read it, kept beside the mirror for the commands that it starts: one that is being
 * edited, or was broken since, neither stops tonight's jobs nor changes half of them. SIGHUP brings a new one into force.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { FileError } from '../../model/errors.ts';
import { explainFileError } from '../../model/file-error.ts';
import { makeFolder } from '../../model/folder.ts';
import { type SettingsReading, settingsFrom } from '../../settings/settings.ts';

/** Copies the config file of these settings; gives the path of the copy. Throws a FileError. */
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
