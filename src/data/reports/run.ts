/** Runs a saved report on one state of the mirror. */
import { checkAsOf } from '../selection.ts';
import type { ParameterType, Report, ReportNeed, ReportParameter } from './reports.ts';
import { OperatorError, suggestion, UsageError } from '../../model/errors.ts';
import { dayMs, dayOf, momentForms, parseMoment, timestampOf } from '../../model/time.ts';
import { isResourceName, type RelationTable, relationTables } from '../../model/resources.ts';
import type { BoundValues, Rows, StatementPart } from '../reading-types.ts';
import { type Snapshot, snapshotOf } from '../reading.ts';
import SqliteDatabase from 'better-sqlite3';
import { flatViewSql, makeRelationTable } from '../../store/relations.ts';
import { mirrorTables } from '../../store/schema.ts';

type Value = string | bigint | number;

const forms: Readonly<Record<ParameterType, string>> = {
  date: 'a day such as 2026-03-11, today, yesterday, or how long ago, as in 30d',
  time: `${momentForms}, or now`,
  integer: 'a whole number',
  number: 'a number such as 12.5',
  text: 'text',
  flag: '0 or 1',
};

/** Returns the value to bind; undefined if the text does not have the type. Days and times are UTC. */
function valueOf(type: ParameterType, text: string, now: number): Value | undefined {
  const trimmed = text.trim();
  switch (type) {
    case 'date': {
      const ms = momentOf(trimmed, now);
      return ms === undefined ? undefined : dayOf(ms);
    }
    case 'time': {
      const ms = momentOf(trimmed, now);
      return ms === undefined ? undefined : timestampOf(ms);
    }
    case 'integer':
      return /^[+-]?\d{1,18}$/.test(trimmed) ? BigInt(trimmed) : undefined;
    case 'number':
      return /^[+-]?(?:\d+(?:\.\d+)?|\.\d+)$/.test(trimmed) ? Number(trimmed) : undefined;
    case 'flag':
      return trimmed === '0' || trimmed === '1' ? BigInt(trimmed) : undefined;
    case 'text':
      return text;
  }
}

function momentOf(text: string, now: number): number | undefined {
  switch (text) {
    case 'now':
      return now;
    case 'today':
      return now - (now % dayMs);
    case 'yesterday':
      return now - (now % dayMs) - dayMs;
    default:
      return parseMoment(text.replace(/\sago$/, ''), now);
  }
}

/** Describes what is wrong with the default of a parameter; undefined if nothing is. */
export function defaultProblem({ name, type, default: text }: ReportParameter): string | undefined {
  // Any time will do as now: only the form is checked.
  if (text === null || text === undefined || valueOf(type, text, dayMs * 20_000) !== undefined) return undefined;
  return `the parameter ${name} has the default "${text}", which is not ${forms[type]}`;
}

/**
 * Returns the values to bind, including defaults. Throws a UsageError for an unknown name, a value of the wrong type, and a missing
 * value.
 * @param now the time that `today` and `30d ago` refer to, in ms since 1970
 */
export function boundValues(
  report: Pick<Report, 'name' | 'parameters'>,
  given: ReadonlyMap<string, string>,
  now: number,
): BoundValues {
  const names = report.parameters.map(({ name }) => name);
  for (const name of given.keys()) {
    if (names.includes(name)) continue;
    throw new UsageError(`report ${report.name} has no parameter "${name}"`, {
      advice: names.length === 0 ? 'It has none at all.' : suggestion(name, names),
    });
  }
  return Object.fromEntries(
    report.parameters.map((parameter) => [
      parameter.name,
      boundValue(report, parameter, given.get(parameter.name), now),
    ]),
  );
}

function boundValue(
  report: Pick<Report, 'name'>,
  { name, type, default: defaultText, meaning }: ReportParameter,
  given: string | undefined,
  now: number,
): Value | null {
  const text = given ?? defaultText;
  if (text === undefined) {
    throw new UsageError(`report ${report.name} needs the parameter "${name}": ${meaning}`, {
      advice: `Give it with --param ${name}=…, ${forms[type]}.`,
    });
  }
  if (text === null) return null;
  const value = valueOf(type, text, now);
  if (value !== undefined) return value;
  throw new UsageError(`the parameter ${name} of report ${report.name} is "${text}"`, {
    advice: `It must be ${forms[type]}.`,
  });
}

/** Returns the report with its values. With `asOf`, "today" and "30d ago" are counted from that time. Throws a UsageError. */
export function requestFor(
  report: Report,
  given: ReadonlyMap<string, string>,
  part: StatementPart,
  now: number,
): ReportRequest {
  return { report, values: boundValues(report, given, part.asOf === undefined ? now : Date.parse(part.asOf)), part };
}

/** Whether the report reads only tables with a history, so that it can be run as of an earlier time. */
export function hasHistory({ needs }: Pick<Report, 'needs'>): boolean {
  return needs.every(({ table }) => isResourceName(table));
}

/** Returns the assumptions of the report, with these values filled in. */
export function assumptionsWith(report: Pick<Report, 'assumptions'>, values: BoundValues): string[] {
  return report.assumptions.map((words) => words.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(values[name])));
}

function missingNeeds(report: Pick<Report, 'needs'>, snapshot: Pick<Snapshot, 'relations'>): ReportNeed[] {
  const names = new Set(snapshot.relations().map(({ name }) => name));
  return report.needs.filter(({ table }) => !names.has(table));
}

/** Throws a UsageError if the mirror lacks a table that the report needs, and names the setting that would add it. */
function refuseMissing(report: Pick<Report, 'name' | 'needs'>, snapshot: Pick<Snapshot, 'relations'>): void {
  const missing = missingNeeds(report, snapshot);
  const unknown = missing.find(({ relation }) => relation === null);
  if (unknown !== undefined) {
    const names = snapshot.relations().map(({ name }) => name);
    throw new UsageError(`report ${report.name} reads ${unknown.table}, which the mirror does not have`, {
      advice: suggestion(unknown.table, names),
    });
  }
  const relations = missing.flatMap(({ relation }) => relation ?? []);
  if (relations.length === 0) return;
  const names = relations.map(({ resource, relation }) => `${relation} of ${resource}`);
  throw new UsageError(`report ${report.name} needs ${listed.format(names)}, which the mirror does not hold yet`, {
    advice: `${includeAdvice(relations)} Then run \`admin-mirror sync\`.`,
  });
}

const listed = new Intl.ListFormat('en', { style: 'long', type: 'conjunction' });

/** Advises which settings add these related records to the mirror, with one sentence for each resource. */
export function includeAdvice(relations: readonly RelationTable[]): string {
  return [...new Set(relations.map(({ resource }) => resource))]
    .map((resource) => {
      const names = relations
        .filter((each) => each.resource === resource)
        .map(({ relation }) => relation)
        .toSorted();
      return `Add ${listed.format(names)} to the setting resources.${resource}.include.`;
    })
    .join(' ');
}

/** Warns of related records that are no longer read, that are empty, or that lack a key which the report reads. */
function needWarnings(report: Pick<Report, 'needs'>, snapshot: Snapshot): string[] {
  const warnings: string[] = [];
  for (const { table, relation, keys } of report.needs) {
    if (relation === null) continue;
    // A blank mirror has the tables, but nothing is recorded about them.
    const { included, keys: seen } = snapshot.relationRead(table) ?? { included: true, keys: [] };
    if (!included) {
      warnings.push(`${table} is no longer updated: resources.${relation.resource}.include does not name it`);
    }
    if (seen.length === 0) {
      warnings.push(`${table} holds no record: the server has sent none so far`);
      continue;
    }
    const unseen = keys.filter((key) => !isSeen(snapshot, table, key, seen));
    if (unseen.length === 0) continue;
    const names = unseen.map((key) => `"${key}"`).join(', ');
    warnings.push(`no record in ${table} has ${names}: what the report computes from it is empty or 0`);
  }
  return warnings;
}

/** Only outer keys are on record. An inner one is searched for, up to its first occurrence. */
function isSeen(snapshot: Snapshot, table: string, key: string, seen: readonly string[]): boolean {
  const [outer = '', inner] = key.split('.');
  if (!seen.includes(outer)) return false;
  if (inner === undefined) return true;
  const sql = `SELECT 1 FROM "${table}" WHERE json_type(record, :path) <> 'null' LIMIT 1`;
  const path = `$."${key.replaceAll('.', '"."')}"`;
  // Read to the end (one row at most), because an open statement would hold the snapshot.
  return [...snapshot.query(sql, { path }).batches(() => 2)].length > 0;
}

export interface ReportRequest {
  readonly report: Report;
  readonly values: BoundValues;
  readonly part: StatementPart;
}

/** Throws a UsageError if the mirror lacks a table, or does not know the requested time. */
export function reportRows(
  snapshot: Snapshot,
  { report, values, part }: ReportRequest,
  onWarning: (warning: string) => void,
): Rows {
  refuseMissing(report, snapshot);
  checkPart(snapshot, report, part, onWarning);
  for (const warning of needWarnings(report, snapshot)) onWarning(warning);
  return snapshot.query(report.sql, values, part);
}

function checkPart(
  snapshot: Snapshot,
  report: Report,
  { columns, asOf }: StatementPart,
  onWarning: (warning: string) => void,
): void {
  const known = report.columns.map(({ name }) => name);
  const unknown = columns?.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`report ${report.name} has no column "${unknown}"`, { advice: suggestion(unknown, known) });
  }
  if (asOf === undefined) return;
  if (!hasHistory(report)) {
    const timeless = report.needs.find(({ table }) => !isResourceName(table));
    throw new UsageError(`report ${report.name} reads ${timeless?.table}, which has no history`, {
      advice: 'Leave --as-of out to run it on what is there now.',
    });
  }
  for (const { table } of report.needs) {
    const warning = checkAsOf(snapshot, table, asOf);
    if (warning !== undefined) onWarning(warning);
  }
}

/** Opens an empty mirror to check SQL against, if there is none with the tables for it. The caller releases it. */
export function blankSnapshot(): Snapshot {
  const database = new SqliteDatabase(':memory:');
  for (const statement of mirrorTables) database.exec(statement);
  for (const relation of relationTables) {
    makeRelationTable(database, relation);
    database.exec(flatViewSql(relation, []));
  }
  return snapshotOf(database, 'a blank mirror');
}

/** Checks the report without running it. @param blank an empty mirror with every table, for a report that `mirror` lacks tables for */
export function checkReport(report: Report, mirror: Snapshot | undefined, blank: Snapshot) {
  const missing = mirror === undefined ? [] : missingNeeds(report, mirror);
  const off = missing.flatMap(({ relation }) => relation ?? []);
  const unknown = (mirror === undefined ? missingNeeds(report, blank) : missing)
    .filter(({ relation }) => relation === null)
    .map(
      ({ table }) => `it needs ${table}, which ${mirror === undefined ? 'no mirror has' : 'the mirror does not have'}`,
    );
  if (unknown.length > 0) return { problems: unknown, off };
  try {
    const facts = (mirror === undefined || off.length > 0 ? blank : mirror).describe(report.sql);
    const declared = report.parameters.map(({ name }) => name);
    return {
      problems: [
        ...without(facts.parameters, declared).map((name) => `the SQL has :${name}, which the header does not declare`),
        ...without(declared, facts.parameters).map((name) => `the parameter ${name} is declared but never used`),
        ...columnProblems(
          report.columns.map(({ name }) => name),
          facts.columns,
        ),
      ],
      off,
    };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { problems: [error.message], off };
  }
}

function without(names: readonly string[], known: readonly string[]): string[] {
  return names.filter((name) => !known.includes(name));
}

function columnProblems(declared: readonly string[], present: readonly string[]): string[] {
  const lacking = without(declared, present).map(
    (name) => `the column ${name} is declared, but the SQL does not return it`,
  );
  const more = without(present, declared).map(
    (name) => `the SQL returns the column ${name}, which the header does not declare`,
  );
  if (lacking.length > 0 || more.length > 0) return [...lacking, ...more];
  return declared.join() === present.join()
    ? []
    : [`the SQL returns the columns in the order ${present.join(', ')}, but the header declares another order`];
}
