/** Saved reports in a test: the shipped ones, and the rows of one on a mirror file. */
import { join } from 'node:path';
import { loadReports, reportNamed, type Reports } from '../../src/data/reports/reports.ts';
import { boundValues, reportRows } from '../../src/data/reports/run.ts';
import type { Row, StatementPart } from '../../src/data/reading-types.ts';
import { projectFolder } from './documents.ts';
import { withSnapshot } from './history.ts';

export const shippedFolder = join(projectFolder, 'reports');

/** The shipped reports, and those of a user's folder. */
export function reportsIn(own: string = shippedFolder): Reports {
  return loadReports({ shipped: shippedFolder, own });
}

export interface ReportRun {
  readonly name: string;
  readonly given: Readonly<Record<string, string>>;
  /** The current time in ms since 1970. */
  readonly now: number;
  readonly part?: StatementPart;
}

/** The report's rows as objects, whole numbers as numbers; the exact cells are in `cells`. */
export function runReport(file: string, reports: Reports, { name, given, now, part }: ReportRun) {
  const report = reportNamed(reports, name);
  const warnings: string[] = [];
  const values = boundValues(report, new Map(Object.entries(given)), now);
  return withSnapshot(file, (snapshot) => {
    const result = reportRows(snapshot, { report, values, part: part ?? {} }, (words) => warnings.push(words));
    const cells: Row[] = [...result.batches(() => 1_000)].flat();
    const names = result.columns.map((column) => column.name);
    const rows = cells.map((row) =>
      Object.fromEntries(
        row.map((cell, index) => [names[index] ?? '', typeof cell === 'bigint' ? Number(cell) : cell]),
      ),
    );
    return { names, rows, cells, warnings };
  });
}
