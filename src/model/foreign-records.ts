/**
 * Records that are none of the list that shows them, by the fields that they have. A record that came to lack some fields,
 * or to have new ones, is still what it was: only what looks like something else is judged to be that.
 */
import { resourceNames, resourceOf, type ResourceName } from './resources.ts';
import type { ServedRecord } from './records.ts';

const common: ReadonlySet<string> = new Set(['id', 'created_at', 'updated_at']);

const documented = new Map(
  resourceNames.map((name) => {
    const { fields, includes } = resourceOf(name);
    const own = fields.map((field) => field.name).filter((field) => !common.has(field));
    return [name, { own, known: new Set([...common, ...own, ...(includes ?? [])]) }] as const;
  }),
);

function fieldsOf(resource: ResourceName) {
  const fields = documented.get(resource);
  if (fields === undefined) throw new Error(`no fields of ${resource}`);
  return fields;
}

/** Whether the record has half of the fields that only the resource is documented with. */
function fits(record: ServedRecord, resource: ResourceName): boolean {
  const { own } = fieldsOf(resource);
  let missing = 0;
  for (const name of own) if (record[name] === undefined && (missing += 1) * 2 > own.length) return false;
  return true;
}

/** The other resource whose record this looks like; undefined where it may be one of the resource's own. */
export function otherResourceOf(record: ServedRecord, resource: ResourceName): ResourceName | undefined {
  if (fits(record, resource)) return undefined;
  return resourceNames.find((name) => name !== resource && fits(record, name));
}

function isStrange(record: ServedRecord, resource: ResourceName): boolean {
  const { known } = fieldsOf(resource);
  const names = Object.keys(record);
  return !fits(record, resource) && names.filter((name) => !known.has(name)).length * 2 > names.length;
}

/**
 * Why these records of one page are no list of the resource, in words: most look like records of another one, or none of
 * them has half of the fields and most of what they have is unknown. Undefined where they may be one; a lone record of
 * unknown fields may always be.
 */
export function foreignList(records: readonly ServedRecord[], resource: ResourceName): string | undefined {
  const [first] = records;
  const others = records.flatMap((record) => otherResourceOf(record, resource) ?? []);
  if (others.length * 2 > records.length) {
    return `it is no list of ${resource}: ${others.length} of ${records.length} records look like ${others[0] ?? ''}`;
  }
  if (first === undefined || records.length < 2 || !records.every((record) => isStrange(record, resource))) return;
  const names = Object.keys(first).slice(0, 5).join(', ');
  return `it is no list of ${resource}: its records lack most of the fields of one and have others (${names}, …)`;
}
