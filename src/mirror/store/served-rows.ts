/**
 * Pages whose records are just as documented: one expression looks at the text, and SQLite reads the records out of the
 * response itself. Parsing it, making rows and writing them takes five times as long. What the expression does not know is no
 * error: such a page is parsed, and becomes rows record by record.
 */
import type { SchemaDrift } from '../../model/page-rows.ts';
import { type Field, type FieldType, type ResourceName, resourceNames, resourceOf } from '../../model/resources.ts';
import { nullDrift, replaced } from './page-rows.ts';

export interface ServedPage {
  /** The body with an empty list in the place of its records. */
  readonly envelope: string;
  readonly ids: readonly number[];
  readonly createdAt: readonly string[];
  readonly drifts: readonly SchemaDrift[];
}

const hex = String.raw`[\da-fA-F]`;
const surrogate = (second: string): string => String.raw`\\u[dD][${second}]${hex}{2}`;
const escape = String.raw`\\["\\/bfnrt]|\\u(?!0000|[dD][89a-fA-F])${hex}{4}|${surrogate('89abAB')}${surrogate('c-fC-F')}`;
const text = String.raw`"[^"\\\0-\x1f]*(?:(?:${escape})[^"\\\0-\x1f]*){0,9999}"`;
// Of so few digits that it is one number to whoever reads it.
const integer = String.raw`0|-?[1-9]\d{0,14}`;
const decimal = String.raw`(?:0|-?[1-9]\d{0,11})(?:\.\d{1,3})?`;
const object = String.raw`\{[^{}[\]\\]*\}`;
const list = String.raw`\[[^{}[\]\\]*\]`;

const nothing = '(?!)';

/** Of what SQLite makes the same cell as `cellOf` does, whatever stands there; and what is captured for a closer look. */
const valuesOf: Readonly<Record<FieldType, readonly [sure: string, unsure: string]>> = {
  integer: [integer, nothing],
  flag: [integer, nothing],
  number: [decimal, nothing],
  string: [text, nothing],
  timestamp: [text, nothing],
  any: [text, object],
  object: [nothing, object],
  strings: [nothing, list],
};

/** The field with its value, in one group what is to be looked at. */
function memberOf({ name, type, nullable }: Field): string {
  if (name === 'id') return `"id":(${integer})`;
  if (name === 'created_at') return `"created_at":(${text})`;
  const [sure, unsure] = valuesOf[type];
  return `"${name}":(?:${nullable ? `${sure}|null|(${unsure})` : `${sure}|(${unsure}|null)`})`;
}

const expressions = new Map(
  resourceNames.map((name) => {
    const members = resourceOf(name).fields.map(memberOf);
    return [name, new RegExp(String.raw`\{${members.join(',')}\}([,\]])`, 'y')] as const;
  }),
);

/** Whether it is the text that would be written for the document that it holds. */
function isCanonical(document: string): boolean {
  try {
    return JSON.stringify(JSON.parse(document)) === document;
  } catch {
    return false;
  }
}

/** Only what is short and plain stands before the records, so that no other list is taken for theirs. */
const beforeRecords = /^\{(?:"(?!data")[a-z_]+":(?:[\w.-]+|"[^"\\]*"),)*"data":\[/;

/** The page that the body holds; undefined where anything about its records is not as documented, null where a field may be none but is. */
export function servedPage(resource: ResourceName, body: string): ServedPage | undefined {
  const expression = expressions.get(resource);
  const start = beforeRecords.exec(body)?.[0].length;
  if (expression === undefined || start === undefined || body.includes(replaced)) return undefined;
  const { fields } = resourceOf(resource);
  const ids: number[] = [];
  const createdAt: string[] = [];
  const drifts = new Map<string, SchemaDrift>();
  let next = ',';
  for (expression.lastIndex = start; next === ',';) {
    const found = expression.exec(body);
    if (found === null) return undefined;
    for (const [at, field] of fields.entries()) {
      const value = found[at + 1];
      if (value === undefined) continue;
      if (field.name === 'id') ids.push(Number(value));
      else if (field.name === 'created_at') createdAt.push(value);
      else if (value === 'null') drifts.set(field.name, nullDrift(field));
      else if (!isCanonical(value)) return undefined;
    }
    next = found[fields.length + 1] ?? '';
  }
  const after = body.slice(expression.lastIndex - 1);
  if (after.includes('"data"')) return undefined;
  return {
    envelope: body.slice(0, start) + after,
    ids,
    // Texts of their own: a piece of the body would keep all of it in memory.
    createdAt: JSON.parse(`[${createdAt.join(',')}]`) as string[],
    drifts: [...drifts.values()],
  };
}
