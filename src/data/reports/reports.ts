/**
 * Saved reports: SQL files whose header says what they tell, what they need and what they can be asked. Some come with
 * the program; others are the operator's own, and one of these wins over a shipped one of its name.
 */
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { FileError, UsageError } from '../../model/errors.ts';
import { explainFileError, fileReason } from '../../model/file-error.ts';
import { suggestion } from '../../model/nearest.ts';
import { readRegularFile } from '../../model/read-file.ts';
import { readHeader } from './header.ts';
import type { Report, ReportOrigin } from './report.ts';

/** A file that is no report, and why; it stands in nobody's way. */
export interface BrokenReport {
  readonly name: string;
  readonly file: string;
  readonly origin: ReportOrigin;
  readonly problems: readonly string[];
}

export interface Reports {
  /** By name. */
  readonly reports: readonly Report[];
  readonly broken: readonly BrokenReport[];
  /** Names of the operator's own that stand in the place of a shipped one. */
  readonly replaced: readonly string[];
}

export interface ReportFolders {
  readonly shipped: string;
  /** May be missing, or the same folder. */
  readonly own: string;
}

const ending = '.sql';
const namePattern = /^[a-z0-9][a-z0-9_-]*$/;

/** Reads every report. Throws a FileError for a folder that is there and cannot be read. */
export function loadReports({ shipped, own }: ReportFolders): Reports {
  const mine = resolve(own) === resolve(shipped) ? [] : readFolder(own, 'own');
  const names = new Set(mine.map(({ name }) => name));
  const theirs = readFolder(shipped, 'shipped');
  const all = [...mine, ...theirs.filter(({ name }) => !names.has(name))];
  const byName = <T extends { readonly name: string }>(list: readonly T[]) =>
    list.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return {
    reports: byName(all.filter((each) => 'sql' in each)),
    broken: byName(all.filter((each) => 'problems' in each)),
    replaced: theirs.map(({ name }) => name).filter((name) => names.has(name)),
  };
}

function readFolder(folder: string, origin: ReportOrigin): (Report | BrokenReport)[] {
  let files: string[];
  try {
    files = readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw explainFileError(error, 'read the reports in', folder) ?? error;
  }
  return files
    .filter((file) => file.endsWith(ending) && !file.startsWith('.'))
    .map((file) => readReport(folder, file, origin));
}

function readReport(folder: string, base: string, origin: ReportOrigin): Report | BrokenReport {
  const name = base.slice(0, -ending.length);
  const file = join(folder, base);
  if (!namePattern.test(name)) {
    const problems = [`"${name}" is no name of a report: small letters, digits, - and _`];
    return { name, file, origin, problems };
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(readRegularFile(file).bytes);
  } catch (error) {
    const why = error instanceof TypeError ? 'it is not UTF-8' : fileReason(error);
    return { name, file, origin, problems: [`the file cannot be read: ${why}`] };
  }
  const { header, sql, problems } = readHeader(text);
  return problems.length > 0 ? { name, file, origin, problems } : { name, file, origin, ...header, sql };
}

/** The report of that name. Throws a UsageError that names the nearest, a FileError where its file is broken. */
export function reportNamed({ reports, broken }: Reports, name: string): Report {
  const found = reports.find((each) => each.name === name);
  if (found !== undefined) return found;
  const spoilt = broken.find((each) => each.name === name);
  if (spoilt !== undefined) {
    throw new FileError(`report ${name} cannot be run: ${spoilt.problems[0]}`, {
      advice: `Correct ${spoilt.file}. \`admin-mirror doctor\` lists all that is wrong with reports.`,
    });
  }
  const names = reports.map((each) => each.name);
  throw new UsageError(`there is no report "${name}"`, {
    advice: `${suggestion(name, names)} \`admin-mirror reports\` lists them.`,
  });
}
