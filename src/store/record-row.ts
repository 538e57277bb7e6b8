/** One record of a page as the cells of its row, with what was unexpected in its shape. */
import { otherResourceOf } from '../model/foreign-records.ts';
import type { Surprise } from '../model/page-rows.ts';
import type { Field, Resource } from '../model/resources.ts';
import { recordKey, type RecordKey, type ServedRecord } from '../model/records.ts';
import { cellOf, jsonText, type Cell, type Converted } from './cell.ts';

interface RecordRow {
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
    const strays = new Set<string>();
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
      if (converted.stray === true) strays.add(field.name);
      cells.push(converted.cell);
    }
    cells.push(extrasOf(record, known, strays, present, report));
    const id = recordKey(record);
    if (id === undefined) {
      report({ kind: 'unusable_id', subject: jsonText(record['id'] ?? null), detail: jsonText(record) });
      return undefined;
    }
    return { id, cells };
  };
}

function changedType(field: Field, { odd, stray, cell }: Converted): Surprise {
  const kept = stray === true ? '; null in its column, whole in _extra' : '; kept as text';
  return {
    kind: 'changed_type',
    subject: field.name,
    detail: `${odd ?? 'a value'} served for ${field.type}${cell === null && stray !== true ? '' : kept}`,
  };
}

/** What no column holds: fields that the reference does not know, and values that their columns cannot hold. */
function extrasOf(
  record: ServedRecord,
  known: ReadonlySet<string>,
  strays: ReadonlySet<string>,
  present: number,
  report: Report,
): string | null {
  const names = Object.keys(record);
  if (names.length === present && strays.size === 0) return null;
  const unknown = names.filter((name) => !known.has(name));
  for (const name of unknown) {
    report({ kind: 'unknown_field', subject: name, detail: 'not in the reference; kept in _extra' });
  }
  // Not by assignment, to which `__proto__` means something else.
  const held = names.filter((name) => strays.has(name) || !known.has(name));
  return jsonText(Object.fromEntries(held.map((name) => [name, record[name]])));
}
