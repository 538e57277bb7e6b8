/** What a response holds under the name of a relation, as rows: a list, one record or none, in whatever shape. */
import { firstFree } from '../model/files.ts';
import type { RelatedRow } from '../model/page-rows.ts';
import { cellOf, jsonText } from './cell.ts';

type Json = Readonly<Record<string, unknown>>;

const idCell = cellOf({ name: 'id', type: 'any', nullable: true, note: '' });

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const place = /^(?:0|[1-9]\d*)$/;

/** The related records, whether they come as a list, as one record, or as none. */
export function relatedList(value: unknown): readonly unknown[] {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.filter((each) => each !== null);
  if (!isObject(value)) return [value];
  const keys = Object.keys(value);
  // PHP writes a list that elements were taken out of as an object of places; an empty one is no record either.
  if (keys.every((key) => place.test(key) && isObject(value[key]))) return Object.values(value);
  return [value];
}

/** A row for each of a parent's related records. */
export function relatedRows(list: readonly unknown[]): RelatedRow[] {
  const taken = new Set<string>();
  // A record can come twice under one parent, by way of two others.
  const freeKey = (id: string): string => {
    const key = firstFree(
      (tried) => taken.has(tried),
      (number) => (number === null ? id : `${id}#${number}`),
    );
    taken.add(key);
    return key;
  };
  return list.map((each, index) => {
    const { cell: id } = idCell(isObject(each) ? (each['id'] ?? null) : null);
    return {
      key: freeKey(id === null ? `#${index + 1}` : String(id)),
      id,
      record: jsonText(each),
      keys: isObject(each) ? Object.keys(each) : [null],
    };
  });
}
