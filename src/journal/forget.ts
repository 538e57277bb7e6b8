/**
 * Taking a person out of the journal: every text that tells who it is goes, amounts and outcomes stay. Section
 * "Forgetting a person" of docs/architecture.md.
 */
import type { Database } from 'better-sqlite3';
import type { Person, TableCounts } from '../store/forget-types.ts';
import { mentionsOf, takenOut } from '../store/mentions.ts';

/** Words of the API that tell nobody's name; numbers and tokens do not either. */
const plainValue = /^(?:-?\d+(?:\.\d+)?|true|false|add|remove|set|success|warning|danger|am:[a-z2-7]{12})$/;

/** The JSON with every text in it passed through; what is no JSON is one text. Keys stay. */
function rewritten(json: string, text: (value: string) => string): string {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return text(json);
  }
  // An amount is a text of its own: 12.50 must not become 12.5.
  if (typeof value !== 'object') return text(json);
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'string' ? text(each) : each));
}

/** The token at the end of a text is what a write is settled by. */
function withoutWords(value: string): string {
  if (plainValue.test(value)) return value;
  const token = / am:[a-z2-7]{12}$/.exec(value)?.[0] ?? '';
  return `${takenOut}${token}`;
}

const ownColumns = [
  'cells',
  'parameters',
  'body',
  'seen_before',
  'answer',
  'problem',
  'notes',
  'subject',
  'key',
  'planned_email',
  'planned_username',
  'planned_before',
  'planned_after',
  'before',
  'after',
] as const;
const texts = [
  ['journal_intents', ownColumns],
  ['journal_steps', ['note']],
  ['journal_batches', ['problems', 'warnings', 'file', 'again_reason']],
  ['journal_writes', ['body', 'answer', 'problem']],
] as const;

/** Takes the person out, within the transaction at hand; gives the rows that were changed, by table. */
export function takeOutPerson(database: Database, person: Person): TableCounts {
  const mentions = mentionsOf(person.texts);
  const counts: Record<string, number> = {};
  const run = (table: string, sql: string, ...values: readonly unknown[]): void => {
    const { changes } = database.prepare(sql).run(...values);
    if (changes > 0) counts[table] = (counts[table] ?? 0) + changes;
  };
  const scrubbed = (own: boolean) => (value: unknown) =>
    typeof value === 'string'
      ? rewritten(value, (text) => (own ? withoutWords(text) : mentions(text) ? takenOut : text))
      : value;
  database.function('mentions', (text: unknown) => (mentions(text) ? 1 : 0));
  database.function('without_words', scrubbed(true));
  database.function('without_person', scrubbed(false));
  const user = BigInt(person.id);
  // Nothing that was approved of the person can go out as it was approved.
  run(
    'journal_intents',
    `UPDATE journal_intents SET state = 'skipped', problem = 'the user was forgotten'
     WHERE user = ? AND state IN ('planned', 'blocked')`,
    user,
  );
  const own = ownColumns.filter((name) => name !== 'problem' && name !== 'subject');
  const sets = own.map((column) => `"${column}" = without_words("${column}")`).join(', ');
  const differs = own.map((column) => `"${column}" IS NOT without_words("${column}")`).join(' OR ');
  run('journal_intents', `UPDATE journal_intents SET ${sets} WHERE user = ? AND (${differs})`, user);
  run(
    'journal_writes',
    `UPDATE journal_writes SET body = without_words(body), answer = without_words(answer)
     WHERE user = ? AND (body IS NOT without_words(body) OR answer IS NOT without_words(answer))`,
    user,
  );
  for (const [table, columns] of texts) {
    for (const column of columns) {
      run(table, `UPDATE ${table} SET "${column}" = without_person("${column}") WHERE mentions("${column}")`);
    }
  }
  return counts;
}
