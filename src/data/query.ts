/** Queries: one statement of the operator's that reads, its rows in every format; and how SQLite would run it. */
import { Buffer } from 'node:buffer';
import type { Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import type { QueryFormat } from './formats.ts';
import { sourceOf } from './source.ts';
import { textPieces } from './text-lines.ts';
import { tableText } from './text-table.ts';

export interface QueryRequest {
  readonly sql: string;
  readonly format: QueryFormat;
  /** Columns of the terminal that a table is to fit in; without it, every value is whole. */
  readonly room?: number | undefined;
}

/** What the query prints, in pieces. Throws a UsageError for SQL that fails or would do more than read. */
export async function* queryChunks(
  snapshot: Snapshot,
  { sql, format, room }: QueryRequest,
): AsyncGenerator<Uint8Array> {
  if (format === 'table') {
    const { columns, batches } = snapshot.query(sql);
    const rows = Iterator.from(batches(() => 200)).flatMap((batch) => batch);
    yield* textPieces(Iterator.from(tableText(columns, rows, room)).map((line) => `${line}\n`));
    return;
  }
  const { fileChunks } = await import('./export.ts');
  const form = { format, raw: false, compression: null, bom: false };
  // Nobody stops it from within: the process that reads is ended.
  const { signal } = new AbortController();
  yield* fileChunks(sourceOf(snapshot, { sql }), form, { signal, onRows: () => {} });
}

export type PlanFormat = 'text' | 'json';

/** A step with what belongs to it; the form of the output under `--json`. */
interface PlanStep {
  readonly detail: string;
  /** What the step costs; null where there is nothing to say of it. */
  readonly note: string | null;
  readonly steps: readonly PlanStep[];
}

export interface QueryPlan {
  readonly steps: readonly PlanStep[];
  /** Tables, by the names that the statement gives them, of which every row is read. */
  readonly read_whole: readonly string[];
}

/** The plan as it is printed. Throws a UsageError for SQL that SQLite refuses or that would do more than read. */
export function planText(snapshot: Snapshot, sql: string, format: PlanFormat): Uint8Array {
  // An EXPLAIN of the operator's own must not be explained once more.
  const statement = sql.replace(/^\s*EXPLAIN\s+(?:QUERY\s+PLAN\s+)?/i, '');
  const result = snapshot.query(`EXPLAIN QUERY PLAN ${statement}`);
  const plan = planOf([...result.batches(() => 1_000)].flat());
  return Buffer.from(format === 'json' ? `${JSON.stringify(plan, undefined, 2)}\n` : wordsOf(plan));
}

function planOf(rows: readonly Row[]): QueryPlan {
  // In the words of SQLite: https://sqlite.org/eqp.html
  const steps = rows.map(([id, parent, , detail]) => ({
    id: Number(id),
    parent: Number(parent),
    detail: String(detail),
  }));
  const under = (parent: number): PlanStep[] =>
    steps
      .filter((step) => step.parent === parent)
      .map(({ id, detail }) => ({ detail, note: noteOn(detail), steps: under(id) }));
  // What the statement itself has put together is no table, however much of it is read.
  const own = new Set(steps.map(({ detail }) => /^(?:MATERIALIZE|CO-ROUTINE) (\S+)$/.exec(detail)?.[1]));
  const whole = steps
    .filter(({ detail }) => noteOn(detail) === everyRow)
    .map(({ detail }) => detail.split(' ')[1] ?? '')
    .filter((name) => !own.has(name) && !name.startsWith('('));
  return { steps: under(0), read_whole: [...new Set(whole)] };
}

const everyRow = 'reads every row';

/** Patterns of SQLite's words, the first that fits. */
const notes: readonly (readonly [RegExp, string | null])[] = [
  [/^SCAN (?:\d+ )?CONSTANT ROWS?$|^SCAN \S+ VIRTUAL TABLE/, null],
  [/^SCAN \S+ USING COVERING INDEX/, 'reads the whole index, and not the table'],
  [/^SCAN /, everyRow],
  [/^SEARCH \S+ USING AUTOMATIC /, 'by an index that is made anew each time, from every row'],
  // The least or greatest value of a column; where an index has it, SQLite names the index.
  [/^SEARCH \S+$/, everyRow],
  [/^USE TEMP B-TREE FOR (?:LAST|RIGHT) /, 'sorts rows that come partly in order'],
  [/^USE TEMP B-TREE FOR ORDER BY/, 'sorts, and gives nothing before all is read'],
  [/^USE TEMP B-TREE FOR /, 'sorts'],
  [/^CORRELATED /, 'done anew for each row'],
];

function noteOn(detail: string): string | null {
  return notes.find(([pattern]) => pattern.test(detail))?.[1] ?? null;
}

function wordsOf({ steps, read_whole }: QueryPlan): string {
  const end = read_whole.length === 0 ? 'No table is read whole.' : `Every row is read of: ${read_whole.join(', ')}.`;
  return `${treeOf(steps, '')}\n${end}\n`;
}

function treeOf(steps: readonly PlanStep[], indent: string): string {
  return steps
    .map(({ detail, note, steps: below }, index) => {
      const isLast = index === steps.length - 1;
      const line = `${indent}${isLast ? '└─' : '├─'} ${detail}${note === null ? '' : ` (${note})`}\n`;
      return line + treeOf(below, `${indent}${isLast ? '   ' : '│  '}`);
    })
    .join('');
}
