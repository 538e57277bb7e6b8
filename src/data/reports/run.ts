/** Running a saved report: its rows, from one state of the mirror. */
import { UsageError } from '../../model/errors.ts';
import { suggestion } from '../../model/nearest.ts';
import { isResourceName } from '../../model/resources.ts';
import type { BoundValues, Rows, Snapshot, StatementPart } from '../../store/reading-types.ts';
import { checkAsOf } from '../as-of.ts';
import { needWarnings, refuseMissing } from './needs.ts';
import type { Report } from './report.ts';

export interface ReportRequest {
  readonly report: Report;
  readonly values: BoundValues;
  readonly part: StatementPart;
}

/**
 * The rows of the report. Throws a UsageError where the mirror lacks a table that it needs, or cannot tell what was
 * there at the time that was asked for.
 */
export function reportRows(
  snapshot: Snapshot,
  { report, values, part }: ReportRequest,
  onWarning: (warning: string) => void = () => {},
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
  const stranger = columns?.find((name) => !known.includes(name));
  if (stranger !== undefined) {
    throw new UsageError(`report ${report.name} has no column "${stranger}"`, { advice: suggestion(stranger, known) });
  }
  if (asOf === undefined) return;
  const timeless = report.needs.find(({ table }) => !isResourceName(table));
  if (timeless !== undefined) {
    throw new UsageError(`report ${report.name} reads ${timeless.table}, which has no history`, {
      advice: 'Leave --as-of out to run it on what is there now.',
    });
  }
  for (const { table } of report.needs) {
    const warning = checkAsOf(snapshot, table, asOf);
    if (warning !== undefined) onWarning(warning);
  }
}
