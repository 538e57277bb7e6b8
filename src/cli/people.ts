/** `people`: manages accounts, their roles and passwords. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { namedColumns, tableText } from '../data/text-table.ts';
import { type Account, type Role, roles, actorText } from '../model/actor.ts';
import { suggestion, UsageError } from '../model/errors.ts';
import { wordsIn } from '../model/text.ts';
import { minuteOf, systemClock } from '../model/time.ts';
import { openPeople, openPeopleForReading } from '../people/open.ts';
import type { ListedAccount, People } from '../people/people.ts';
import { accountName, osUserName } from '../people/rules.ts';
import { addAccount, changePassword } from '../people/sign-in.ts';
import type { CliContext } from './context.ts';
import { printJson, printLines, printNote, printResult, tableRoom } from './output.ts';
import { newPassword } from './prompts.ts';

interface AddFlags {
  readonly role: readonly Role[];
  readonly osUser?: readonly string[] | false;
  readonly password: boolean;
}

interface RoleFlags {
  readonly add?: readonly Role[];
  readonly remove?: readonly Role[];
}

export function define(program: Command, context: CliContext): void {
  const people = program
    .command('people')
    .description(
      'Manage the accounts of people who check and approve batches and sign in to the console. They are kept in the journal, ' +
        'and each change is a step of its chain. If you need neither approvals nor the console, you need no accounts.',
    )
    .addHelpText(
      'after',
      `
Roles: ${roles.join(', ')}. docs/operating.md says what each may do, and who may change accounts.

Examples:
  admin-mirror people add anna --role maker,approver --os-user anna
  admin-mirror people add bert --role approver --no-os-user --no-password
  admin-mirror people password bert
  admin-mirror people role anna --add admin --remove maker
  admin-mirror people disable bert`,
    );
  people
    .command('add')
    .description(
      'Add an account. Its password, of at least 12 characters, is asked for on the terminal, or read as one line from ' +
        'standard input.',
    )
    .argument('<name>', 'letters a to z, digits, and . _ - @ +; upper and lower case are the same')
    .addOption(
      new Option('--role <roles>', 'what the person may do; several separated by commas')
        .choices(roles)
        .argParser(toRoles)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option('--os-user <names>', 'the system accounts that the person uses on the command line').argParser(
        toOsUsers,
      ),
    )
    .option('--no-os-user', 'the person uses no system account; an approver needs this flag or --os-user')
    .option('--no-password', 'set no password yet; `people password` sets it later')
    .action((name: string, flags: AddFlags) => add(context, name, flags));
  people
    .command('list')
    .description('List the accounts.')
    .action(() => list(context));
  people
    .command('disable')
    .description('Disable an account: nobody can sign in to it. What it did stays on record.')
    .argument('<name>', 'the account')
    .action((name: string) => change(context, (all) => all.setState(accountName(name), 'disabled')));
  people
    .command('enable')
    .description('Enable a disabled account again, with its roles and its password.')
    .argument('<name>', 'the account')
    .action((name: string) => change(context, (all) => all.setState(accountName(name), 'active')));
  people
    .command('role')
    .description('Give roles to an account, or take roles from it.')
    .argument('<name>', 'the account')
    .addOption(new Option('--add <roles>', 'roles to give, separated by commas').choices(roles).argParser(toRoles))
    .addOption(new Option('--remove <roles>', 'roles to take, separated by commas').choices(roles).argParser(toRoles))
    .action((name: string, flags: RoleFlags) => changeRoles(context, name, flags));
  people
    .command('os-user')
    .description('Set the system accounts that a person uses. Name all of them: they replace those named before.')
    .argument('<name>', 'the account')
    .argument('[users...]', 'what `id -un` prints for the person, or the number that `id -u` prints', toOsUsers)
    .option('--none', 'the person uses none')
    .action((name: string, users: readonly string[], flags: { readonly none?: true }) =>
      setOsUsers(context, name, users, flags.none === true),
    );
  people
    .command('password')
    .description(
      'Set the password of an account. It is asked for twice on the terminal, or read as one line from standard input.',
    )
    .argument('<name>', 'the account')
    .action((given: string) => {
      const name = accountName(given);
      return change(context, (all) => changePassword(all, name, () => newPassword(context, name)));
    });
}

async function add(context: CliContext, given: string, flags: AddFlags): Promise<void> {
  const name = accountName(given);
  const osUsers = flags.osUser === false ? [] : (flags.osUser ?? null);
  const ask = flags.password ? () => newPassword(context, name) : null;
  const account = await addAccount(await peopleOf(context), { name, roles: flags.role, osUsers }, ask);
  print(context, account);
  if (account.passwordAt === null) {
    printNote(
      context,
      `Next, ${name} sets the password: \`admin-mirror people password ${name}\`. Until then nobody can sign in to the account.`,
    );
  }
}

async function list(context: CliContext): Promise<void> {
  const people = await openPeopleForReading(context.settings(), systemClock, context.releases);
  const accounts = (await people?.accounts()) ?? [];
  if (context.json()) {
    const listed = accounts.map((each) => ({ ...documentOf(each), blocked_until: each.blockedUntil }));
    return printJson(context, { accounts: listed });
  }
  if (accounts.length === 0) return printNote(context, 'There are no accounts. `admin-mirror people add` adds one.');
  printLines(
    context,
    tableText(
      namedColumns('name, roles, state, os user, password, changed, by'),
      accounts.map(rowOf),
      tableRoom(context),
    ),
  );
}

function rowOf(account: ListedAccount): string[] {
  const { name, roles, state, osUsers, passwordAt, blockedUntil, changedAt, changedBy } = account;
  const wait = blockedUntil === null ? '' : `, locked until ${minuteOf(blockedUntil)} after wrong passwords`;
  const system = osUsers === null ? '?' : osUsers.join(', ') || 'none';
  const password = passwordAt === null ? 'none' : `of ${passwordAt.slice(0, 10)}`;
  return [name, roles.join(', '), `${state}${wait}`, system, password, minuteOf(changedAt), actorText(changedBy)];
}

async function changeRoles(context: CliContext, name: string, { add = [], remove = [] }: RoleFlags): Promise<void> {
  if (add.length + remove.length === 0) {
    throw new UsageError('no roles were named', { advice: 'Give --add ROLES, --remove ROLES or both.' });
  }
  const both = add.find((role) => remove.includes(role));
  if (both !== undefined) throw new UsageError(`${both} cannot be both added and removed`);
  await change(context, (people) => people.changeRoles(accountName(name), { add, remove }));
}

async function setOsUsers(context: CliContext, name: string, users: readonly string[], none: boolean): Promise<void> {
  if (none === users.length > 0) {
    const problem = none ? '--none means that there are no system accounts' : 'no system accounts were named';
    throw new UsageError(problem, { advice: 'Name them after the account, or give --none.' });
  }
  await change(context, (people) => people.setOsUsers(accountName(name), users));
}

async function change(context: CliContext, work: (people: People) => Promise<Account>): Promise<void> {
  print(context, await work(await peopleOf(context)));
}

function peopleOf(context: CliContext): Promise<People> {
  return openPeople(context.settings(), context.actor(), systemClock, context.releases);
}

function print(context: CliContext, account: Account): void {
  printResult(context, documentOf(account), linesOf(account));
}

function linesOf({ name, roles, state, osUsers, passwordAt }: Account): string[] {
  const system = osUsers === null ? 'not set' : osUsers.join(', ') || 'none';
  return [
    `account   ${name}, ${state}`,
    `roles     ${roles.join(', ') || 'none'}`,
    `os user   ${system}`,
    `password  ${passwordAt === null ? 'none' : `set on ${minuteOf(passwordAt)}`}`,
  ];
}

function documentOf({ name, roles, state, osUsers, passwordAt, ...more }: Account) {
  const created = { created_at: more.createdAt, created_by: more.createdBy };
  const changed = { changed_at: more.changedAt, changed_by: more.changedBy };
  return { name, roles, state, os_users: osUsers, password_at: passwordAt, ...created, ...changed };
}

/** Parses the text of a flag with roles, and adds them to those of the same flag given earlier. */
function toRoles(text: string, before: readonly Role[] = []): readonly Role[] {
  const given = wordsIn(text).map((name) => {
    const role = roles.find((each) => each === name.toLowerCase());
    if (role === undefined) throw new InvalidArgumentError(`There is no role "${name}". ${suggestion(name, roles)}`);
    return role;
  });
  if (given.length === 0) throw new InvalidArgumentError(`Name one or more of ${roles.join(', ')}.`);
  return [...before, ...given];
}

/** The same for --os-user. It overrides an earlier `--no-os-user`. */
function toOsUsers(text: string, before: readonly string[] | false = []): readonly string[] {
  return [...(before === false ? [] : before), ...wordsIn(text).map(osUserName)];
}
