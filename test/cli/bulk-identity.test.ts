/** Whose email is it? However an address or a name is written, it names one user or nobody. */
import { describe, expect, test } from 'vitest';
import { behindProxy } from '../support/altering-proxy.ts';
import { bulkWorld, type BulkWorld, made } from '../support/bulk-cli.ts';
import { newUser } from '../support/bulk.ts';
import { sample } from '../support/part.ts';

const header = (column: string): string => `${column},type,amount\n`;
const row = (name: string): string => `"${name}",add,5\n`;

/** Two users who have the address or the name in these spellings. */
function usersNamed({ sandbox }: BulkWorld, column: string, names: readonly string[]): number[] {
  return names.map((name) => {
    const user = newUser(sandbox, 10);
    sandbox.control.update('users', user, { [column]: name });
    return user;
  });
}

const nfd = (text: string): string => text.normalize('NFD');

describe('a name that two users share in other spellings names nobody', () => {
  const cases = (['with', 'without'] as const).flatMap((mirror) =>
    (
      [
        ['email', ['Dup.Case@example.com', 'dup.case@example.com'], ['DUP.CASE@example.com', 'Dup.Case@example.com']],
        ['email', ['Dup.Case@example.com', 'dup.case@example.com'], ['DUP.CASE@example.com']],
        ['email', ['Dup.Case@example.com', 'dup.case@example.com'], ['Dup.Case@example.com']],
        ['email', ['DUP.CASE@example.com', 'Dup.case@example.com'], ['Dup.case@example.com']],
        ['email', ['Dup.Case@example.com', 'dup.case@example.com'], ['dup.case@example.com']],
        ['email', ['josé@example.com', nfd('josé@example.com')], ['josé@example.com']],
        ['email', ['josé@example.com', nfd('José@example.com')], [nfd('JOSÉ@example.com')]],
        ['username', ['Dup.Case', 'dup.case'], ['DUP.CASE', 'Dup.Case']],
        ['username', ['Åsa', nfd('åsa')], ['ÅSA']],
        ['username', ['anna', ' anna '], ['anna']],
      ] as const
    ).map((each) => [mirror, ...each] as const),
  );

  test.each(sample(cases, 12))('%s a mirror: %s of %j, in a sheet as %j', async (mirror, column, names, rows) => {
    const world = await bulkWorld();
    const { command, bulk, file, sandbox } = world;
    const ids = usersNamed(world, column, names);
    if (mirror === 'with') await command(['sync']);
    const { code, stdout } = await bulk([
      'run',
      'balance',
      file(header(column) + rows.map(row).join('')),
      '--yes',
      '--json',
    ]);
    const several = expect.stringMatching(`^several users have the ${column} .*: ${ids.join(', ')}$`) as string;
    const { problems } = JSON.parse(stdout) as { problems: unknown[] };
    expect([code, problems, made(sandbox)]).toEqual([
      2,
      rows.map((_, at) => ({ row: at + 2, column, problem: several })),
      0,
    ]);
  });
});

test('a server whose search ignores case shows both, without a mirror', async () => {
  const world = await bulkWorld();
  const { sandbox, bulk, file, environment } = world;
  const ids = usersNamed(world, 'email', ['Dup.Case@example.com', 'dup.case@example.com', 'One@example.com']);
  const users = ids.map((id) => sandbox.control.get('users', id) ?? {});
  const { url } = await behindProxy(sandbox, ({ path, body }) => {
    const wanted = new URL(path, 'http://x').searchParams.get('filter[email]')?.toLowerCase();
    if (wanted === undefined) return {};
    const data = users.filter(({ email }) => String(email).toLowerCase() === wanted);
    return { body: JSON.stringify({ ...(JSON.parse(body) as object), data, total: data.length }) };
  });
  const rows = ['DUP.CASE@example.com', 'Dup.Case@example.com', 'ONE@example.com'].map(row).join('');
  const { report } = await bulk(['plan', 'balance', file(header('email') + rows), '--json'], {
    environment: { ...environment, ADMIN_MIRROR_BASE_URL: url },
  });
  const several = expect.stringMatching(/^several users have the email/) as string;
  expect(report()).toMatchObject({
    counts: { planned: 1, invalid: 2 },
    problems: [2, 3].map((at) => ({ row: at, column: 'email', problem: several })),
  });
});

test('one user in two spellings is one user: the second row is noticed as doing the same', async () => {
  const world = await bulkWorld();
  const { bulk, file } = world;
  usersNamed(world, 'email', ['José@example.com']);
  const rows = ['José@example.com', nfd('josé@EXAMPLE.com')].map(row).join('');
  const { code, report } = await bulk(['plan', 'balance', file(header('email') + rows), '--json']);
  expect([code, report().warnings]).toEqual([0, ['row 3 does the same as row 2']]);
});

describe('a new user', () => {
  const columns = 'first_name,last_name,username,email\n';

  test.each([
    ['email', 'other', nfd('JOSÉ@example.com')],
    ['username', nfd('Åsa'), 'other@example.com'],
  ])('is not made with an %s that somebody has in another spelling', async (column, username, email) => {
    const world = await bulkWorld();
    const { sandbox, bulk, file, command } = world;
    const [user = 0] = usersNamed(world, 'email', ['José@example.com']);
    sandbox.control.update('users', user, { username: 'åsa' });
    await command(['sync']);
    const { code, report } = await bulk(['plan', 'create', file(`${columns}A,B,${username},${email}\n`), '--json']);
    const problem = expect.stringMatching(`^user ${user} has the ${column} .* already$`) as string;
    expect([code, report().problems]).toEqual([2, [{ row: 2, column, problem }]]);
  });

  test('is not made twice by two spellings in one sheet, nor with a name that several have', async () => {
    const world = await bulkWorld();
    const { bulk, file } = world;
    usersNamed(world, 'email', ['Dup.Case@example.com', 'dup.case@example.com']);
    const rows = ['a,josé@example.com', `b,${nfd('José@example.com')}`, 'c,DUP.CASE@example.com'];
    const text = columns + rows.map((each) => `A,B,${each}\n`).join('');
    const { code, report } = await bulk(['plan', 'create', file(text), '--json']);
    expect([code, report().problems]).toEqual([
      2,
      [
        { row: 3, column: 'email', problem: 'row 2 makes a user with the same' },
        { row: 4, column: null, problem: expect.stringMatching(/^several users have the email/) as string },
      ],
    ]);
  });
});

test('forget finds a user by any spelling, and nobody by one that two users share', async () => {
  const world = await bulkWorld();
  const { command } = world;
  usersNamed(world, 'email', ['Dup.Case@example.com', 'dup.case@example.com', 'José@example.com']);
  await command(['sync']);
  expect(await command(['forget', 'DUP.CASE@example.com', '--yes'])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/is of several users/) as string,
  });
  expect(await command(['forget', nfd('JOSÉ@example.com'), '--yes'])).toMatchObject({ code: 0 });
});
