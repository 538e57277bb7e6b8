import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type CommandRow, groups } from '../../src/cli/commands.ts';
import { signIn } from '../../src/cli/prompts.ts';
import { withReleases } from '../../src/model/releases.ts';
import { systemClock } from '../../src/model/time.ts';
import { openPeople } from '../../src/people/open.ts';
import { enter } from '../support/dialogue.ts';
import { invoke } from '../support/invoke.ts';
import { newJournal } from '../support/journal.ts';
import { temporaryFolder, temporaryFolderNow } from '../support/temporary-folder.ts';

const password = 'tulip-Anchor 9 rivers';
const people = (folder: string, ...argv: readonly string[]) => invoke(['people', ...argv], { folder });

/** The contents of all files in the folder. */
function bytesIn(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile())
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'latin1'))
    .join('\n');
}

interface Listed {
  readonly name: string;
  readonly roles: readonly string[];
  readonly state: string;
  readonly os_users: readonly string[] | null;
  readonly password_at: string | null;
}

async function listed(folder: string): Promise<readonly Listed[]> {
  const { stdout } = await people(folder, 'list', '--json');
  return (JSON.parse(stdout) as { accounts: readonly Listed[] }).accounts;
}

describe('people', () => {
  test('adds accounts with a password from standard input, and records each change in the chain', async () => {
    const folder = temporaryFolder();
    const argv = ['people', 'add', 'Anna', '--role', 'approver,maker', '--role', 'admin', '--os-user', 'anna'];
    const added = await invoke(argv, { folder, input: `${password}\n`, environment: { SUDO_USER: 'olga' } });
    expect(added.code).toBe(0);
    expect(added.stdout).toMatch(/^account {3}anna, active\nroles {5}maker, approver, admin\nos user {3}anna\n/);
    const bert = await people(folder, 'add', 'bert', '--role', 'reader', '--no-password');
    expect(bert.stderr).toContain('people password bert');
    await people(folder, 'role', 'bert', '--add', 'operator,analyst', '--remove', 'reader');
    await people(folder, 'os-user', 'bert', 'bert,olga', '1002');
    await people(folder, 'disable', 'bert');
    expect(await listed(folder)).toMatchObject([
      { name: 'anna', roles: ['maker', 'approver', 'admin'], os_users: ['anna'], password_at: expect.any(String) },
      {
        name: 'bert',
        roles: ['analyst', 'operator'],
        state: 'disabled',
        os_users: ['1002', 'bert', 'olga'],
        password_at: null,
      },
    ]);
    await people(folder, 'enable', 'bert');
    const { stdout } = await people(folder, 'list');
    expect(stdout).toMatch(/^name +roles +state +os user +password +changed +by$/m);
    expect(stdout).toMatch(/^bert +analyst, operator +active +1002, bert, olga +none /m);
    const { journal } = await newJournal(undefined, join(folder, 'data/journal.db'));
    const entries = await Array.fromAsync(journal.audit({}));
    expect(entries.map(({ kind }) => kind)).toEqual([
      'account-added',
      'account-added',
      'account-roles',
      'account-os-users',
      'account-disabled',
      'account-enabled',
    ]);
    expect(entries[0]?.actor).toMatchObject({ sudoUser: 'olga' });
    expect(entries[1]?.note).toBe('bert: roles reader; os user not said');
    expect(entries[2]?.note).toBe('bert: added operator, analyst; removed reader');
    expect((await journal.verifyChain()).status).toBe('whole');
    expect(bytesIn(folder)).not.toContain(password);
    expect(statSync(join(folder, 'data/journal.db')).mode & 0o777).toBe(0o600);
  });

  // proves: password-input
  test(
    'asks for a password twice on a terminal, shows nothing of it, and lets it be corrected',
    { tags: 'full' },
    async () => {
      const folder = temporaryFolder();
      const { code, stdout, stderr } = await invoke(['people', 'add', 'anna', '--role', 'maker'], {
        folder,
        terminal: 200,
        answers: [
          ['New password of anna', `short${enter}`],
          ['shorter than 12', `er ${password}${enter}`],
          ['The same again', `short${enter}`],
          ['It is not the same', `er ${password}${enter}`],
        ],
      });
      expect(code).toBe(0);
      expect(stdout).toContain('password  set on');
      // Nor a sign per letter.
      expect(stdout + stderr).not.toMatch(/tulip|Anchor|rivers|[▪•*]{3}/);
      expect(bytesIn(folder)).not.toContain(password);
    },
  );

  test.each([
    [['add', 'anna'], '', "required option '--role <roles>' not specified"],
    [['add', 'anna', '--role', 'apprver'], '', 'Did you mean "approver"?'],
    [['add', 'an na', '--role', 'maker'], '', '"an na" cannot be the name of an account'],
    [['add', 'anna', '--role', 'approver'], password, 'which system account anna uses'],
    [['add', 'anna', '--role', 'maker'], '', 'standard input is empty; the new password of anna was expected on it'],
    [['add', 'anna', '--role', 'maker'], `${password}\n${password}\n`, 'more than one line'],
    [['add', 'anna', '--role', 'maker'], 'short\n', 'the password is shorter than 12 characters'],
    [['add', 'anna', '--role', 'maker'], 'I am Anna and so on', 'has the name of the account in it'],
    [['add', 'anna', '--role', 'maker', '--password', password], '', "unknown option '--password'"],
    [['role', 'anna'], '', 'no roles were named'],
    [['role', 'anna', '--add', 'maker', '--remove', 'maker'], '', 'cannot be both added and removed'],
    [['os-user', 'anna'], '', 'no system accounts were named'],
    [['os-user', 'anna', 'anna', '--none'], '', '--none means that there are no system accounts'],
    [['password', 'anna'], password, 'There are no accounts yet'],
  ])('ends with 2 for %j and says why', async (argv, input, words) => {
    const folder = temporaryFolder();
    const { code, stdout, stderr } = await invoke(['people', ...argv], { folder, input });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr.replaceAll('"', "'")).toContain(words.replaceAll('"', "'"));
    expect(stderr).not.toMatch(/tulip|short\b|at .*\.ts/);
    expect(await listed(folder)).toEqual([]);
  });
});

describe('sign-in on the command line', () => {
  /** A command that only signs in. */
  const commands: readonly CommandRow[] = [
    {
      name: 'enter',
      group: groups.about,
      summary: 'sign in',
      load: async () => ({
        define: (program, context) => {
          program
            .command('enter')
            .option('--as <name>', 'who')
            .action(async ({ as }: { readonly as?: string }) => {
              const account = await withReleases(async (releases) => {
                return signIn(
                  context,
                  await openPeople(context.settings(), context.actor(), systemClock, releases),
                  as,
                );
              });
              context.stdout.write(`${account.name} is in\n`);
            });
        },
      }),
    },
  ];
  const own = temporaryFolderNow();
  const folder = own.path;

  beforeAll(() => invoke(['people', 'add', 'anna', '--role', 'maker'], { folder, input: password }));
  afterAll(() => own.remove());

  test('asks for account and password on a terminal, and shows nothing of the password', async () => {
    const { code, stdout, stderr } = await invoke(['enter'], {
      folder,
      commands,
      terminal: 200,
      answers: [
        ['Your account', `Anna${enter}`],
        ['Password of Anna', `${password}${enter}`],
      ],
    });
    expect(stderr).not.toMatch(/tulip|[▪•*]{3}/);
    expect([code, stdout]).toEqual([0, 'anna is in\n']);
  });

  test(
    'takes the account from a flag and the password from standard input without a terminal',
    { tags: 'full' },
    async () => {
      const input = `${password}\n`;
      const { code, stdout } = await invoke(['enter', '--as', 'ANNA'], { folder, commands, input });
      expect([code, stdout]).toEqual([0, 'anna is in\n']);
      const nobody = await invoke(['enter'], { folder, commands, input });
      expect([nobody.code, nobody.stderr]).toEqual([2, expect.stringContaining('Name it with --as NAME')]);
    },
  );

  test('does not say whether the name or the password was wrong', { tags: 'full' }, async () => {
    const wrong = await invoke(['enter', '--as', 'anna'], { folder, commands, input: 'wrong-wrong-wrong' });
    const unknown = await invoke(['enter', '--as', 'eve'], { folder, commands, input: password });
    expect([wrong.code, wrong.stderr]).toEqual([2, unknown.stderr]);
    expect(wrong.stderr).toContain('the name or the password is wrong');
  });
});
