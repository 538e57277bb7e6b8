import { expect, test } from 'vitest';
import { newestActs } from '../../src/journal/acts.ts';
import type { AuditEntry } from '../../src/journal/audit.ts';
import { bulkWorld, creditFile } from '../support/bulk-cli.ts';

async function* newestFirst(steps: readonly AuditEntry[]): AsyncGenerator<AuditEntry> {
  yield* steps.toReversed();
}

test('each act is one line, whatever steps it took, and no step is lost', async () => {
  const world = await bulkWorld();
  const { bulk, command, sandbox } = world;
  const { users, name } = creditFile(world, 3);
  const { batch } = (await bulk(['run', 'balance', name, '--name', 'Goodwill', '--yes', '--json'])).report();
  const { batch: other } = (
    await bulk(['plan', 'balance', creditFile(world, 2, '7', 'b.csv').name, '--json'])
  ).report();
  await bulk(['discard', other, '--reason', 'not now']);
  sandbox.control.setBehaviour({ description_max: 9 });
  sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'PUT' } });
  const { batch: lost } = (
    await bulk(['run', 'balance', creditFile(world, 1, '8', 'c.csv').name, '--yes', '--json'])
  ).report();
  await bulk(['resolve', lost, '--row', '2', '--applied', '--reason', 'seen in the panel']);
  await command(['users', 'update-balance', String(users[0]), '--type', 'add', '--amount', '9', '--yes']);
  const { stdout } = await command(['audit', '--json']);
  const { steps } = JSON.parse(stdout) as { readonly steps: readonly AuditEntry[] };
  const { acts, isMore } = await newestActs(newestFirst(steps), steps.length, 'EUR');
  expect(acts.map(({ words }) => words)).toEqual([
    'planned Goodwill',
    'sent 3 rows of Goodwill',
    'planned b',
    'discarded b: not now',
    'planned c',
    'sent 1 row of c: 1 unknown',
    'said of row 2 of c: 1 applied',
    `changed the balance of user ${users[0]} by hand: add 9 EUR, done`,
  ]);
  expect([acts.reduce((sum, act) => sum + act.steps.length, 0), isMore]).toEqual([steps.length, false]);
  const { acts: last, isMore: wasMore } = await newestActs(newestFirst(steps), 2, 'EUR');
  expect([last.map(({ words }) => words), wasMore]).toEqual([[acts.at(-1)?.words], true]);
  expect(batch).not.toBe(other);
});
