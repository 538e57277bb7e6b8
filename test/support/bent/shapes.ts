/** Serves records in other shapes than the API's reference gives, by the switches: types, missing and unknown fields, large ids. */
import { isRecord } from '../../../src/model/records.ts';
import type { Resource } from '../../../src/model/resources.ts';
import type { JsonRecord } from '../../../src/sandbox/envelope.ts';
import { mix, type Random, textHash } from '../../../src/sandbox/random.ts';
import type { Bends } from './bends.ts';

const shapeSwitches = [
  'numbers_as_strings',
  'flags_as_booleans',
  'empty_objects_as_arrays',
  'unknown_fields',
  'missing_fields',
] as const;

/** Whether the switches may change records; if not, the stored text is served as it is. */
export function changesFields(behaviour: Bends): boolean {
  return shapeSwitches.some((name) => behaviour[name] > 0);
}

/** A double cannot tell neighbouring ids of this size apart. */
const largeIds = 2n ** 53n;

export function withLargeId(text: string): string {
  return text.replace(/"id":(\d+)/, (_, id: string) => `"id":${BigInt(id) + largeIds}`);
}

/** Returns the stored id for a requested one. */
export function requestedId(id: string, behaviour: Bends): string {
  return behaviour.large_ids && /^\d{16,19}$/.test(id) ? String(BigInt(id) - largeIds) : id;
}

function isEmptyObject(value: unknown): boolean {
  return isRecord(value) && Object.keys(value).length === 0;
}

/** Draws a number that is the same on every request, so that the fields of a record do not come and go. */
function fixedDraw(resource: Resource, record: JsonRecord, purpose: string): number {
  return mix(textHash(`${resource.name} ${purpose}`), record['id'] as number) / 4_294_967_296;
}

function money(value: number): string {
  return Number.isInteger(value * 100) ? value.toFixed(2) : String(value);
}

/** Changes the types of the record's fields, adds and removes fields, as the switches say. */
export function withFieldFaults(resource: Resource, record: JsonRecord, behaviour: Bends, chance: Random): JsonRecord {
  const numbers = chance.chance(behaviour.numbers_as_strings);
  const booleans = chance.chance(behaviour.flags_as_booleans);
  const arrays = chance.chance(behaviour.empty_objects_as_arrays);
  const changed: JsonRecord = { ...record };
  for (const field of resource.fields) {
    const value = changed[field.name];
    if (field.type === 'flag' && typeof value === 'number') {
      if (booleans) changed[field.name] = value === 1;
    } else if (numbers && field.name !== 'id' && typeof value === 'number') {
      changed[field.name] = field.type === 'number' ? money(value) : String(value);
    } else if (arrays && isEmptyObject(value)) {
      changed[field.name] = [];
    }
  }
  if (fixedDraw(resource, record, 'unknown') < behaviour.unknown_fields) {
    changed['uuid'] = `${mix(record['id'] as number, 11).toString(16)}-${mix(record['id'] as number, 12).toString(16)}`;
    changed['meta'] = { tier: (record['id'] as number) % 3 };
  }
  if (fixedDraw(resource, record, 'missing') < behaviour.missing_fields) {
    const optional = resource.fields.filter((field) => field.name !== 'id' && field.name !== 'created_at');
    const field = optional[mix(record['id'] as number, 13) % optional.length];
    if (field !== undefined) delete changed[field.name];
  }
  return changed;
}
