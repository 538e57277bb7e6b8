/** What is removed of a person, and what is kept so that the person does not come back: ids alone. */
import type { Database } from 'better-sqlite3';
import { recordId } from '../../model/records.ts';
import type { RelationTable } from '../../model/relations.ts';
import type { ResourceName } from '../../model/resources.ts';
import type { Timestamp } from '../../model/time.ts';
import type { Forgotten, Person } from '../../store/forget-types.ts';
import { addressesIn, mentionsOf, parsedObject, takenOut } from '../../store/mentions.ts';
import { flatKeys, relationsRead, setFlatKeys } from '../../store/relations.ts';
import { pageForgetter } from './page-memory.ts';
import { historyTableOf, quoteName } from '../../store/schema.ts';
import { ownersOf } from '../page.ts';
import { owningDay } from './suppressions.ts';
import type { Runner } from '../../store/tables.ts';

/** Texts of the bookkeeping that may hold what a server said. */
const texts = [
  ['mirror_events', 'detail'],
  ['mirror_runs', 'problem'],
  ['mirror_run_resources', 'problem'],
  ['mirror_windows', 'problem'],
] as const;

/** Removes everything about the person, within the transaction at hand. */
export function personRemoval(database: Database, runner: Runner, person: Person, at: Timestamp): Forgotten {
  const mentions = mentionsOf(person.texts);
  const isAddressed = addressesIn(person.addresses);
  const removed: Record<string, number> = {};
  const suppressed: Record<string, number> = {};
  const user = BigInt(person.id);

  function run(table: string, sql: string, ...values: readonly unknown[]): void {
    const { changes } = database.prepare(sql).run(...values);
    if (changes > 0) removed[table] = (removed[table] ?? 0) + changes;
  }

  function suppress(resource: ResourceName, id: number, day: string | null): void {
    // Forgotten twice: what was known of it stays, since the rows that could tell it anew are gone.
    const { changes } = database
      .prepare(
        `INSERT INTO mirror_suppressions (resource, id, user_id, since, seen_day) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (resource, id) DO UPDATE SET seen_day = coalesce(excluded.seen_day, seen_day)`,
      )
      .run(resource, BigInt(id), user, at, day);
    suppressed[resource] = (suppressed[resource] ?? 0) + changes;
  }

  const belongs = (record: Readonly<Record<string, unknown>>): boolean =>
    ownersOf(record).includes(person.id) || isAddressed(record['receiver']);

  /** Emails to the person, now or in the history: by the user they belong to, or by where they went. */
  function suppressEmails(): void {
    const rows = database.prepare<[], Readonly<Record<string, unknown>>>(
      'SELECT id, user_id, receiver, created_at FROM emails',
    );
    const found = new Map<number, string | null>();
    const versions = database.prepare<[], { id: number; record: string }>(
      `SELECT id, record FROM ${historyTableOf('emails')}`,
    );
    for (const { id, record } of versions.iterate()) if (belongs(parsedObject(record) ?? {})) found.set(id, null);
    for (const row of rows.iterate()) {
      const id = recordId(row);
      if (id !== undefined && (belongs(row) || found.has(id))) found.set(id, owningDay(row['created_at']));
    }
    for (const [id, day] of found) suppress('emails', id, day);
  }

  const ofPerson = (resource: ResourceName): string =>
    `IN (SELECT id FROM mirror_suppressions WHERE resource = '${resource}' AND user_id = ${user})`;

  function removeRelated(relation: RelationTable): void {
    const { resource, relation: name, table, parentColumn } = relation;
    const concerns = (text: unknown): number => {
      const record = parsedObject(text);
      if (record === undefined) return 0;
      return belongs(record) || (name === 'user' && recordId(record) === person.id) ? 1 : 0;
    };
    database.function('concerns', concerns);
    const ofParent = `${quoteName(parentColumn)} ${ofPerson(resource)}`;
    run(table, `DELETE FROM ${quoteName(table)} WHERE ${ofParent} OR concerns("record")`);
    const keys = flatKeys(runner, relation) ?? [];
    const left = keys.filter((key) => !mentions(key));
    if (left.length < keys.length) setFlatKeys(database, runner, relation, left);
  }

  const day = database
    .prepare<[bigint], { created_at: unknown }>('SELECT created_at FROM users WHERE id = ?')
    .get(user);
  suppress('users', person.id, day === undefined ? null : owningDay(day.created_at));
  suppressEmails();
  for (const relation of relationsRead(runner)) removeRelated(relation);
  for (const resource of ['users', 'emails'] as const) {
    const ids = database.prepare<[], number>(`SELECT id FROM ${resource} WHERE id ${ofPerson(resource)}`).pluck();
    // They hold the time at which the last record of a page was created.
    pageForgetter(database, resource)(ids.all());
    run(resource, `DELETE FROM ${resource} WHERE id ${ofPerson(resource)}`);
    const history = historyTableOf(resource);
    run(history, `DELETE FROM ${history} WHERE id ${ofPerson(resource)}`);
  }
  database.function('mentions', (text: unknown) => (mentions(text) ? 1 : 0));
  for (const [table, column] of texts) {
    run(table, `UPDATE ${table} SET ${column} = ? WHERE mentions(${column})`, takenOut);
  }
  run('mirror_events', `UPDATE mirror_events SET subject = 'event ' || event WHERE mentions(subject)`);
  return { removed, suppressed };
}
