/** The flags of `export`, read into what is to be written and how. */
import { basename, dirname, join, relative, resolve } from 'node:path';
import type { CliContext } from './context.ts';
import { printNote, printWarning } from './output.ts';
import { isReport, reportRequest } from './report-request.ts';
import type { FileForm } from '../data/export.ts';
import { type Compression, type ExportFormat, exportFormats, formatOfName, isPacked } from '../data/formats.ts';
import type { SourceRequest } from '../data/source.ts';
import { UsageError } from '../model/errors.ts';
import { systemClock, type Timestamp, timestampOf } from '../model/time.ts';
import type { StatementPart } from '../store/reading-types.ts';
import { datedName, isDated, keepNewest, type KeptNames } from '../data/dated-files.ts';

interface ExportTarget {
  readonly path: string;
  /** As a person sees it. */
  readonly shown: string;
  readonly pattern: string;
  readonly keep: number | undefined;
}

/** Throws a UsageError where older ones are to go and the name does not tell which those are, or whose. */
export function targetOf(context: CliContext, output: string, keep: number | undefined): ExportTarget {
  const now = systemClock.now();
  const pattern = resolve(context.folder, output);
  if (keep !== undefined && !(isDated(basename(pattern)) && datedName(dirname(pattern), now) === dirname(pattern))) {
    throw new UsageError('--keep removes what {date} in the last part of the name tells apart, and there alone', {
      advice: 'Give a name such as -o users-{date}.csv.',
    });
  }
  const { profile } = context.settings();
  if (keep !== undefined && profile !== undefined && !namesProfile(output, profile)) {
    throw new UsageError(`--keep removes older files, and "${output}" does not say that they are of ${profile}`, {
      advice: `Name the profile in it, such as -o ${join(dirname(output), profile, basename(output))}.`,
    });
  }
  return { path: datedName(pattern, now), shown: datedName(output, now), pattern, keep };
}

/** Whether the profile is a word of the path: files of another profile are then of another pattern. */
function namesProfile(path: string, profile: string): boolean {
  return new RegExp(`(?:^|[^A-Za-z0-9])${profile}(?:[^A-Za-z0-9]|$)`).test(path);
}

/** Removes the older ones, once the new one is on the disk; gives the paths that are gone, where --keep was given. */
export async function removeOlder(
  context: CliContext,
  { path, pattern, keep }: ExportTarget,
  of: KeptNames['of'],
): Promise<{ readonly removed?: readonly string[] }> {
  if (keep === undefined) return {};
  const { removed, left } = await keepNewest({ pattern, written: path, keep, of });
  for (const each of removed) printNote(context, `removed ${relative(context.folder, each)}`);
  for (const each of left)
    printWarning(context, `${relative(context.folder, each)} is older, and could not be removed`);
  return { removed };
}

export interface ExportFlags {
  readonly all?: boolean;
  readonly sql?: string;
  readonly output?: string;
  readonly keep?: number;
  readonly format?: ExportFormat;
  readonly columns?: string;
  readonly where?: string;
  readonly order?: string;
  readonly asOf?: number;
  readonly changedSince?: string;
  readonly gzip?: boolean;
  readonly zstd?: boolean;
  readonly raw?: boolean;
  readonly bom?: boolean;
  readonly meta?: boolean;
  readonly mask?: boolean;
  readonly param?: ReadonlyMap<string, string>;
  readonly chart?: string;
}

/** What the rows are written as: by the flags, else by the ending of the file's name, else CSV. Throws a UsageError. */
export function formOf(flags: ExportFlags, file: string | undefined): FileForm {
  const named = file === undefined ? undefined : formatOfName(file);
  if (flags.format === undefined && named?.ending !== undefined && named.format === undefined) {
    throw new UsageError(`no format is written as "${named.ending}" (${file})`, {
      advice: `Let the name end in ${exportFormats.map((each) => `.${each}`).join(', ')}, or say which with --format.`,
    });
  }
  const format = flags.format ?? named?.format ?? 'csv';
  const compression = compressionOf(flags, named?.compression ?? null);
  if (compression !== null && isPacked(format)) {
    throw new UsageError(
      `--${compression} is for csv, tsv, json and jsonl: a file of ${format} is compressed as it is`,
    );
  }
  if (flags.bom === true && format !== 'csv' && format !== 'tsv') {
    throw new UsageError(`--bom is for csv and tsv, not for ${format}`);
  }
  return { format, raw: flags.raw === true, compression, bom: flags.bom === true };
}

function compressionOf({ gzip, zstd }: ExportFlags, named: Compression | null): Compression | null {
  if (gzip === true && zstd === true) throw new UsageError('--gzip and --zstd: give one of them');
  if (gzip === true) return 'gzip';
  return zstd === true ? 'zstd' : named;
}

const tableFlags = ['columns', 'where', 'order', 'asOf', 'meta', 'changedSince'] as const;

function flagOf(name: (typeof tableFlags)[number] | 'sql'): string {
  return `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Throws a UsageError where something was said that is of one table, and all are asked for. */
export function checkAll(what: string | undefined, flags: ExportFlags): void {
  if (what !== undefined) throw new UsageError(`--all is every table: give it, or "${what}", not both`);
  const other = [...tableFlags.filter((name) => name !== 'meta' && name !== 'changedSince'), 'sql' as const].find(
    (name) => flags[name] !== undefined,
  );
  if (other !== undefined) throw new UsageError(`${flagOf(other)} is for one table, and --all is every table`);
  const ofReport = (['param', 'chart'] as const).find((name) => flags[name] !== undefined);
  if (ofReport !== undefined) throw new UsageError(`--${ofReport} is for a report, and --all is every table`);
}

/** The rows that are asked for. Throws a UsageError. */
export async function whatOf(
  context: CliContext,
  what: string | undefined,
  flags: ExportFlags,
): Promise<SourceRequest> {
  if (flags.changedSince !== undefined) checkChanged(what, flags);
  if (isReport(what)) return reportRequest(context, what, flags, partOf(flags));
  if (flags.param !== undefined) throw new UsageError('--param is for reports: export report:NAME --param name=value');
  return flags.sql === undefined ? tableOf(what, flags) : queryOf(what, flags.sql, flags);
}

function queryOf(what: string | undefined, sql: string, flags: ExportFlags): SourceRequest {
  if (what !== undefined) throw new UsageError(`--sql stands in place of a table: give it, or "${what}", not both`);
  const other = tableFlags.find((name) => flags[name] !== undefined);
  if (other === undefined) return { sql };
  throw new UsageError(`${flagOf(other)} is for tables and views; with --sql, say it in the SQL`);
}

function tableOf(what: string | undefined, flags: ExportFlags): SourceRequest {
  if (what === undefined) {
    throw new UsageError('nothing to export was named', {
      advice: 'Name a table or view (`admin-mirror schema` lists them), or give --sql or --all.',
    });
  }
  const since = flags.changedSince === undefined ? {} : { changedSince: flags.changedSince };
  return { relation: what, meta: flags.meta === true, ...partOf(flags), ...since };
}

/** Throws a UsageError for what would leave out changes that a copy needs. */
function checkChanged(what: string | undefined, flags: ExportFlags): void {
  if (isReport(what)) throw new UsageError('--changed-since is for tables, and a report is computed from all rows');
  if (flags.where !== undefined) {
    throw new UsageError('--changed-since gives every change: a row that --where no longer meets would not be told', {
      advice: 'Leave one of them out.',
    });
  }
  if (flags.order !== undefined)
    throw new UsageError('--changed-since gives changes in their own order, and no --order');
  if (flags.asOf !== undefined) throw new UsageError('--changed-since goes up to now, and --as-of is for then');
}

/** What of the rows is wanted. Throws a UsageError. */
export function partOf(flags: ExportFlags): StatementPart {
  const columns = flags.columns === undefined ? undefined : namesOfFlag('--columns', flags.columns);
  return {
    ...(columns === undefined ? {} : { columns }),
    ...(flags.where === undefined ? {} : { where: flags.where }),
    ...(flags.order === undefined ? {} : { order: flags.order }),
    ...(flags.asOf === undefined ? {} : { asOf: past(flags.asOf) }),
  };
}

function past(moment: number): Timestamp {
  const at = timestampOf(moment);
  if (moment <= systemClock.now()) return at;
  throw new UsageError(`--as-of ${at} lies in the future`, { advice: 'Leave it out to export what is there now.' });
}

/** The names in a list such as `a,b`. Throws a UsageError where one is empty. */
function namesOfFlag(flag: string, list: string): string[] {
  const names = list.split(',').map((name) => name.trim());
  if (names.includes('')) throw new UsageError(`${flag} has an empty name: "${list}"`);
  return names;
}
