/** The related records of a mirror, and a comparison with those of the sandbox. */
import { expect } from 'vitest';
import { relationTable } from '../../src/model/resources.ts';
import type { JsonRecord } from '../../src/sandbox/envelope.ts';
import type { Sandbox } from './bent/sandbox.ts';
import type { Parent } from '../../src/sandbox/records.ts';
import { rowsOf } from './rows.ts';

const single = new Set(['affiliate', 'address', 'category']);

/** The id as the mirror stores it: always as text. */
function idOf({ id }: JsonRecord): string | null {
  return typeof id === 'number' || typeof id === 'string' ? String(id) : null;
}

/** Fails unless the table has exactly the sandbox's related records of that name, each under its parent. */
export function expectRelated(sandbox: Sandbox, file: string, parent: Parent, relation: string): number {
  const { table, parentColumn } = relationTable(parent, relation);
  const kind = relation === 'suborder' ? 'suborders' : relation;
  const onServer = sandbox.control.dump(parent).flatMap((record) => {
    const list = sandbox.control.related(parent, record['id'] as number, kind);
    const served = single.has(relation) ? list.slice(-1) : list;
    return served.map((each) => [record['id'], idOf(each), each] as const);
  });
  const inMirror = rowsOf(file, `SELECT * FROM ${table}`).map(
    (row) => [row[parentColumn], row['id'], JSON.parse(String(row['record'])) as JsonRecord] as const,
  );
  const sorted = <T extends readonly unknown[]>(rows: readonly T[]) =>
    rows.toSorted((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
  expect(sorted(inMirror)).toEqual(sorted(onServer));
  return inMirror.length;
}
