/** What a saved report is: the header of its file, read, and the statement below it. */
import type { RelationTable } from '../../model/relations.ts';

export const parameterTypes = ['date', 'time', 'integer', 'number', 'text', 'flag'] as const;
export type ParameterType = (typeof parameterTypes)[number];

export interface ReportParameter {
  readonly name: string;
  readonly type: ParameterType;
  /** As it would be given; null stands for no value, undefined for one that must be given. */
  readonly default: string | null | undefined;
  readonly meaning: string;
}

export const columnTypes = ['text', 'integer', 'number', 'money', 'date', 'time', 'flag', 'json'] as const;
export type ColumnType = (typeof columnTypes)[number];

export interface ReportColumn {
  readonly name: string;
  readonly type: ColumnType;
  readonly meaning: string;
}

/** A table that the report reads. */
export interface ReportNeed {
  /** As it is called in the mirror. */
  readonly table: string;
  /** Where its records are read with another resource; null of every other table. */
  readonly relation: RelationTable | null;
  /** Keys of the related records that the report reads, `options.coupon` one inside another. */
  readonly keys: readonly string[];
}

export const chartKinds = ['line', 'bar'] as const;
export type ChartKind = (typeof chartKinds)[number];

/** The picture that comes naturally to the report; its columns are the report's own. */
export interface ReportChart {
  readonly kind: ChartKind;
  readonly x: string;
  readonly y: readonly string[];
}

export interface ReportHeader {
  readonly title: string;
  readonly description: string;
  readonly parameters: readonly ReportParameter[];
  readonly columns: readonly ReportColumn[];
  readonly needs: readonly ReportNeed[];
  /** What the numbers rest on, told at each run; `{name}` stands for the value of a parameter. */
  readonly assumptions: readonly string[];
  readonly chart: ReportChart | null;
}

/** Comes with the program, or is the operator's own. */
export type ReportOrigin = 'shipped' | 'own';

export interface Report extends ReportHeader {
  readonly name: string;
  readonly file: string;
  readonly origin: ReportOrigin;
  readonly sql: string;
}
