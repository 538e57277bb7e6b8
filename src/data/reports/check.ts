/** Whether a report is what its header says: for the doctor. */
import SqliteDatabase from 'better-sqlite3';
import type { Report } from './reports.ts';
import { missingNeeds } from './run.ts';
import { OperatorError } from '../../model/errors.ts';
import { relationTables } from '../../model/resources.ts';
import { type Snapshot, snapshotOf } from '../../store/reading.ts';
import { flatViewSql, makeRelationTable } from '../../store/relations.ts';
import { mirrorTables } from '../../store/schema.ts';

/** Something to look at SQL against where there is no mirror, or none with the tables for it. The caller releases it. */
export function blankSnapshot(): Snapshot {
  const database = new SqliteDatabase(':memory:');
  for (const statement of mirrorTables) database.exec(statement);
  for (const relation of relationTables) {
    makeRelationTable(database, relation);
    database.exec(flatViewSql(relation, []));
  }
  return snapshotOf(database, 'a blank mirror');
}

/** Looks at the report without running it. @param blank a mirror with every table, for what `mirror` does not have */
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
        ...without(declared, facts.parameters).map((name) => `the parameter ${name} is declared and nowhere used`),
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
    (name) => `the column ${name} is declared, and the SQL does not give it`,
  );
  const more = without(present, declared).map(
    (name) => `the SQL gives the column ${name}, which the header does not declare`,
  );
  if (lacking.length > 0 || more.length > 0) return [...lacking, ...more];
  return declared.join() === present.join()
    ? []
    : [`the columns come as ${present.join(', ')}, and are declared in another order`];
}
