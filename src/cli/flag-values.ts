/** Values of flags, and standard input. */
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import { UsageError } from '../model/errors.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { type Day, dayOf, momentForms, parseMoment, parseDuration, systemClock, timestampOf } from '../model/time.ts';

/** Parses a flag's text as milliseconds; 0s is allowed. */
export function toWait(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError('It must be a duration such as 500ms, 30s or 10m.');
}

/** Returns a parser of a flag's text to ms since 1970. @param dayEnd a day means its last millisecond instead of its first */
export function toMoment(dayEnd = false): (text: string) => number {
  return (text) => {
    const moment = parseMoment(text, systemClock.now(), dayEnd);
    if (moment === undefined) throw new InvalidArgumentError(`It must be ${momentForms}.`);
    return moment;
  };
}

/** The same for what the server knows only by the day: the UTC day of the moment. */
export function toDayOf(text: string): Day {
  return dayOf(toMoment()(text));
}

/** In ms since 1970. */
export interface SpanFlags {
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

/** @param what is of that time: `only what was sent` @param given says from when on if nothing is given */
export function addSpanFlags(
  command: Command,
  what: string,
  given = '',
  toStart: (text: string) => unknown = toMoment(),
): Command {
  return command
    .option('--since <time>', `${what} from this time on: a time, a day, or 7d for seven days ago${given}`, toStart)
    .option('--until <time>', `${what} up to this time, or to the end of this day (default: now)`, toMoment(true));
}

/** Throws a UsageError if --since is after --until. */
export function checkSpan({ since, until }: SpanFlags): void {
  if (since === undefined || until === undefined || since <= until) return;
  throw new UsageError(`--since ${timestampOf(since)} is after --until ${timestampOf(until)}`);
}

/** @param doing what the command does with the resources: `read` */
export function resourcesArgument(doing: string): Argument {
  return new Argument('[resource...]', `what to ${doing} (default: everything)`).choices(resourceNames);
}

/** Returns each named resource once, or all of them if none was named. */
export function namedOf(resources: readonly ResourceName[]): readonly ResourceName[] {
  return resources.length === 0 ? resourceNames : [...new Set(resources)];
}

/** @param what the command prints: `rows` */
export function formatOption(what: string, formats: readonly string[]): Option {
  return new Option('--format <format>', `how to print ${what}; --json means json`).choices(formats).default('table');
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

/** More than any statement or email has. An endless input must not fill the memory. */
const maxInputBytes = 16 * 1024 * 1024;

/** Reads standard input to its end, as UTF-8. Throws a UsageError if it is too long. */
export async function readInput(stdin: AsyncIterable<Uint8Array | string>): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin) {
    const piece = Buffer.from(chunk);
    bytes += piece.length;
    if (bytes > maxInputBytes) {
      throw new UsageError(`standard input is longer than ${maxInputBytes / 1024 / 1024} MiB`, {
        advice: 'Check what is redirected (<) or piped (|) into the command.',
      });
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}
