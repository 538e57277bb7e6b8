import { expect, test } from 'vitest';
import { rowsOf } from '../support/rows.ts';
import { newMirror, sync } from '../support/mirror.ts';

function planOf(file: string, sql = 'SELECT * FROM emails WHERE user_id = 5'): string {
  const plan = rowsOf<{ detail: string }>(file, `EXPLAIN QUERY PLAN ${sql}`);
  return plan.map(({ detail }) => detail).join();
}

test('the emails of a user are found by an index only once all emails were read', async () => {
  const { sandbox, file } = await newMirror({ emails: 40 });
  sandbox.control.setBehaviour({ forbidden: 'emails' });
  await sync(sandbox, file);
  expect(planOf(file)).toBe('SCAN emails');
  sandbox.control.setBehaviour({ forbidden: '' });
  await sync(sandbox, file);
  expect(planOf(file)).toBe('SEARCH emails USING INDEX emails_user_id (user_id=?)');
  // Users were readable from the beginning.
  expect(planOf(file, 'SELECT * FROM users ORDER BY balance DESC LIMIT 5')).toBe(
    'SCAN users USING INDEX users_balance',
  );
  // Another run does not add it again.
  await sync(sandbox, file);
  expect(rowsOf(file, "SELECT name FROM sqlite_schema WHERE name = 'emails_user_id'")).toHaveLength(1);
});
