/** Saved reports: SQL files with a header. The operator's own replaces a shipped one of the same name. */
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { defaultProblem } from './run.ts';
import { FileError, nearestNames, suggestion, UsageError } from '../../model/errors.ts';
import { wordsIn } from '../../model/text.ts';
import { explainFileError, fileReason, readRegularFile, readTrustedFile } from '../../model/files.ts';
import { type RelationTable, relationTable, isResourceName, resourceNames, resourceOf } from '../../model/resources.ts';

export const parameterTypes = ['date', 'time', 'integer', 'number', 'text', 'flag'] as const;
export type ParameterType = (typeof parameterTypes)[number];

export interface ReportParameter {
  readonly name: string;
  readonly type: ParameterType;
  /** As the operator would write it; null: no value, undefined: the operator must give one. */
  readonly default: string | null | undefined;
  readonly meaning: string;
}

export const columnTypes = ['text', 'integer', 'number', 'money', 'date', 'time', 'flag', 'json', 'mixed'] as const;
export type ColumnType = (typeof columnTypes)[number];

interface ReportColumn {
  readonly name: string;
  readonly type: ColumnType;
  readonly meaning: string;
}

export interface ReportNeed {
  /** Its name in the mirror. */
  readonly table: string;
  /** Only for a table of related records. */
  readonly relation: RelationTable | null;
  /** Keys of the related records that the report reads; `options.coupon` is a key inside another. */
  readonly keys: readonly string[];
}

const chartKinds = ['line', 'bar'] as const;
export type ChartKind = (typeof chartKinds)[number];

/** The picture to draw of the report's columns. */
export interface ReportChart {
  readonly kind: ChartKind;
  readonly x: string;
  readonly y: readonly string[];
}

interface ReportHeader {
  readonly title: string;
  /** The heading under which lists show it. */
  readonly subject: string;
  readonly description: string;
  readonly parameters: readonly ReportParameter[];
  readonly columns: readonly ReportColumn[];
  readonly needs: readonly ReportNeed[];
  /** Assumptions behind the numbers, printed at each run; `{name}` stands for the value of a parameter. */
  readonly assumptions: readonly string[];
  readonly chart: ReportChart | null;
}

type ReportOrigin = 'shipped' | 'own';

export interface Report extends ReportHeader {
  readonly name: string;
  readonly file: string;
  readonly origin: ReportOrigin;
  readonly sql: string;
}

interface Entry {
  readonly key: string;
  readonly value: string;
  readonly line: number;
}

const once = ['title', 'subject', 'description', 'chart'] as const;
const keys = [...once, 'parameter', 'column', 'needs', 'assumes'] as const;

const parameterPattern = /^[a-z][a-z0-9_]*$/;

/** Reads the header and the SQL below it. Returns its problems, with their lines, and never throws. */
export function readHeader(text: string) {
  const problems: string[] = [];
  const { entries, sql } = entriesOf(text, problems);
  for (const key of once) {
    const [, second] = entries.filter((each) => each.key === key);
    if (second !== undefined) problems.push(`line ${second.line}: a second ${key}`);
  }
  const first = (key: string): Entry | undefined => entries.find((each) => each.key === key);
  const all = <T>(key: string, read: (entry: Entry) => T | string): T[] =>
    entries
      .filter((each) => each.key === key)
      .flatMap((entry) => {
        const found = read(entry);
        if (typeof found !== 'string') return [found];
        problems.push(`line ${entry.line}: ${found}`);
        return [];
      });

  const columns = all('column', columnOf);
  const parameters = all('parameter', parameterOf);
  const [chart = null] = all('chart', (entry) => chartOf(entry, columns));
  const header: ReportHeader = {
    title: first('title')?.value ?? '',
    subject: first('subject')?.value ?? 'Other',
    description: first('description')?.value ?? '',
    parameters,
    columns,
    needs: all('needs', needsOf).flat(),
    assumptions: all('assumes', ({ value }) => assumptionOf(value, parameters)).map(({ words }) => words),
    chart,
  };
  for (const key of ['title', 'description', 'column', 'needs']) {
    const entry = first(key);
    if (entry === undefined || entry.value === '') problems.push(`the header has no ${key}`);
  }
  problems.push(...repeatedName('parameter', parameters), ...repeatedName('column', columns));
  if (sql.trim() === '') problems.push('there is no SQL below the header');
  return { header, sql, problems };
}

function entriesOf(text: string, problems: string[]): { entries: Entry[]; sql: string } {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  const end = lines.findIndex((line) => !line.startsWith('--') && line.trim() !== '');
  const head = end === -1 ? lines : lines.slice(0, end);
  const entries: Entry[] = [];
  for (const [index, line] of head.entries()) {
    const words = line.replace(/^--/, '');
    const last = entries.at(-1);
    if (words.trim() === '') continue;
    // An indented line continues the entry above.
    if (/^\s{2,}/.test(words) && last !== undefined) {
      entries[entries.length - 1] = { ...last, value: `${last.value} ${words.trim()}`.trim() };
      continue;
    }
    const [, key = '', value = ''] = /^\s*([\w-]+):\s*(.*)$/.exec(words) ?? [];
    const place = `line ${index + 1}`;
    if (key === '') problems.push(`${place}: "${line.trim()}" is not of the form "-- key: value"`);
    else if (!(keys as readonly string[]).includes(key)) {
      problems.push(`${place}: the header knows no "${key}". ${suggestion(key, keys)}`);
    }
    // Unknown entries are kept, too, so that the lines that continue them do not go to another.
    entries.push({ key, value: value.trim(), line: index + 1 });
  }
  return { entries, sql: end === -1 ? '' : lines.slice(end).join('\n').trimEnd() };
}

function cellsOf({ value }: Entry): string[] {
  return value.split('|').map((cell) => cell.trim());
}

function parameterOf(entry: Entry): ReportParameter | string {
  const [name = '', type = '', written, meaning = '', ...more] = cellsOf(entry);
  if (written === undefined || meaning === '' || more.length > 0) {
    return 'a parameter is written "name | type | default | meaning"';
  }
  if (!parameterPattern.test(name)) return `"${name}" is not the name of a parameter: small letters, digits and _`;
  const known = parameterTypes.find((each) => each === type);
  if (known === undefined) return `the parameter ${name} has the type "${type}". ${suggestion(type, parameterTypes)}`;
  const defaultValue = written === 'required' ? undefined : written === 'none' ? null : written;
  const parameter = { name, type: known, default: defaultValue, meaning };
  return defaultProblem(parameter) ?? parameter;
}

function columnOf(entry: Entry): ReportColumn | string {
  const [name = '', type = '', meaning = '', ...more] = cellsOf(entry);
  if (name === '' || meaning === '' || more.length > 0) return 'a column is written "name | type | meaning"';
  const known = columnTypes.find((each) => each === type);
  if (known === undefined) return `the column ${name} has the type "${type}". ${suggestion(type, columnTypes)}`;
  return { name, type: known, meaning };
}

/** `users, users.payments (status, amount)` */
function needsOf({ value }: Entry): ReportNeed[] | string {
  const parts = value.match(/[^,(]+(?:\([^)]*\))?/g) ?? [];
  const needs: ReportNeed[] = [];
  for (const part of parts) {
    const [, name = '', list] = /^\s*([\w.]+)\s*(?:\(([^)]*)\))?\s*$/.exec(part) ?? [];
    const [resource = '', relation, ...more] = name.split('.');
    const read = wordsIn(list ?? '');
    if (name === '' || more.length > 0) {
      return `"${part.trim()}" is not a table, nor related records such as users.orders`;
    }
    if (relation === undefined) {
      if (list !== undefined) return `keys belong to related records, as in users.orders (status), and not to ${name}`;
      needs.push({ table: name, relation: null, keys: [] });
      continue;
    }
    if (!isResourceName(resource)) {
      return `there are no ${resource} to read ${relation} of. ${suggestion(resource, resourceNames)}`;
    }
    const known = resourceOf(resource).includes ?? [];
    if (!known.includes(relation)) {
      return `${resource} have no related records called "${relation}". ${suggestion(relation, known)}`;
    }
    const table = relationTable(resource, relation);
    needs.push({ table: table.table, relation: table, keys: read });
  }
  return needs;
}

function assumptionOf(value: string, parameters: readonly ReportParameter[]): { words: string } | string {
  const names = parameters.map(({ name }) => name);
  const unknown = [...value.matchAll(/\{([^{}]*)\}/g)].find(([, name = '']) => !names.includes(name));
  return unknown === undefined ? { words: value } : `{${unknown[1] ?? ''}} is not a parameter`;
}

function chartOf({ value }: Entry, columns: readonly ReportColumn[]): ReportChart | string {
  const [kind = '', x = '', list = '', ...more] = value.split(/\s+/);
  const known = chartKinds.find((each) => each === kind);
  if (known === undefined || list === '' || more.length > 0) {
    return 'a chart is written "line x y" or "bar x y", with several y separated by commas alone';
  }
  const y = list.split(',');
  for (const name of [x, ...y]) {
    if (columns.some((each) => each.name === name)) continue;
    const near = nearestNames(
      name,
      columns.map((each) => each.name),
    );
    return `the chart names "${name}", which is not a column${near.length === 0 ? '' : `; ${near[0]} is`}`;
  }
  const noNumber = columns.find(({ name, type }) => y.includes(name) && !['integer', 'number', 'money'].includes(type));
  return noNumber === undefined
    ? { kind: known, x, y }
    : `the chart draws "${noNumber.name}", which is ${noNumber.type}`;
}

function repeatedName(what: string, named: readonly { readonly name: string }[]): string[] {
  const names = named.map(({ name }) => name);
  const repeated = names.find((name, index) => names.indexOf(name) !== index);
  return repeated === undefined ? [] : [`two ${what}s are called "${repeated}"`];
}

/** A file that is not a valid report. It does not keep the others from running. */
interface BrokenReport extends Pick<Report, 'name' | 'file' | 'origin'> {
  readonly problems: readonly string[];
}

export interface Reports {
  readonly reports: readonly Report[];
  readonly broken: readonly BrokenReport[];
  /** Names of shipped reports that the operator's own replace. */
  readonly replaced: readonly string[];
}

interface ReportFolders {
  readonly shipped: string;
  /** May be missing, or the same folder. */
  readonly own: string;
}

const ending = '.sql';
const namePattern = /^[a-z0-9][a-z0-9_-]*$/;

/** Reads every report. Throws a FileError for a folder that exists but cannot be read. */
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
    const problems = [`"${name}" is not the name of a report: small letters, digits, - and _`];
    return { name, file, origin, problems };
  }
  let text: string;
  try {
    // Shipped reports need no check of their permissions: whoever can change them can change the program.
    const { bytes } = origin === 'own' ? readTrustedFile(file, 'it') : readRegularFile(file);
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    const why = error instanceof TypeError ? 'it is not UTF-8' : fileReason(error);
    return { name, file, origin, problems: [`the file cannot be read: ${why}`] };
  }
  const { header, sql, problems } = readHeader(text);
  return problems.length > 0 ? { name, file, origin, problems } : { name, file, origin, ...header, sql };
}

/** Returns the report of that name. Throws a UsageError that suggests the nearest name, or a FileError if its file is broken. */
export function reportNamed({ reports, broken }: Reports, name: string): Report {
  const found = reports.find((each) => each.name === name);
  if (found !== undefined) return found;
  const brokenReport = broken.find((each) => each.name === name);
  if (brokenReport !== undefined) {
    throw new FileError(`report ${name} cannot be run: ${brokenReport.problems[0]}`, {
      advice: `Correct ${brokenReport.file}. \`admin-mirror doctor\` lists all problems of reports.`,
    });
  }
  const names = reports.map((each) => each.name);
  throw new UsageError(`there is no report "${name}"`, {
    advice: `${suggestion(name, names)} \`admin-mirror reports\` lists them.`,
  });
}
