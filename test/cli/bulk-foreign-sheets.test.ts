/** Sheets as other programs write them, and our own results handed in again, planned on the command line. */
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bulkWorld, made } from '../support/bulk-cli.ts';
import { projectFolder } from '../support/documents.ts';

const others = join(projectFolder, 'test/fixtures/sheets/others');

async function worldWith(name: string) {
  const world = await bulkWorld();
  for (let id = 6; id <= 10; id += 1)
    world.sandbox.control.insert('users', { id, username: `user.${id}`, balance: 10 });
  copyFileSync(join(others, name), join(world.folder, name));
  return { ...world, plan: () => world.bulk(['plan', 'balance', name, '--json']) };
}

describe('a sheet of another program', () => {
  test('may write ids as pandas does', async () => {
    const { plan } = await worldWith('pandas-ids.csv');
    const { code, report } = await plan();
    expect([code, report().net]).toEqual([0, '17.50']);
  });

  test.each([
    ['shown-in-thousands.xlsx', 'amount', /the file holds "5000", and its format shows something else/],
    ['padded-name.xlsx', 'username', /the number "7" is shown in another form/],
  ])('is refused if it shows something else than it holds: %s', async (name, column, problem) => {
    const { plan, sandbox } = await worldWith(name);
    const { code, report } = await plan();
    expect(code).toBe(2);
    expect(report().problems).toContainEqual(
      expect.objectContaining({ column, problem: expect.stringMatching(problem) }),
    );
    expect(made(sandbox)).toBe(0);
  });
});

describe('results that are planned again', () => {
  test.each([
    ['balance', 'formulas-as-text.csv', 'description'],
    ['email', 'html-mail.csv', 'subject'],
  ])('send each text of %s as it was, without the guard that our file has', async (action, name, column) => {
    const world = await worldWith(name);
    const { bulk, folder, sandbox } = world;
    const run = async (file: string, more: string[] = []) => {
      const { code, report, stderr } = await bulk(['run', action, file, '--yes', '--json', ...more]);
      expect([code, stderr]).toEqual([0, expect.any(String)]);
      return report().batch;
    };
    // Each row has a mark of its own, at the end of one of its texts.
    const mark = / am:\S+$|\n?<!-- am:\S+ -->/g;
    const sent = () => sandbox.control.ledger().map(({ user_id: user, body }) => [user, plain(body)]);
    const plain = (body: Readonly<Record<string, unknown>>) =>
      Object.fromEntries(
        Object.entries(body).map(([key, value]) => [key, typeof value === 'string' ? value.replace(mark, '') : value]),
      );
    const batch = await run(name);
    const first = sent();
    expect((await bulk(['results', batch, '-o', 'out'])).code).toBe(0);
    // The guard is there, as long as a spreadsheet program may open the file.
    expect(readFileSync(join(folder, 'out/applied.csv'), 'utf8')).toMatch(/(?:^|[,;"\n])'[-+=@]/m);
    await run('out/applied.csv', ['--again', '--reason', 'once more']);
    expect(sent().slice(first.length)).toEqual(first);
    expect(first[0]?.[1]).toHaveProperty(column);
  });
});
