/**
 * How many requests a run sends, compared with the least possible. The engine and the store are real; the server is a
 * list in memory, so that a million records cost no more than writing them.
 */
import { hash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '../src/api/operations.ts';
import type { ApiRecord } from '../src/api/body.ts';
import type { Page } from '../src/api/body.ts';
import { NotFound } from '../src/api/errors.ts';
import { apiSource } from '../src/mirror/source.ts';
import { runSync, type SyncRequest } from '../src/mirror/sync.ts';
import { resourceNames } from '../src/model/resources.ts';
import { dayMs, hourMs, startOfDay, timestampOf, type Day } from '../src/model/time.ts';
import { Random } from '../src/sandbox/random.ts';
import { openMirrorStore } from '../src/mirror/store/mirror-store.ts';
import { markdownTable, type Row } from './table.ts';

const start = Date.parse('2023-03-11T00:00:00Z');
const days = 1_096;

/** A server with this many users and nothing else, created evenly over some time, three years by default. */
class ListedServer {
  /** The requests since it started. */
  requests = 0;
  now = start + days * dayMs;
  readonly #step: number;
  /** The users on its pages, by number, in the order of creation. */
  #shown: number[];
  /** Users that totals count and no page has. */
  #hidden: number[] = [];
  readonly #changed = new Set<number>();

  constructor(users: number, overMs: number) {
    this.#step = overMs / users;
    this.#shown = Array.from({ length: users }, (_, index) => index);
  }

  /** Adds the users created since the last call, at the same rate. */
  grow(): void {
    for (let next = (this.#shown.at(-1) ?? -1) + 1; this.#at(next) <= this.now; next += 1) this.#shown.push(next);
  }

  remove(count: number, random: Random): void {
    const gone = this.#draw(count, random);
    this.#shown = this.#shown.filter((user) => !gone.has(user));
  }

  /** From now on totals count this many records that no page has. */
  overcount(count: number, random: Random): void {
    this.#hidden = [...this.#hidden, ...this.#draw(count, random)].sort((a, b) => a - b);
  }

  change(count: number, random: Random): void {
    for (const user of this.#draw(count, random)) this.#changed.add(user);
  }

  #draw(count: number, random: Random): Set<number> {
    const drawn = new Set<number>();
    while (drawn.size < count) drawn.add(this.#shown[random.below(this.#shown.length)] ?? 0);
    return drawn;
  }

  #from(users: readonly number[], time: number): number {
    let low = 0;
    let high = users.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#at(users[middle] ?? 0) < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The time when the user was created: somewhere within its step. */
  #at(index: number): number {
    const within = (Math.imul(index, 2_654_435_761) >>> 0) / 4_294_967_296;
    return Math.floor(start + (index + within) * this.#step);
  }

  #user(index: number): ApiRecord {
    const at = timestampOf(this.#at(index));
    const name = `user${String(index).padStart(9, '0')}`;
    return {
      id: index + 1,
      username: name,
      email: `${name}@mail.example`,
      first_name: this.#changed.has(index) ? 'Changed' : 'Ada',
      last_name: 'Example',
      status: 'active',
      balance: 1,
      avatar: null,
      is_subscribed: 1,
      visibility: 'online',
      language: 'en',
      data: null,
      email_verified_at: null,
      last_seen_at: at,
      last_login_at: at,
      created_at: at,
      updated_at: at,
    };
  }

  /** The functions of a client that the engine uses. */
  client(): Client {
    const list: Client['list'] = (resource, options = {}) => {
      this.requests += 1;
      const { paginate = 15, page = 1, date, sorts } = options;
      const all = resource === 'users';
      let [from, to, hidden] = [0, all ? this.#shown.length : 0, all ? this.#hidden.length : 0];
      if (all && typeof date === 'object') {
        // The whole last day belongs to a range.
        const [first, last] = [startOfDay(date.from as Day), startOfDay(date.to as Day) + dayMs];
        [from, to] = [this.#from(this.#shown, first), this.#from(this.#shown, last)];
        hidden = this.#from(this.#hidden, last) - this.#from(this.#hidden, first);
      }
      const total = to - from + hidden;
      const isFalling = sorts?.[0]?.direction === 'desc';
      const offset = (page - 1) * paginate;
      const users = isFalling
        ? this.#shown.slice(Math.max(from, to - offset - paginate), Math.max(from, to - offset)).reverse()
        : this.#shown.slice(Math.min(to, from + offset), Math.min(to, from + offset + paginate));
      const records = users.map((user) => this.#user(user));
      const lastPage = Math.max(1, Math.ceil(total / paginate));
      const answer = { page, perPage: paginate, lastPage, total, records, text: '', milliseconds: 0 };
      return Promise.resolve({ ...answer, serverTime: this.now } satisfies Page);
    };
    const getUser: Client['getUser'] = async (user) => {
      this.requests += 1;
      const index = Number(user) - 1;
      const at = this.#from(this.#shown, this.#at(index));
      if (this.#shown[at] !== index) throw new NotFound(`there is no user ${user}`);
      return Promise.resolve({ status: 200, headers: {}, text: '', body: this.#user(index) } as never);
    };
    const auth: Client['auth'] = async () => {
      this.requests += 1;
      return Promise.resolve({ status: 200, headers: {}, text: '', body: { id: 1, username: 'owner' } } as never);
    };
    const listAs: Client['listAs'] = async (resource, options, parse) => {
      const { page, perPage, lastPage, total, records } = await list(resource, options as never);
      const body = { current_page: page, per_page: perPage, last_page: lastPage, total, data: records };
      const text = JSON.stringify(body);
      const headers = { date: new Date(this.now).toUTCString() };
      const digest = hash('sha1', text, 'base64');
      const response = { status: 200, headers, body: text, digest, bytes: text.length, milliseconds: 0 };
      return parse({ ...response, cleanBytes: () => Buffer.from(text) });
    };
    const asked = {
      list,
      listAs,
      getUser,
      auth,
      address: 'http://memory',
      keyMark: '0000',
    };
    return asked as unknown as Client;
  }
}

/** One mirror of one such server; each call runs a sync and returns the requests that it sent. */
export function openSimulation(users: number, pageSize: number, overMs = days * dayMs) {
  const folder = mkdtempSync(join(tmpdir(), 'admin-mirror-requests-'));
  const server = new ListedServer(users, overMs);
  const clock = { now: () => server.now };
  const store = openMirrorStore(join(folder, 'mirror.db'), clock);
  const client = server.client();
  async function run(tried: Partial<SyncRequest> = {}): Promise<number> {
    const before = server.requests;
    server.now += hourMs;
    const counters = { requests: 0, retries: 0, byStatus: {} };
    const { signal } = new AbortController();
    const ports = {
      source: apiSource(client, pageSize, clock),
      store,
      clock,
      signal,
      progress: () => {},
      counters,
    };
    await runSync(ports, {
      resources: resourceNames,
      mode: 'quick',
      only: null,
      allowDeletions: false,
      requestsPerRun: 1_000,
      windowPages: 20,
      concurrency: 8,
      ...tried,
    });
    return server.requests - before;
  }
  return {
    server,
    run,
    store,
    clock,
    live: () => store.liveCount('users'),
    close: () => {
      store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/**
 * The requests of a binary search for this many differences in this many pages, done twice, and one more look at each.
 */
export function halving(differences: number, pages: number): number {
  return 2 * differences * Math.log2(Math.max(2, pages / differences)) + differences;
}

/** The allowed factor over the binary search. */
export const leeway = 1.5;

/** The text above the table. */
export const requestsWords =
  'With the real engine over a server in memory. The floor is the least that could do: the pages, or\n' +
  'a look at each page in which the halves of a list differ. With pages of 15, a day of this list has 61 pages. Differences are\n' +
  'looked for by counting days, so a deletion costs the pages of its day, and misses the goal. Windows hold at most 10,000 records,\n' +
  'since many servers are slow, or refuse, further down a list: a first sync in pages of 1,000 has twice the windows of one without\n' +
  'that limit.';

/** The table of requests, for pages of several sizes. */
export async function benchRequests(users: number, pageSizes: readonly number[]): Promise<string> {
  const rows: Row[] = [];
  for (const pageSize of pageSizes) rows.push(...(await requestsWith(users, pageSize)));
  return markdownTable(rows);
}

async function requestsWith(users: number, pageSize: number): Promise<Row[]> {
  const random = new Random(3);
  const simulation = openSimulation(users, pageSize);
  const { server, run } = simulation;
  const pages = Math.ceil(users / pageSize);
  // The open window has two days and the elapsed part of the third.
  const leastOpen = Math.ceil((users / days) * (2 / pageSize));
  const openPages = Math.ceil((users / days) * (3 / pageSize));
  const rows: Row[] = [];
  const note = (what: string, least: number, ours: number, most: number): void => {
    rows.push({
      what: `${what}, pages of ${pageSize}`,
      floor: Math.ceil(least).toLocaleString('en'),
      ours: ours.toLocaleString('en'),
      ratio: `${(ours / least).toFixed(2)} ×`,
      goal: `at most ${Math.floor(most).toLocaleString('en')}`,
      met: ours <= most,
    });
  };
  try {
    note('first sync', pages + 3, await run({ mode: 'default' }), 1.3 * pages + 1_050);
    await run();
    const quiet = await run();
    note('quick, nothing new', 4 + leastOpen, quiet, 12 + openPages);
    note(
      'night, nothing new',
      4 + Math.min(pages, 1_000),
      await run({ mode: 'default' }),
      1.3 * Math.min(pages, 1_000) + 50,
    );
    server.change(Math.round(users / 1_000), random);
    note(
      'night, 0.1 % changed',
      4 + Math.min(pages, 1_000),
      await run({ mode: 'default' }),
      1.3 * Math.min(pages, 1_000) + 50,
    );
    for (const deletions of [1, 5, 20, 100]) {
      server.remove(deletions, random);
      const asked = (await run()) - quiet;
      const least = deletions * Math.log2(Math.max(2, pages / deletions)) + deletions;
      note(`quick, ${deletions} deleted, beyond a quiet one`, least, asked, leeway * halving(deletions, pages));
    }
    server.overcount(5, random);
    const found = await run();
    note(
      'quick, total 5 too large for the first time, beyond a quiet one',
      halving(5, pages) / 2,
      found - quiet,
      1.3 * pages + 1_050,
    );
    note('quick, total 5 too large as before', 4 + leastOpen, await run(), quiet + 20);
  } finally {
    simulation.close();
  }
  return rows;
}
