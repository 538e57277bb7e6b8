/** Signing in and out, and what somebody may do with an account of their own. */
import type { Role } from '../../model/account.ts';
import { UsageError } from '../../model/errors.ts';
import { accountName, leastPassword } from '../../people/rules.ts';
import { addAccount, authenticate, changePassword, SignInRefused } from '../../people/sign-in.ts';
import { html, type Html, type Part, problemTag, tableTag, timeTag } from '../html.ts';
import type { FirstAccount } from '../first-account.ts';
import type { ConsolePorts } from '../ports.ts';
import { actorOf, notFound, page, redirect, type Reply, type Visit } from '../route.ts';

/** A field with its label. */
export function field(label: string, name: string, type: 'text' | 'password', more: Part = null): Html {
  const autocomplete = type === 'password' ? 'current-password' : 'username';
  return html`<label
    >${label} <input type="${type}" name="${name}" required autocomplete="${autocomplete}" ${more}
  /></label>`;
}

/** A password that is to be set; the form sends it as `new`. */
export function newPasswordField(label: string): Html {
  return html`<label
    >${label}, at least ${leastPassword} characters
    <input type="password" name="new" required minlength="${leastPassword}" autocomplete="new-password"
  /></label>`;
}

export async function signInPage(visit: Visit, ports: ConsolePorts, problem: Html | null = null): Promise<Reply> {
  const next = visit.query.get('next') ?? visit.form.get('next') ?? '';
  const left = visit.query.get('left') === null ? null : await ports.oidc?.signOutAddress().catch(() => null);
  const body = html`${problem}
    ${left === null || left === undefined ? null : html`<p class="note">You are signed out here, and still signed in at ${ports.oidc?.name}. <a href="${left}">Sign out there, too</a>.</p>`}
    <form method="post" action="${visit.link('/sign-in')}">
      <input type="hidden" name="next" value="${next}" />
      <p>${field('Name', 'name', 'text', html`autofocus`)}</p>
      <p>${field('Password', 'password', 'password')}</p>
      <button>Sign in</button>
    </form>
    ${ports.oidc === null ? null : html`<p><a class="button quiet" href="${visit.link('/sign-in/oidc', { next })}">Sign in with ${ports.oidc.name}</a></p>`}`;
  return page('Sign in', body, { status: problem === null ? 200 : 401 });
}

export async function signIn(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { form, address } = visit;
  try {
    const account = await authenticate(
      ports.people.by(ports.actor),
      form.get('name') ?? '',
      form.get('password') ?? '',
    );
    const actor = { ...ports.actor, account: account.name };
    const token = await ports.sessions.begin(account, { method: 'password', address }, actor);
    return { kind: 'redirect', to: placeAfter(visit), cookie: { token } };
  } catch (error) {
    if (!(error instanceof SignInRefused)) throw error;
    return signInPage(visit, ports, problemTag(error.message, error.advice));
  }
}

/** Only a page of ours: an address of elsewhere would be a way to lead people away. */
export function placeAfter({ form, query, link }: Visit): string {
  const next = form.get('next') ?? query.get('next') ?? '';
  return link(/^\/(?![/\\])[^\s\\]*$/.test(next) ? next : '/');
}

export async function signOut({ caller, link }: Visit, ports: ConsolePorts): Promise<Reply> {
  if (caller !== null) await ports.sessions.end({ id: caller.session.id }, actorOf(caller, ports));
  const left = caller?.session.method === 'oidc' ? 1 : null;
  return { kind: 'redirect', to: link('/sign-in', { left }), cookie: { token: null } };
}

/** The account of whoever asks: its roles, its sessions, its password. */
export async function ownPage(visit: Visit, ports: ConsolePorts, problem: Html | null = null): Promise<Reply> {
  const { caller, link } = visit;
  const account = caller?.account;
  const sessions = await ports.sessions.list(account?.name ?? '');
  const body = html`${problem}
    <p>Your roles are ${account?.roles.join(', ') ?? 'none'}.</p>
    <h2>Where you are signed in</h2>
    ${tableTag(
      'Your sessions',
      [
        { head: 'Since', cell: ({ createdAt }) => timeTag(createdAt) },
        { head: 'Last request', cell: ({ seenAt }) => timeTag(seenAt) },
        { head: 'From', cell: ({ address }) => address },
        { head: 'Browser', cell: ({ id }) => (id === caller?.session.id ? 'this one' : 'another') },
      ],
      sessions,
    )}
    <form method="post" action="${link('/me/sign-out-others')}">
      <button class="quiet">End all but this one</button>
    </form>
    <h2>Password</h2>
    <form method="post" action="${link('/me/password')}">
      <p>${field('Your password now', 'password', 'password')}</p>
      <p>${newPasswordField('The new one')}</p>
      <p>
        <label>The new one again <input type="password" name="again" required autocomplete="new-password" /></label>
      </p>
      <button>Change it</button>
      <p class="soft">You sign in again with the new one, everywhere.</p>
    </form>`;
  return page('Your account', body, { status: problem === null ? 200 : 422 });
}

export async function endOtherSessions({ caller, link }: Visit, ports: ConsolePorts): Promise<Reply> {
  if (caller !== null) {
    const { account, session } = caller;
    await ports.sessions.end({ account: account.name, except: session.id }, actorOf(caller, ports));
  }
  return redirect(link('/me'));
}

export async function changeOwnPassword(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { caller, form, link } = visit;
  if (caller === null) return redirect(link('/sign-in'));
  const people = ports.people.by(actorOf(caller, ports));
  try {
    const given = form.get('new') ?? '';
    if (given !== form.get('again')) throw new UsageError('the new password was not typed the same way twice');
    await authenticate(people, caller.account.name, form.get('password') ?? '');
    await changePassword(people, caller.account.name, async () => given);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return ownPage(visit, ports, problemTag(error.message, error.advice));
  }
  return { kind: 'redirect', to: link('/sign-in'), cookie: { token: null } };
}

/** Who has the link from the terminal makes the first admin, and is signed in. */
export function firstPage(visit: Visit, ports: ConsolePorts, problem: Html | null = null): Reply {
  checkFirst(visit, ports);
  const body = html`${problem}
    <p>There is no admin yet. This account gets every role but approver: nobody approves batches of their own.</p>
    <form method="post" action="${visit.link(visit.path)}">
      <p>
        <label>Name <input name="name" required autocomplete="username" autofocus /></label>
      </p>
      <p>${newPasswordField('Password')}</p>
      <p>
        <label>The password again <input type="password" name="again" required autocomplete="new-password" /></label>
      </p>
      <button>Make the account</button>
    </form>`;
  return page('The first account', body, { status: problem === null ? 200 : 422 });
}

export async function addFirst(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const first = checkFirst(visit, ports);
  const { form, address, link } = visit;
  try {
    const given = form.get('new') ?? '';
    if (given !== form.get('again')) throw new UsageError('the password was not typed the same way twice');
    const name = accountName(form.get('name') ?? '');
    const account = { name, roles: firstRoles, osUsers: null };
    const added = await addAccount(ports.people.by(ports.actor), account, async () => given);
    first.use();
    const token = await ports.sessions.begin(added, { method: 'link', address }, { ...ports.actor, account: name });
    return { kind: 'redirect', to: link('/'), cookie: { token } };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return firstPage(visit, ports, problemTag(error.message, error.advice));
  }
}

const firstRoles: readonly Role[] = ['reader', 'analyst', 'maker', 'operator', 'admin'];

function checkFirst({ params }: Visit, { first }: ConsolePorts): FirstAccount {
  if (first?.isOpen(params['token'] ?? '') === true) return first;
  throw notFound('this link was used, or is not the newest');
}
