import { describe, expect, test } from 'vitest';
import { bulkWorld, creditFile, csv, made } from '../support/bulk-cli.ts';
import { newUser } from '../support/bulk.ts';

describe('the title of a batch', () => {
  test('is --name, or the name of the file, and is shown with the state in words and the amounts in the currency', async () => {
    const world = await bulkWorld();
    const { bulk } = world;
    const currency = { environment: { ...world.environment, ADMIN_MIRROR_BULK_CURRENCY: 'EUR' } };
    const { name } = creditFile(world, 3, '500', 'goodwill.csv');
    const named = await bulk(['plan', 'balance', name, '--name', ' Goodwill November '], currency);
    expect(named.stdout).toMatch(/^batch {5}\S+, Goodwill November$/m);
    expect(named.stdout).toContain('net       1,500.00 EUR, 3 users\n');
    expect(named.stdout).toMatch(/add 500\.00 EUR Credit +10\.00 EUR +510\.00 EUR /);
    await bulk(['plan', 'balance', creditFile(world, 1, '5', 'refunds.csv').name]);
    const { stdout } = await bulk(['status'], currency);
    expect(stdout.trim().split('\n')).toEqual([
      expect.stringMatching(/^\S+ {2}planned +refunds {2}balance {2}net 5\.00 EUR {2}1 planned {2}refunds\.csv$/),
      expect.stringMatching(
        /^\S+ {2}planned +Goodwill November {2}balance {2}net 1,500\.00 EUR {2}3 planned {2}goodwill\.csv$/,
      ),
    ]);
  });

  test('of a reversal names what it takes back, and both batches show each other', async () => {
    const world = await bulkWorld();
    const { bulk } = world;
    const { name } = creditFile(world, 2, '5', 'refunds.csv');
    const { batch } = (await bulk(['run', 'balance', name, '--yes', '--json'])).report();
    const reversal = (await bulk(['undo', batch, '--json'])).report();
    expect(reversal).toMatchObject({ title: 'Reversal of refunds', undo_of: batch });
    expect((await bulk(['status', batch])).stdout).toContain(`reversal  ${reversal.batch} (0 of 2 rows sent)`);
    await bulk(['apply', reversal.batch, '--yes']);
    const reversed = (await bulk(['status', batch])).stdout;
    expect(reversed).toContain('state     reversed\n');
    expect(reversed).toContain(`reversal  ${reversal.batch} (2 of 2 rows sent)`);
    expect((await bulk(['status', reversal.batch])).stdout).toContain(`reverses  ${batch}\n`);
  });
});

describe('`bulk run` after `bulk plan` of the same file', () => {
  test('goes on with that plan, and says so', async () => {
    const world = await bulkWorld();
    const { bulk, sandbox } = world;
    const { name } = creditFile(world, 2);
    const { batch } = (await bulk(['plan', 'balance', name, '--name', 'Goodwill', '--json'])).report();
    const run = await bulk(['run', 'balance', name, '--yes', '--json']);
    expect(run.report()).toMatchObject({ batch, title: 'Goodwill', state: 'done' });
    expect(run.stderr).toContain(`the plan still holds. Going on with batch ${batch}.`);
    expect(made(sandbox)).toBe(2);
    expect((await bulk(['status'])).stdout.trim().split('\n')).toHaveLength(1);
  });

  test.each(['another balance', 'another name', 'a plan that was discarded'])(
    'makes a new plan for %s',
    async (what) => {
      const world = await bulkWorld();
      const { bulk, sandbox, file } = world;
      const user = newUser(sandbox, 10);
      const name = file(`${csv}${user},add,5,Credit\n`);
      const { batch } = (await bulk(['plan', 'balance', name, '--json'])).report();
      if (what === 'another balance') sandbox.control.update('users', user, { balance: 11 });
      if (what === 'a plan that was discarded') await bulk(['discard', batch, '--reason', 'not now']);
      const more = what === 'another name' ? ['--name', 'Other'] : [];
      const run = await bulk(['run', 'balance', name, '--yes', '--json', ...more]);
      expect(run.report()).toMatchObject({ state: 'done' });
      expect(run.report().batch).not.toBe(batch);
    },
  );
});
