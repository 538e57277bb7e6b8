/** Accounts: their roles, states and sessions. src/people has the rules. */
import { type Account, isRole, type Role, roles, roleWords, actorText } from '../../model/actor.ts';
import { wordsIn } from '../../model/text.ts';
import type { ListedAccount } from '../../people/people.ts';
import { accountName, osUserName } from '../../people/rules.ts';
import { addAccount, changePassword } from '../../people/sign-in.ts';
import { anchor, buttonForm, choiceTags, html, type Html, textField, stateTag, tableTag, timeTag } from '../html.ts';
import { actorOf, type ConsolePorts, notFound, page, redirect, type Reply, type Visit } from '../route.ts';
import { newPasswordField, sessionColumns } from './sign-in.ts';

export async function peoplePage({ link, form }: Visit, ports: ConsolePorts): Promise<Reply> {
  const accounts = await ports.people.accounts();
  const body = html`${tableTag<ListedAccount>(
      'Accounts',
      [
        ['Name', ({ name }) => anchor(link(`/people/${name}`), name)],
        ['Roles', ({ roles: own }) => own.join(', ') || 'none'],
        ['State', stateOf],
        ['Password', ({ passwordAt }) => (passwordAt === null ? 'none' : timeTag(passwordAt))],
        ['Last change', ({ changedAt, changedBy }) => html`${timeTag(changedAt)}, ${actorText(changedBy)}`],
      ],
      accounts,
    )}
    <h2>Add an account</h2>
    <form method="post" action="${link('/people')}">
      ${textField('Name', 'name', html`required value="${form.get('name')}"`)}
      <fieldset>
        <legend>Roles</legend>
        ${choiceTags('role', roles, form.getAll('role'), roleWords)}
      </fieldset>
      ${textField('Operating-system accounts of the person, separated by commas; leave it empty if there are none', 'os_users', html`value="${form.get('os_users')}"`)}
      <p>${newPasswordField('First password')}</p>
      <button>Add</button>
    </form>`;
  return page('People', body);
}

function stateOf({ state, blockedUntil }: ListedAccount): Html {
  return state !== 'active' || blockedUntil === null
    ? stateTag(state)
    : html`${stateTag('waits')} until ${timeTag(blockedUntil)}`;
}

export async function accountPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const account = await accountOf(visit, ports);
  const { name, roles: own, osUsers, state } = account;
  const { link } = visit;
  const sessions = await ports.sessions.list(name);
  const at = (what: string) => link(`/people/${name}/${what}`);
  const listed = (await ports.people.accounts()).find((each) => each.name === name);
  const body = html`<p>
      ${listed === undefined ? stateTag(state) : stateOf(listed)}. Operating-system accounts: ${osUsersText(osUsers)}.
    </p>
    <form method="post" action="${at('roles')}">
      <fieldset>
        <legend>Roles</legend>
        ${choiceTags('role', roles, own, roleWords)}
      </fieldset>
      <button>Set the roles</button>
    </form>
    <form method="post" action="${at('os-users')}">
      ${textField('Operating-system accounts, separated by commas; leave it empty if there are none', 'os_users', html`value="${osUsers?.join(', ')}"`)}
      <button>Set these accounts</button>
    </form>
    <form method="post" action="${at('password')}">
      ${newPasswordField('New password')}
      <button>Set the password</button>
    </form>
    ${state === 'active' ? buttonForm(at('disable'), 'Disable the account', 'danger') : buttonForm(at('enable'), 'Enable the account')}
    <h2>Signed in</h2>
    ${tableTag('Sessions', sessionColumns, sessions, 'Nobody is signed in with this account.')}
    ${sessions.length === 0 ? null : buttonForm(at('sign-out'), 'End these sessions', 'quiet')}`;
  return page(name, body);
}

function osUsersText(osUsers: Account['osUsers']): string {
  if (osUsers === null) return 'not recorded';
  return osUsers.length === 0 ? 'none' : osUsers.join(', ');
}

async function accountOf({ params }: Visit, { people }: ConsolePorts): Promise<Account> {
  const account = await people.account(params['name'] ?? '');
  if (account === undefined) throw notFound('there is no such account');
  return account;
}

function osUsersIn(form: URLSearchParams): string[] {
  return wordsIn(form.get('os_users') ?? '').map(osUserName);
}

function rolesIn(form: URLSearchParams): Role[] {
  return form.getAll('role').filter(isRole);
}

export async function addPerson(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { form, link } = visit;
  const name = accountName(form.get('name') ?? '');
  const account = { name, roles: rolesIn(form), osUsers: osUsersIn(form) };
  await addAccount(ports.people.by(actorOf(visit, ports)), account, async () => form.get('new') ?? '');
  return redirect(link('/people'));
}

const changes: Readonly<
  Record<string, (people: ConsolePorts['people'], account: Account, form: URLSearchParams) => Promise<unknown>>
> = {
  roles: (people, { name, roles: own }, form) => {
    const chosen = rolesIn(form);
    return people.changeRoles(name, { add: chosen, remove: own.filter((role) => !chosen.includes(role)) });
  },
  'os-users': (people, { name }, form) => people.setOsUsers(name, osUsersIn(form)),
  password: (people, { name }, form) => changePassword(people, name, async () => form.get('new') ?? ''),
  disable: (people, { name }) => people.setState(name, 'disabled'),
  enable: (people, { name }) => people.setState(name, 'active'),
};

export async function changePerson(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const account = await accountOf(visit, ports);
  const actor = actorOf(visit, ports);
  const name = visit.params['change'] ?? '';
  const change = Object.hasOwn(changes, name) ? changes[name] : undefined;
  if (name === 'sign-out') await ports.sessions.end({ account: account.name }, actor);
  else if (change === undefined) throw notFound();
  else await change(ports.people.by(actor), account, visit.form);
  return redirect(visit.link(`/people/${account.name}`));
}
