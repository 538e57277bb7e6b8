/** Values of flags, the flags that are given on to other commands, and standard input. */
import { Argument, InvalidArgumentError, Option } from 'commander';
import { UsageError } from '../model/errors.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { momentForms, parseMoment, parseDuration, systemClock, type Timestamp } from '../model/time.ts';
import type { SettingsReading } from '../settings/settings.ts';

/** A flag's text as milliseconds, above 0. */
export function toDuration(text: string): number {
  const ms = toWait(text);
  if (ms > 0) return ms;
  throw new InvalidArgumentError(`It must be ${durationForms}.`);
}

const durationForms = 'a duration such as 500ms, 30s or 10m';

/** The same, where there may be none at all: 0s. */
export function toWait(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError(`It must be ${durationForms}.`);
}

/** A flag's text as ms since 1970. @param dayEnd a day stands for its last millisecond rather than its first */
export function toMoment(dayEnd = false): (text: string) => number {
  return (text) => {
    const moment = parseMoment(text, systemClock.now(), dayEnd);
    if (moment === undefined) throw new InvalidArgumentError(`It must be ${momentForms}.`);
    return moment;
  };
}

/** Throws a UsageError where --since lies after --until. */
export function checkSpan(since: Timestamp | undefined, until: Timestamp | undefined): void {
  if (since === undefined || until === undefined || since <= until) return;
  throw new UsageError(`--since ${since} lies after --until ${until}`);
}

/** @param doing what a command does with what is named: `read` */
export function resourcesArgument(doing: string): Argument {
  return new Argument('[resource...]', `what to ${doing}; without a name, everything`).choices(resourceNames);
}

/** Each once; all where none was named. */
export function namedOf(resources: readonly ResourceName[]): readonly ResourceName[] {
  return resources.length === 0 ? resourceNames : [...new Set(resources)];
}

/** @param what is printed, as `rows` */
export function formatOption(what: string, formats: readonly string[]): Option {
  const printed = `how ${what} are printed; --json stands for json`;
  return new Option('--format <format>', printed).choices(formats).default('table');
}

export function toWholeNumber(text: string): number {
  return wholeNumber(text, 0, 'A whole number is needed.');
}

export function toCount(text: string): number {
  return wholeNumber(text, 1, 'A whole number above 0 is needed.');
}

function wholeNumber(text: string, least: number, needed: string): number {
  const number = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(number) && number >= least) return number;
  throw new InvalidArgumentError(needed);
}

/** More than any statement or email has; a device that never ends must not fill the memory. */
const mostBytes = 16 * 1024 * 1024;

/** All of it, as UTF-8. Throws a UsageError where it is longer than such a text can be. */
export async function readInput(stdin: AsyncIterable<Uint8Array | string>): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin) {
    const piece = Buffer.from(chunk);
    bytes += piece.length;
    if (bytes > mostBytes) {
      throw new UsageError(
        `standard input has more than ${mostBytes / 1024 / 1024} MiB, which is too much to be read`,
        {
          advice: 'Check what is given to the command after <, or before |.',
        },
      );
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
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

/** The same with the config file, where a flag names it. */
export function passedFlags(reading: SettingsReading): string[] {
  const config = reading.readings.find(({ setting }) => setting.key === 'config');
  return [...givenFlags(reading), ...(config?.origin === 'flag --config' ? ['--config', String(config.value)] : [])];
}
