/** A real mirror file with generated rows. */
import { join } from 'node:path';
import type { Database } from 'better-sqlite3';
import { resourceOf, type ResourceName } from '../../src/model/resources.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { quoteName } from '../../src/store/schema.ts';
import { temporaryFolder } from './temporary-folder.ts';

export type StoredValue = string | bigint | number | null;

const at = '2026-03-11T10:00:00.000000Z';

/** Inserts rows as a sync would; missing fields are null. */
export function insertRows(
  database: Database,
  resource: ResourceName,
  rows: Iterable<Readonly<Record<string, StoredValue>>>,
): void {
  const columns = [...resourceOf(resource).fields.map(({ name }) => name), '_extra', '_first_seen_at', '_changed_at'];
  const insert = database.prepare(
    `INSERT INTO ${resource} (${columns.map(quoteName).join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
  );
  database.transaction(() => {
    for (const row of rows) {
      const stored: Readonly<Record<string, StoredValue>> = { _first_seen_at: at, _changed_at: at, ...row };
      insert.run(columns.map((name) => stored[name] ?? null));
    }
    // What a sync writes is not noted as the change of another program.
    database.exec('DELETE FROM mirror_touched');
  })();
}

/** Makes a mirror in its own folder, which is removed when the test ends; the caller fills it. */
export function mirrorFile(fill: (database: Database) => void = () => {}): string {
  const file = join(temporaryFolder(), 'mirror.db');
  const database = openMirrorFile(file);
  fill(database);
  database.close();
  return file;
}

const firstNames = ['Anna', 'José', 'Zoë', 'Martin', 'Mary "Mae"', '=Max', '李'];
const lastNames = ['Smith', 'O’Neil', 'García, M.', 'Brown', '', 'Two\nLines'];

/** Users like those of a real server, numbered from 1: about 270 bytes of CSV each, all different. */
export function* madeUpUsers(count: number): Generator<Readonly<Record<string, StoredValue>>> {
  const time = (minutes: number) => `${new Date(1_600_000_000_000 + minutes * 60_000).toISOString().slice(0, -1)}000Z`;
  for (let index = 0; index < count; index += 1) {
    yield {
      id: BigInt(index + 1),
      username: `user_${index}`,
      email: `user.${index}@mail-${index % 50}.example.com`,
      first_name: firstNames[index % firstNames.length] ?? null,
      last_name: lastNames[index % lastNames.length] ?? null,
      status: ['active', 'pending', 'suspended'][index % 3] ?? null,
      balance: index % 4 === 0 ? BigInt(index % 500) : ((index * 37) % 100_000) / 100,
      avatar: index % 3 === 0 ? null : `https://cdn.example.com/avatars/${index}/picture.png`,
      is_subscribed: BigInt(index % 2),
      visibility: 'online',
      language: ['en', 'de', 'fr'][index % 3] ?? null,
      data: index % 4 === 0 ? `{"theme":"dark","tags":["a","b"],"n":${index}}` : null,
      email_verified_at: index % 5 === 0 ? null : time(index),
      last_seen_at: time(index + 5_000),
      last_login_at: time(index + 4_000),
      created_at: time(index),
      updated_at: time(index + 9_000),
    };
  }
}
