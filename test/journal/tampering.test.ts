/** Any change to the journal outside the program is found. */
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { expect, test } from 'vitest';
import type { IntentState, Journal } from '../../src/journal/port.ts';
import { timestampOf } from '../../src/model/time.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';
import { isSoak } from '../support/part.ts';

const always = { repeatsSince: timestampOf(0), daySince: timestampOf(0) };

/** Pseudo-random numbers below 1; the same seed gives the same numbers. */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** A journal with at least this many steps, of many kinds. */
async function usedJournal(steps: number): Promise<{ readonly journal: Journal; readonly file: string }> {
  const { journal, file } = await newJournal();
  const rowsOf = Math.max(5, Math.min(400, steps >> 3));
  for (let at = 0; ((await journal.head())?.step ?? 0) < steps; at += 1) {
    const batch = `b${at}`;
    const rows = Array.from({ length: rowsOf }, (_, row) => row + 2);
    const notes = ['looks large'];
    const intents = rows.map((row) => newIntent(row, at * 1_000 + row, row % 3 === 0 ? { notes } : {}));
    await journal.addBatch(newBatch({ batch, againReason: at % 2 === 0 ? null : 'again' }), [
      ...intents,
      newIntent(rowsOf + 2, 1, { state: 'invalid', problem: 'no such user', token: null }),
    ]);
    await journal.claim(batch, always, () => [{ kind: 'consented', note: 'by typing 5.00' }]);
    for (const row of rows) {
      const move = (from: IntentState, to: IntentState, fields = {}, note?: string) =>
        journal.move({ batch, row, from, to, fields, ...(note === undefined ? {} : { note }) });
      await move('planned', 'sending', { body: '{"amount":5}', before: '0.00' });
      if (row % 7 === 0) continue;
      await move('sending', 'unknown', { httpStatus: 200, answer: '{"data":{}}' });
      if (row % 5 === 0) continue;
      await move('unknown', 'applied', { evidence: 'token', recordId: String(row), after: '5.00' }, 'it is there');
    }
    await journal.takeUp(batch);
    const write = { operation: 'users.update', user: at, body: '{"first_name":"Zoe"}', fingerprint: null };
    const number = await journal.beginWrite(write);
    if (at % 2 === 0) await journal.endWrite(number, { state: 'done', httpStatus: 200, answer: '{}', problem: null });
    await journal.setBatchState(batch, 'stopped');
  }
  await journal.forget({ id: 3, addresses: [], texts: ['Zoe'] });
  return { journal, file };
}

type Value = string | number | null;
type Row = Record<string, Value>;

const tables = {
  journal_steps: ['step'],
  journal_intents: ['batch', 'row'],
  journal_batches: ['batch'],
  journal_writes: ['write'],
  journal_identity: ['id'],
} as const;
type Table = keyof typeof tables;

/** Makes a random change to the file. Returns what was changed and how to undo it, or undefined if it failed. */
function tamper(
  database: Database,
  random: () => number,
): { readonly what: string; readonly undo: () => void } | undefined {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
  // Most of the data is in the two large tables.
  const table = pick<Table>([
    ...Array<Table>(4).fill('journal_steps'),
    ...Array<Table>(4).fill('journal_intents'),
    'journal_batches',
    'journal_batches',
    'journal_writes',
    'journal_identity',
  ]);
  const key: readonly string[] = tables[table];
  const count = Number(database.prepare(`SELECT count(*) FROM ${table}`).pluck().get());
  const rowAt = (at: number) =>
    database.prepare(`SELECT * FROM ${table} ORDER BY ${key.join(', ')} LIMIT 1 OFFSET ?`).get(at) as Row;
  const any = () => rowAt(Math.floor(random() * count));
  const where = key.map((name) => `${name} = @${name}`).join(' AND ');
  const remove = (row: Row): void => void database.prepare(`DELETE FROM ${table} WHERE ${where}`).run(row);
  const insert = (row: Row): void => {
    const names = Object.keys(row);
    database
      .prepare(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map((name) => `@${name}`).join(', ')})`)
      .run(row);
  };
  const put = (before: readonly Row[], after: readonly Row[]): boolean => {
    try {
      database.transaction(() => {
        before.forEach(remove);
        after.forEach(insert);
      })();
      return true;
    } catch {
      // A unique index refused it.
      return false;
    }
  };
  const done = (what: string, before: readonly Row[], after: readonly Row[]) =>
    put(before, after) ? { what: `${table}: ${what}`, undo: () => void put(after, before) } : undefined;

  const kind =
    table === 'journal_identity' ? 'change' : pick(['change', 'change', 'change', 'delete', 'insert', 'swap']);
  const row = any();
  switch (kind) {
    case 'delete':
      return done(`delete ${JSON.stringify(row)}`, [row], []);
    case 'insert': {
      const last = key.at(-1) ?? '';
      const value = row[last] ?? null;
      return done('insert', [], [{ ...row, [last]: typeof value === 'number' ? 1_000_000 + value : `${value}x` }]);
    }
    case 'swap': {
      const other = any();
      const keyOf = (each: Row) => Object.fromEntries(key.map((name) => [name, each[name] ?? null]));
      if (JSON.stringify(keyOf(row)) === JSON.stringify(keyOf(other))) return undefined;
      return done(
        `swap`,
        [row, other],
        [
          { ...row, ...keyOf(other) },
          { ...other, ...keyOf(row) },
        ],
      );
    }
    default: {
      const column = pick(Object.keys(row));
      const value = row[column] ?? null;
      return done(
        `change ${column} of ${JSON.stringify(row)}`,
        [row],
        [{ ...row, [column]: changed(value, column, random) }],
      );
    }
  }
}

const whole = new Set(['step', 'row', 'write', 'user', 'rows', 'attempts', 'file_bytes', 'http_status', 'undo_of_row']);

function changed(value: Value, column: string, random: () => number): Value {
  if (value === null) return whole.has(column) ? 7 : 'x';
  if (typeof value === 'number') return value + 1 + Math.floor(random() * 5);
  if (value === '') return 'x';
  const at = Math.floor(random() * value.length);
  const other = value[at] === '7' ? '8' : '7';
  return value.slice(0, at) + other + value.slice(at + 1);
}

/** The changes that were not found, of this many. */
async function missedOf(steps: number, tries: number): Promise<string[]> {
  const { journal, file } = await usedJournal(steps);
  const sound = await journal.verifyChain();
  expect(sound).toMatchObject({ status: 'whole', problems: [] });
  const database = new SqliteDatabase(file);
  database.pragma('foreign_keys = OFF');
  database.pragma('ignore_check_constraints = ON');
  database.pragma('synchronous = OFF');
  const random = numbersFrom(20_260_311);
  const missed: string[] = [];
  for (let at = 0; at < tries;) {
    // One change in ten removes the newest steps, which only a head noted before can show.
    if (at % 10 === 9) {
      const newest = database
        .prepare('SELECT * FROM journal_steps ORDER BY step DESC LIMIT ?')
        .all(1 + Math.floor(random() * 20)) as Row[];
      database.prepare('DELETE FROM journal_steps WHERE step >= ?').run(newest.at(-1)?.['step']);
      if ((await journal.verifyChain(sound.head?.hash)).status === 'whole') missed.push(`truncate by ${newest.length}`);
      for (const row of newest) {
        const names = Object.keys(row);
        database.prepare(`INSERT INTO journal_steps VALUES (${names.map((name) => `@${name}`).join(', ')})`).run(row);
      }
      at += 1;
      continue;
    }
    const tampering = tamper(database, random);
    if (tampering === undefined) continue;
    if ((await journal.verifyChain()).status === 'whole') missed.push(tampering.what);
    tampering.undo();
    at += 1;
  }
  database.close();
  expect(await journal.verifyChain(sound.head?.hash)).toMatchObject({ status: 'whole', problems: [] });
  return missed;
}

// proves: chain
test('each of some random changes to a small journal is found', async () => {
  expect(await missedOf(120, 60)).toEqual([]);
});

/** In the soak: 1,000 changes to a journal of 10,000 steps. */
const [steps, changes] = isSoak ? [10_000, 1_000] : [2_000, 80];
test('each of many random changes to a long journal is found', { tags: ['full'], timeout: 600_000 }, async () => {
  expect(await missedOf(steps, changes)).toEqual([]);
});
