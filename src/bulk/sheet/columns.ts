/** Sheets whose columns have names of their own: which column of theirs could be which of an action, and reading them so. */
import { UsageError } from '../../model/errors.ts';
import type { ColumnRule } from '../row-reader.ts';
import { shown, textCell } from './rows.ts';
import type { Sheet } from './sheet.ts';

/** What a person must decide before the sheet can be read. */
export interface ColumnsQuestion {
  /** The columns of the sheet, each with its first values. */
  readonly theirs: readonly { readonly name: string; readonly values: readonly string[] }[];
  readonly ours: readonly {
    readonly name: string;
    readonly required: boolean;
    /** One of a group is needed, such as one key of the user. */
    readonly oneOf: string | null;
    /** The column of theirs that it is most likely; null if none is. */
    readonly guess: string | null;
  }[];
}

const hints: Readonly<Record<string, RegExp>> = {
  user_id: /^(?:(?:user|customer|client|kunden?|account|member)[ _-]*)?(?:id|no|nr|nummer|number)\.?$/i,
  email: /mail/i,
  username: /^(?:user[ _-]?name|login|benutzer|nick)/i,
  type: /^(?:type|kind|art|typ|action|aktion)$/i,
  amount: /amount|betrag|summe?|value|wert|credit|guthaben|montant|importe/i,
  description: /description|reason|grund|text|note|notiz|comment|kommentar|zweck|memo|beschreibung/i,
};

const looks: Readonly<Record<string, RegExp>> = {
  user_id: /^[1-9]\d{0,14}$/,
  email: /^[^\s@]+@[^\s@]+$/,
  type: /^(?:add|remove|set)$/i,
  amount: /^[-+]?\d[\d.,' ]*$/,
};

const valuesShown = 3;
const valuesLookedAt = 20;

/** Returns the question if needed columns are missing and the sheet has others in their place; null otherwise. */
export function columnsQuestion(sheet: Sheet, rules: readonly ColumnRule[]): ColumnsQuestion | null {
  const there = new Set(sheet.columns.map((name) => name.toLowerCase()));
  const groups = new Set(rules.flatMap(({ name, oneOf }) => (oneOf !== undefined && there.has(name) ? [oneOf] : [])));
  const lacks = ({ name, required, oneOf }: ColumnRule): boolean =>
    required && !there.has(name) && (oneOf === undefined || !groups.has(oneOf));
  const names = new Set(rules.map(({ name }) => name));
  const others = sheet.columns.filter((name) => name !== '' && !names.has(name.toLowerCase()));
  if (others.length === 0 || !rules.some(lacks)) return null;
  const theirs = [...new Set(sheet.columns.filter((name) => name !== ''))].map((name) => {
    const at = sheet.columns.indexOf(name);
    const cells = sheet.rows.slice(0, valuesLookedAt).flatMap(({ cells: all }) => all[at]?.text || []);
    return { name, cells };
  });
  const taken = new Set<string>();
  const guessed = new Map<string, string>();
  const guess = (fits: (name: string, column: (typeof theirs)[number]) => boolean): void => {
    for (const { name, oneOf } of rules) {
      const isMet = oneOf !== undefined && rules.some((each) => each.oneOf === oneOf && guessed.has(each.name));
      if (isMet || guessed.has(name)) continue;
      const found = theirs.find((column) => !taken.has(column.name) && fits(name, column));
      if (found === undefined) continue;
      guessed.set(name, found.name);
      taken.add(found.name);
    }
  };
  const look = (name: string, cells: readonly string[]): boolean =>
    cells.length > 0 && cells.every((each) => looks[name]?.test(each) === true);
  guess((name, column) => column.name.toLowerCase() === name);
  // A name alone may mislead, so what it names must look like it.
  guess(
    (name, { name: own, cells }) => hints[name]?.test(own) === true && (looks[name] === undefined || look(name, cells)),
  );
  guess((name, { cells }) => look(name, cells));
  return {
    theirs: theirs.map(({ name, cells }) => ({ name, values: cells.slice(0, valuesShown) })),
    ours: rules.map(({ name, required, oneOf = null }) => ({
      name,
      required,
      oneOf,
      guess: guessed.get(name) ?? null,
    })),
  };
}

/** Reads `Betrag=amount`: their column, ours; `=add=type`: the same value in every row. */
export function renamed(sheet: Sheet, given: readonly string[]): Sheet {
  const names = new Map<string, string>();
  const fixed: { readonly name: string; readonly value: string }[] = [];
  for (const each of given) {
    const end = each.lastIndexOf('=');
    const [theirs, ours] = [each.slice(0, Math.max(0, end)), each.slice(end + 1)];
    if (theirs.startsWith('=')) fixed.push({ name: ours, value: theirs.slice(1) });
    else if (end > 0 && ours !== '' && sheet.columns.includes(theirs)) names.set(theirs, ours);
    else {
      throw new UsageError(`--column ${shown(each)} does not name a column of ${sheet.file}`, {
        advice: `Write it as "Betrag=amount". The columns are ${sheet.columns.map(shown).join(', ')}.`,
      });
    }
  }
  if (given.length === 0) return sheet;
  const nameOf = (name: string): string => names.get(name) ?? name;
  const said = [...names].map(([theirs, ours]) => `${shown(theirs)} as ${ours}`);
  const every = fixed.map(({ name, value }) => `${name} is ${value} in every row`);
  return {
    ...sheet,
    columns: [...sheet.columns.map(nameOf), ...fixed.map(({ name }) => name)],
    rows: sheet.rows.map(({ row, cells }) => ({
      row,
      cells: [...cells, ...fixed.map(({ value }) => textCell(value))],
    })),
    problems: sheet.problems.map((each) => ({ ...each, column: each.column === null ? null : nameOf(each.column) })),
    notes: [...sheet.notes, `columns are read as you said: ${[...said, ...every].join(', ')}`],
  };
}
