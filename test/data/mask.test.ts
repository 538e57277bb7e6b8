// @module-tag full
import { describe, expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { mirroredFolder } from '../support/mirror.ts';

describe('--mask', () => {
  test.for([
    ['export', 'users'],
    ['export', 'users', '--meta', '--where', 'balance > 0', '--format', 'jsonl'],
    ['export', 'users_live_age'],
    ['export', '--sql', 'SELECT upper(email) AS status, username || id AS id FROM users'],
    ['query', 'SELECT * FROM users', '--format', 'csv'],
    ['query', 'SELECT email AS id FROM users', '--format', 'csv'],
    // SQLite names the columns of a compound statement after its first part.
    ['query', 'SELECT status FROM users UNION ALL SELECT username FROM users', '--format', 'csv'],
    ['query', 'WITH known (status) AS (SELECT email FROM users) SELECT max(status) FROM known', '--format', 'csv'],
  ])('removes personal data: %j', async (words) => {
    const { sandbox, folder } = await mirroredFolder();
    const texts = sandbox.control
      .dump('users')
      .flatMap(({ email, username, first_name: first }) => [email, username, first]);
    const said = async (...more: string[]): Promise<string[]> => {
      const { code, stdout } = await runCli([...words, ...more], { folder });
      expect(code).toBe(0);
      const lower = stdout.toLowerCase();
      return texts.map(String).filter((text) => text.length > 3 && lower.includes(text.toLowerCase()));
    };
    expect(await said('--mask')).toEqual([]);
    expect(await said()).not.toEqual([]);
  });

  test('keeps numbers, days, states and products', async () => {
    const { folder } = await mirroredFolder();
    const sql =
      'SELECT id, balance, status, created_at, substr(created_at, 1, 7) AS month, count(*) OVER () AS n FROM users';
    for (const words of [
      ['query', sql, '--format', 'csv'],
      ['export', 'packages', '--columns', 'id,name,service'],
    ]) {
      const plain = await runCli(words, { folder });
      const masked = await runCli([...words, '--mask'], { folder });
      expect(masked.stdout).toBe(plain.stdout);
    }
  });
});
