import { Buffer } from 'node:buffer';
import { describe, expect, onTestFinished, test } from 'vitest';
import { planText, type PlanFormat, type QueryPlan } from '../../src/data/query.ts';
import { openReadingStore } from '../../src/store/reading.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';

async function plan(sql: string, format: PlanFormat = 'text'): Promise<string> {
  const store = openReadingStore(mirrorFile((database) => insertRows(database, 'users', madeUpUsers(3))));
  const snapshot = store.snapshot();
  onTestFinished(() => {
    snapshot.release();
    store.close();
  });
  return Buffer.from(planText(snapshot, sql, format)).toString();
}

describe('the plan of a query', () => {
  test('says which table is read completely, and which by an index', async () => {
    const sql =
      "SELECT users.id FROM coupons JOIN users ON users.id = coupons.notes WHERE discount_type = 'x' ORDER BY expires_at";
    expect(await plan(sql)).toBe(`├─ SCAN coupons (reads every row)
├─ SEARCH users USING INTEGER PRIMARY KEY (rowid=?)
└─ USE TEMP B-TREE FOR ORDER BY (sorts, so no row comes before all are read)

Reads every row of: coupons.
`);
  });

  test('says if no table is read completely', async () => {
    expect(await plan('SELECT * FROM users WHERE id = 1')).toContain('No table is read whole.');
    expect(await plan('SELECT 1')).toContain('No table is read whole.');
  });

  test('shows nested steps, and does not count parts of the query as tables', async () => {
    const text = await plan('WITH p AS MATERIALIZED (SELECT * FROM packages) SELECT * FROM p AS a, p AS b');
    expect(text).toMatch(/^├─ MATERIALIZE p\n│ {2}└─ SCAN packages \(reads every row\)\n/);
    const recursive = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n LIMIT 3';
    expect(await plan(recursive)).toContain('No table is read whole.');
  });

  test("is one JSON document if requested, with SQLite's own words", async () => {
    expect(JSON.parse(await plan('EXPLAIN QUERY PLAN SELECT * FROM coupons', 'json')) as QueryPlan).toEqual({
      steps: [{ detail: 'SCAN coupons', note: 'reads every row', steps: [] }],
      read_whole: ['coupons'],
    });
  });

  test.each([
    ['DELETE FROM users', 'only statements that read are run here'],
    ['SELECT 1; SELECT 2', 'more than one statement'],
    ['SELECT usrname FROM users', 'no such column: usrname'],
    ['', 'there is no SQL to run'],
  ])('is refused for %j', async (sql, message) => {
    await expect(plan(sql)).rejects.toThrow(message);
  });

  test('runs nothing, so that even an endless query has a plan', async () => {
    const endless = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT count(*) FROM n';
    expect(await plan(endless)).toContain('RECURSIVE STEP');
  });
});
