/**
 * What becomes of every value of a mirror in a copy for others: kept where the field is known to tell of nobody, replaced
 * by a pseudonym everywhere else, in JSON of whatever shape as well. Section "Copies" of docs/architecture.md.
 */
import type { Place, Pseudonyms } from './copy-types.ts';
import type { Cell } from '../store/reading-types.ts';
import { placeOf, treatmentOf, type Treatment } from './known-fields.ts';
import { pseudonymMaker, type PseudonymMaker } from './pseudonym.ts';

export interface Anonymiser extends Pseudonyms {
  /** A cell of a column that shall show nothing, whatever is known of it: only null and blank text stay. */
  readonly mask: (column: string, cell: Cell) => Cell;
}

/**
 * @param secret what the pseudonyms follow from: at least 16 bytes that nobody can guess
 * @param kept names of fields that the operator knows to tell of nobody; what stands in them stays as it is
 */
export function anonymiser(secret: Uint8Array, kept: readonly string[] = []): Anonymiser {
  const make = pseudonymMaker(secret);
  const stays = new Set(kept);

  function name(field: string): string {
    const known = stays.has(field) || treatmentOf(field) !== undefined || placeInList.test(field);
    return known ? field : `field_${make.text(field).slice(0, shortName)}`;
  }

  function text(field: string, value: string, place: Place): string {
    if (stays.has(field)) return value;
    const nested = parsed(value);
    if (nested !== undefined) return JSON.stringify(inside(field, nested, place));
    const treatment = treatmentOf(field);
    if (treatment !== undefined && isKept(treatment, value, place)) return value;
    return replacedText(make, treatment, value);
  }

  /** What stands in the place of a number; undefined where it is kept. */
  function number(field: string, digits: string): number | undefined {
    const treatment = treatmentOf(field);
    const keeps = stays.has(field) || (treatment === undefined ? !longNumber.test(digits) : numeric.has(treatment));
    return keeps ? undefined : make.number(digits);
  }

  function inside(field: string, value: unknown, place: Place): unknown {
    if (typeof value === 'string') return text(field, value, place);
    if (value instanceof Digits) return JSON.rawJSON(String(number(field, value.digits) ?? value.digits));
    if (Array.isArray(value)) return value.map((each) => inside(field, each, place));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [name(key), inside(key, each as unknown, place)]),
    );
  }

  function cell(field: string, value: Cell, place: Place): Cell {
    if (typeof value === 'string') return text(field, value, place);
    if (typeof value === 'bigint') return BigInt(number(field, String(value)) ?? value);
    if (typeof value === 'number') return number(field, String(value)) ?? value;
    // Bytes come from no answer of the API.
    return null;
  }

  return {
    place: placeOf,
    cell,
    name,
    json: (value, place) => JSON.stringify(inside('', parsed(value) ?? value, place)),
    keepsNumbers: (field) => stays.has(field) || numeric.has(treatmentOf(field) ?? 'text'),
    mask: (column, value) => {
      if (typeof value === 'string') {
        const nested = parsed(value);
        if (nested !== undefined) return JSON.stringify(inside(column, nested, 'people'));
        return replacedText(make, treatmentOf(column), value);
      }
      if (typeof value === 'bigint') return BigInt(make.number(String(value)));
      return typeof value === 'number' ? make.number(String(value)) : null;
    },
  };
}

/** The names of fields are made up of so many letters: there are few of them. */
const shortName = 10;

/** PHP writes some lists as objects of places. */
const placeInList = /^\d{1,4}$/;

/** From seven digits on a number may be somebody's: a telephone, a customer, a passport. */
const longNumber = /\d{7}/;

const numeric: ReadonlySet<Treatment> = new Set<Treatment>(['id', 'number', 'time', 'word']);

const uuid = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/i;
const decimal = /^[+-]?\d{1,18}(?:\.\d+)?$/;
const instant = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?$/;
const word = /^[\w+=.:/-]{1,40}$/;

/** Whether a text in a field of that kind is what the kind says, and so stays. */
function isKept(treatment: Treatment, value: string, place: Place): boolean {
  switch (treatment) {
    case 'id':
      return /^\d{1,18}$/.test(value) || uuid.test(value);
    case 'number':
      return decimal.test(value);
    case 'time':
      return instant.test(value);
    case 'word':
      return word.test(value);
    case 'label':
      return place === 'catalogue';
    case 'name':
    case 'text':
      return false;
  }
}

function replacedText(make: PseudonymMaker, treatment: Treatment | undefined, value: string): string {
  return treatment === 'name' || treatment === 'label' ? make.name(value) : make.text(value);
}

/** A number of JSON as it was written: a double has not room for all its digits. */
class Digits {
  readonly digits: string;

  constructor(digits: string) {
    this.digits = digits;
  }
}

const withDigits = (_key: string, value: unknown, context?: { readonly source?: string }): unknown =>
  typeof value === 'number' ? new Digits(context?.source ?? String(value)) : value;

/** The object or list that the text is; undefined where it is none. */
function parsed(value: string): unknown {
  if (!/^\s*[[{]/.test(value)) return undefined;
  try {
    return JSON.parse(value, withDigits) as unknown;
  } catch {
    return undefined;
  }
}
