/** One record of a page as the cells of its row, with what was unexpected in its shape. */
import { otherResourceOf } from '../model/foreign-records.ts';
import type { Surprise } from '../model/page-rows.ts';
import type { Field, Resource } from '../model/resources.ts';
import { recordKey, type RecordKey, type ServedRecord } from '../model/records.ts';
import { cellOf, jsonText, type Cell, type Converted } from './cell.ts';

export interface RecordRow {
  readonly id: RecordKey;
  /** The document's fields in order, then `_extra`. */
  readonly cells: Cell[];
}

export type Report = (surprise: Surprise) => void;

/** A function that turns records of the resource into rows; undefined where it can be none of them: of no integer id, or of another resource. */
export function rowReader(resource: Resource): (record: ServedRecord, report: Report) => RecordRow | undefined {
  const columns = resource.fields.map((field) => ({ field, convert: cellOf(field) }));
  const known = new Set(resource.fields.map(({ name }) => name));
  return (record, report) => {
    const other = otherResourceOf(record, resource.name);
    if (other !== undefined) {
      report({ kind: 'foreign_record', subject: other, detail: jsonText(record) });
      return undefined;
    }
    const cells: Cell[] = [];
    let present = 0;
    for (const { field, convert } of columns) {
      const value = record[field.name];
      if (value === undefined) {
        cells.push(null);
        report({ kind: 'missing_field', subject: field.name, detail: 'the field is absent; stored as null' });
        continue;
      }
      present += 1;
      const converted = convert(value);
      if (converted.odd !== undefined) report(changedType(field, converted));
      cells.push(converted.cell);
    }
    cells.push(extrasOf(record, known, present, report));
    const id = recordKey(record);
    if (id === undefined) {
      report({ kind: 'unusable_id', subject: jsonText(record['id'] ?? null), detail: jsonText(record) });
      return undefined;
    }
    return { id, cells };
  };
}

function changedType(field: Field, { odd }: Converted): Surprise {
  return {
    kind: 'changed_type',
    subject: field.name,
    detail: `${odd ?? 'a value'} served for ${field.type}; kept as it came`,
  };
}

function extrasOf(record: ServedRecord, known: ReadonlySet<string>, present: number, report: Report): string | null {
  const names = Object.keys(record);
  if (names.length === present) return null;
  const unknown = names.filter((name) => !known.has(name));
  for (const name of unknown) {
    report({ kind: 'unknown_field', subject: name, detail: 'not in the reference; kept in _extra' });
  }
  // Not by assignment, to which `__proto__` means something else.
  return jsonText(Object.fromEntries(unknown.map((name) => [name, record[name]])));
}
