/**
 * The floor of a first sync, as a child process: the same pages by `undici.request` at concurrency 4, each page's bytes
 * stored in SQLite in one transaction, and nothing else. Arguments: a finished mirror, whose windows name the pages,
 * and the file to write. Environment: address and key. Prints the number of stored records.
 */
import SqliteDatabase from 'better-sqlite3';
import pLimit from 'p-limit';
import { Agent, request } from 'undici';
import { resourceOf } from '../src/model/resources.ts';

const [mirror = '', target = ''] = process.argv.slice(2);
const { ADMIN_MIRROR_BASE_URL: url = '', ADMIN_MIRROR_API_KEY: key = '' } = process.env;
const pageSize = 1_000;

const names = resourceOf('users').fields.map(({ name }) => name);
const database = new SqliteDatabase(target);
database.pragma('journal_mode = WAL');
database.pragma('synchronous = NORMAL');
database.exec(`CREATE TABLE users (id INTEGER PRIMARY KEY, ${names.slice(1).join(' ANY, ')} ANY) STRICT`);
const columns = names.map((name) => `value ->> '$.${name}'`).join(', ');
const store = database.prepare(`INSERT INTO users SELECT ${columns} FROM jsonb_each(?, '$.data') WHERE true
  ON CONFLICT (id) DO NOTHING`);

const agent = new Agent({ connections: 4 });
const headers = { authorization: `Bearer ${key}`, accept: 'application/json' };

async function page(range: string, number: number): Promise<void> {
  const query = `paginate=${pageSize}&page=${number}&date=${range}&sort[created_at]=asc&sort[username]=asc`;
  const { body } = await request(`${url}/api/v1/users?${query}`, { dispatcher: agent, headers });
  const bytes = Buffer.from(await body.arrayBuffer());
  database.exec('BEGIN');
  store.run(bytes);
  database.exec('COMMIT');
}

const count = database.prepare<[], number>('SELECT count(*) FROM users').pluck();
const windows = new SqliteDatabase(mirror, { readonly: true })
  .prepare<[], { from_day: string; to_day: string; server_total: number }>(
    `SELECT from_day, to_day, server_total FROM mirror_windows WHERE resource = 'users' AND server_total > 0`,
  )
  .all();
const limit = pLimit(4);
await Promise.all(
  windows.flatMap(({ from_day, to_day, server_total }) =>
    Array.from({ length: Math.ceil(server_total / pageSize) }, (_, index) =>
      limit(() => page(`${from_day},${to_day}`, index + 1)),
    ),
  ),
);
process.stdout.write(`${count.get() ?? 0}\n`);
database.close();
await agent.close();
