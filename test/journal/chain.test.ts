/** The chain of steps: its hashes, seals and digests, and how a record that was altered outside the program is found. */
import { createHash } from 'node:crypto';
import SqliteDatabase from 'better-sqlite3';
import type { Kysely } from 'kysely';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  accountRecords,
  appendSteps,
  canonical,
  hashOf,
  newestSeal,
  type NewStep,
  RowsSeal,
  saltedDigest,
  sealOf,
  stepRow,
} from '../../src/journal/chain.ts';
import { openDatabase } from '../../src/journal/database.ts';
import { openBackend } from '../../src/journal/open.ts';
import type { JournalTables } from '../../src/journal/tables.ts';
import { timestampOf } from '../../src/model/time.ts';
import { anna, newBatch, newIntent, newJournal } from '../support/journal.ts';
import { newAccount, newPeople } from '../support/people.ts';
import { sandboxNow } from '../support/sandbox.ts';

const clock = { now: () => sandboxNow };
const at = timestampOf(sandboxNow);
const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
const salt = /^[0-9a-f]{32}$/;

async function connectionTo(file: string): Promise<Kysely<JournalTables>> {
  const { db } = await openDatabase(openBackend(file, clock));
  onTestFinished(() => db.destroy());
  return db;
}

/** A journal, another connection to it, and `tamper`, which writes outside the program. */
async function openChain(...batches: readonly string[]) {
  const { journal, file } = await newJournal();
  for (const batch of batches) await journal.addBatch(newBatch({ batch, hash: batch }), [newIntent(2, 7)]);
  const database = new SqliteDatabase(file);
  onTestFinished(() => void database.close());
  return { journal, file, connection: await connectionTo(file), tamper: (text: string) => database.exec(text) };
}

function newStep(fields: Partial<NewStep> = {}): NewStep {
  return { at, actor: anna, batch: null, row: null, kind: 'viewed', data: {}, note: null, ...fields };
}

describe('the canonical text of', () => {
  test.each([
    [null, 'null'],
    [true, 'true'],
    [-1.5, '-1.5'],
    ['a "b"\n', '"a \\"b\\"\\n"'],
    [[], '[]'],
    [[2, 1, [null, 'x']], '[2,1,[null,"x"]]'],
    [{}, '{}'],
    [
      { b: 1, a: { d: [{ z: 1, y: 2 }], c: null }, B: 2, '"': 3 },
      '{"\\"":3,"B":2,"a":{"c":null,"d":[{"y":2,"z":1}]},"b":1}',
    ],
    [{ c: 3, b: 2, a: 1 }, '{"a":1,"b":2,"c":3}'],
  ])('%j', (value, text) => {
    expect(canonical(value)).toBe(text);
  });
});

test('the hash of a step covers all its fields, with sorted keys', () => {
  const step = {
    at,
    actor: '{"name":"anna"}',
    batch: 'one "1"',
    row: 2,
    kind: 'sending',
    data: '{"from":"planned"}',
    digest: 'd',
    noteDigest: 'n',
    previous: 'p',
    step: 7,
  };
  const whole =
    `{"actor":{"name":"anna"},"at":"${at}","batch":"one \\"1\\"","data":{"from":"planned"},"digest":"d",` +
    '"kind":"sending","note":"n","previous":"p","row":2,"step":7}';
  expect(hashOf(step)).toBe(digestOf(whole));
  const less = { ...step, batch: null, row: null, digest: null, noteDigest: null };
  expect(hashOf(less)).toBe(
    digestOf(
      whole
        .replace('"one \\"1\\""', 'null')
        .replace('"row":2', '"row":null')
        .replace('"d"', 'null')
        .replace('"note":"n"', '"note":null'),
    ),
  );
});

describe('a seal', () => {
  test('covers the columns with a value, in order, except salt, digest and the time of the claim', () => {
    const row = { user: 7, batch: 'one', salt: 's', digest: 'd', claimed_at: at, problem: null, behind: undefined };
    expect(sealOf('s', row)).toBe(digestOf('s\n{"batch":"one","user":7}'));
    const turned = Object.fromEntries(Object.entries(row).toReversed());
    expect(sealOf('s', turned)).toBe(sealOf('s', row));
    expect(sealOf('other', row)).not.toBe(sealOf('s', row));
    expect(sealOf('s', { ...row, user: 0, batch: '' })).toBe(digestOf('s\n{"batch":"","user":0}'));
    expect(sealOf('s', {})).toBe(digestOf('s\n{}'));
    // By the column names of the database, sorted.
    const named = { plannedBefore: '0.00', fileHash: 'f', planned: 1 };
    expect(sealOf('s', named)).toBe(digestOf('s\n{"file_hash":"f","planned":1,"planned_before":"0.00"}'));
  });

  test('of many rows covers all of them, in order', () => {
    const rows = new RowsSeal();
    expect(new RowsSeal().end()).toEqual({ rows: 0, seal: digestOf('') });
    rows.add(0, 'd0');
    rows.add(2, 'd2');
    expect(() => rows.add(2, 'd2')).toThrow(/row 2 is sealed behind row 2/);
    expect(rows.end()).toEqual({ rows: 2, seal: digestOf('0 d0\n2 d2\n') });
  });
});

describe('a step', () => {
  const head = { step: 7, hash: 'h7' };

  test('follows the newest one, and its hash covers it as stored', () => {
    const data = { to: 'b', from: 'a' };
    const row = stepRow(newStep({ batch: 'one', row: 2, kind: 'sending', data, digest: 'd' }), head);
    const { hash, note, salt, ...hashed } = row;
    expect(row).toMatchObject({ step: 8, previous: 'h7', at, batch: 'one', row: 2, kind: 'sending', digest: 'd' });
    expect([row.actor, row.data]).toEqual([canonical({ ...anna }), '{"from":"a","to":"b"}']);
    expect([note, salt, hashed.noteDigest]).toEqual([null, null, null]);
    expect(hash).toBe(hashOf(hashed));
    expect(stepRow(newStep(), head).digest).toBeNull();
  });

  test('has its note hashed as a salted digest, so that the note can be removed later', () => {
    const row = stepRow(newStep({ note: 'for Zoe\0' }), head);
    const { hash, note, salt: own, ...hashed } = row;
    expect(note).toBe('for Zoe\u{FFFD}');
    expect(own).toMatch(salt);
    expect(hashed.noteDigest).toBe(saltedDigest(String(own), String(note)));
    expect(hash).toBe(hashOf(hashed));
    expect(stepRow(newStep({ note: 'for Zoe' }), head).salt).not.toBe(own);
    expect(stepRow(newStep({ note: '' }), head)).toMatchObject({ note: '', salt: expect.stringMatching(salt) });
  });
});

describe('the newest seal', () => {
  test('is found for a batch, a row or a write by hand, and is never that of another', async () => {
    const { connection, tamper } = await openChain('one', 'two');
    tamper('DELETE FROM journal_steps');
    const about = [
      { batch: 'one', data: {}, digest: 'batch' },
      { batch: 'one', row: 2, digest: 'row 2' },
      { batch: 'one', row: 3, digest: 'row 3' },
      { batch: 'two', row: 2, digest: 'row 2 of two' },
      { data: { write: 1 }, digest: 'write 1' },
      { data: { write: 12 }, digest: 'write 12' },
      { data: { text: '"write":1' }, digest: 'text' },
      { data: { step: 1 }, digest: 'step 1' },
      { batch: 'one', data: { write: 3, step: 3 }, digest: 'newer batch' },
      { batch: 'one', row: 2, digest: 'newer row 2' },
      { batch: 'one', row: 2, digest: null },
      { data: { write: 1 } },
    ];
    await appendSteps(
      connection,
      about.map((fields) => newStep(fields)),
    );
    const sealed = (subject: Parameters<typeof newestSeal>[1]) => newestSeal(connection, subject);
    expect(await sealed({ batch: 'one', row: null })).toBe('newer batch');
    expect(await sealed({ batch: 'one', row: 2 })).toBe('newer row 2');
    expect(await sealed({ batch: 'one', row: 3 })).toBe('row 3');
    expect(await sealed({ batch: 'two', row: 2 })).toBe('row 2 of two');
    expect(await sealed({ write: 1 })).toBe('write 1');
    expect(await sealed({ write: 12 })).toBe('write 12');
    expect(await sealed({ step: 1 })).toBe('step 1');
    for (const nothing of [{ batch: 'two', row: null }, { batch: 'three', row: 2 }, { write: 2 }, { step: 3 }]) {
      expect(await sealed(nothing)).toBeUndefined();
    }
  });
});

describe('a batch', () => {
  test('that was altered outside the program gets no new seal, and the chain still shows it', async () => {
    const { journal, tamper } = await openChain('one');
    tamper("UPDATE journal_batches SET net = '500.00'");
    await journal.setBatchState('one', 'stopped');
    expect(await journal.verifyChain()).toMatchObject({ status: 'broken', problems: ['batch one was altered'] });
  });
});

describe('accounts', () => {
  test('are read by name, each as its newest step left it', async () => {
    const { people, file } = await newPeople();
    const connection = await connectionTo(file);
    expect(await accountRecords(connection)).toEqual([]);
    for (const name of ['zoe', 'ann', 'anna']) await people.add(newAccount(name));
    await people.setState('anna', 'disabled');
    const states = async (name?: string) =>
      (await accountRecords(connection, name)).map(({ account }) => `${account.name} ${account.state}`);
    expect(await states()).toEqual(['ann active', 'anna disabled', 'zoe active']);
    expect(await states('ann')).toEqual(['ann active']);
    expect(await states('an')).toEqual([]);
    // A sign-in is no change of the account, so its step is not the seal.
    await appendSteps(connection, [newStep({ kind: 'signed-in', data: { account: 'ann' }, digest: 'another' })]);
    expect(await states('ann')).toEqual(['ann active']);
    const [found] = await accountRecords(connection, 'ann');
    const row = await connection.selectFrom('people_accounts').selectAll().where('name', '=', 'ann').executeTakeFirst();
    expect(found?.row).toEqual(row);
  });

  test('that were altered outside the program are marked as altered and cannot be changed', async () => {
    const { people, file } = await newPeople();
    const connection = await connectionTo(file);
    for (const name of ['ann', 'anna']) await people.add(newAccount(name));
    await connection.updateTable('people_accounts').set({ roles: '["admin"]' }).where('name', '=', 'ann').execute();
    const accounts = (await accountRecords(connection)).map(({ account: { name, state } }) => `${name} ${state}`);
    expect(accounts).toEqual(['ann altered', 'anna active']);
    // Its columns may not even be readable.
    await connection
      .updateTable('people_accounts')
      .set({ roles: 'admin', osUsers: '5', createdBy: '', changedBy: '' })
      .execute();
    const unknown = { name: 'unknown', uid: null, host: '', sudoUser: null, job: null, account: null };
    expect((await accountRecords(connection, 'anna'))[0]?.account).toMatchObject({
      name: 'anna',
      state: 'altered',
      roles: [],
      osUsers: null,
      createdBy: unknown,
      changedBy: unknown,
    });
    await expect(people.setState('ann', 'disabled')).rejects.toMatchObject({
      message: expect.stringMatching(/account ann was altered outside this program/),
      advice: expect.stringContaining('people add'),
    });
  });
});
