/**
 * Publishing of a mirror to PostgreSQL compared with COPY of the same rows from a file; changes compared with
 * everything; restoring.
 */
import { createReadStream, createWriteStream, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Client } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { openMirrorFile } from '../src/store/open.ts';
import { insertRows, madeUpUsers } from '../test/support/mirror-file.ts';
import { startPostgres, type TestDatabase } from '../test/support/postgres.ts';
import { measureCli, median, type Measured } from './process.ts';
import type { Row } from './table.ts';

/** Measures `pairs` pairs, ours and the floor in turn. */
export async function benchPublish(folder: string, users: number, pairs: number): Promise<Row[]> {
  const file = join(folder, 'published.db');
  makeMirror(file, users);
  const server = await startPostgres();
  try {
    const [whole, floor, changed, restored]: [Measured[], number[], Measured[], Measured[]] = [[], [], [], []];
    for (let pair = 0; pair < pairs; pair += 1) {
      const database = await server.database();
      const cli = (command = ['publish'], mirror = file) =>
        measureCli([...command, '--json', '--db', mirror], {
          ADMIN_MIRROR_PUBLISH_URL: database.url,
          ADMIN_MIRROR_PUBLISH_PASSWORD: database.password,
        });
      whole.push(await cli());
      floor.push(await copySeconds(database, join(folder, 'users.copy')));
      change(file, pair);
      changed.push(await cli());
      const copy = join(folder, 'restored.db');
      rmSync(copy, { force: true });
      restored.push(await cli(['restore', '--published'], copy));
      await database.drop();
    }
    const seconds = (tries: readonly Measured[]) => median(tries.map((each) => each.seconds));
    const ratio = median(whole.map((each, index) => (floor[index] ?? 0) / each.seconds));
    const gain = median(whole.map((each, index) => each.seconds / (changed[index]?.seconds ?? 0)));
    const peak = median(whole.map(({ peakMb }) => peakMb));
    const rows = users.toLocaleString('en-US');
    return [
      {
        what: `publishing ${rows} users (floor: COPY of the same rows from a file, with key and indices)`,
        floor: `${median(floor).toFixed(1)} s`,
        ours: `${seconds(whole).toFixed(1)} s, ${peak.toFixed(0)} MB`,
        ratio: `${(100 * ratio).toFixed(0)} % of its speed`,
        goal: 'at least 60 %',
        met: ratio >= 0.6,
      },
      {
        what: 'publishing what changed of them, 1 % (floor: everything)',
        floor: `${seconds(whole).toFixed(1)} s`,
        ours: `${seconds(changed).toFixed(2)} s`,
        ratio: `${gain.toFixed(1)} × as fast`,
        goal: 'at least 10 ×',
        met: gain >= 10,
      },
      {
        what: `restoring a mirror of ${rows} users from there`,
        floor: '',
        ours: `${seconds(restored).toFixed(1)} s`,
        ratio: '',
        goal: 'at most 60 s a million',
        met: seconds(restored) <= (60 * users) / 1e6,
      },
    ];
  } finally {
    await server.remove();
  }
}

function makeMirror(file: string, users: number): void {
  const mirror = openMirrorFile(file);
  insertRows(mirror, 'users', madeUpUsers(users));
  mirror.close();
}

function change(file: string, pair: number): void {
  const mirror = openMirrorFile(file);
  mirror.prepare('UPDATE users SET balance = balance + 1 WHERE id % 100 = ?').run(pair);
  mirror.close();
}

/**
 * The time of COPY from a file into a table like that of the mirror, with its key and indices created afterwards as
 * ours are.
 */
async function copySeconds({ urlWithPassword }: TestDatabase, file: string): Promise<number> {
  const client = new Client({ connectionString: urlWithPassword });
  await client.connect();
  try {
    await pipeline(client.query(copyTo('COPY mirror.users TO STDOUT')), createWriteStream(file));
    await client.query('CREATE TABLE floor_users (LIKE mirror.users)');
    const startedAt = performance.now();
    await pipeline(
      createReadStream(file, { highWaterMark: 1 << 18 }),
      client.query(copyFrom('COPY floor_users FROM STDIN')),
    );
    await client.query('ALTER TABLE floor_users ADD PRIMARY KEY (id)');
    await client.query('CREATE INDEX ON floor_users (created_at); CREATE INDEX ON floor_users (email)');
    await client.query('ANALYZE floor_users');
    return (performance.now() - startedAt) / 1000;
  } finally {
    await client.end();
    rmSync(file, { force: true });
  }
}
