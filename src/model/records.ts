/** Reading a served record where its shape may not be relied on. */

/** A record as parsed from JSON, whatever its shape. */
export type ServedRecord = Readonly<Record<string, unknown>>;

const canonicalInteger = /^-?(?:0|[1-9]\d{0,15})$/;

/** The record's id; undefined where it has none that could be a key. Some servers send numbers as text. */
export function recordId(record: ServedRecord): number | undefined {
  const id = record['id'];
  if (typeof id === 'number') return Number.isSafeInteger(id) ? id : undefined;
  if (typeof id !== 'string' || !canonicalInteger.test(id)) return undefined;
  const parsed = Number(id);
  return Number.isSafeInteger(parsed) ? parsed : undefined;
}
