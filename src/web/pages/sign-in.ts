/** Signing in and out, with a password or an OpenID provider; one's own account; and the proof of identity before an approval. */
import { type Account, hasRole, type Role, roleWords } from '../../model/actor.ts';
import { UsageError } from '../../model/errors.ts';
import { accountName, minPasswordLength, normalName } from '../../people/rules.ts';
import { addAccount, authenticate, changePassword, type Session, SignInRefused } from '../../people/sign-in.ts';
import type { FirstAccount } from '../open.ts';
import { buttonForm, type Column, factsTag, html, type Html, type Part, stateTag, tableTag, timeTag } from '../html.ts';
import { type Oidc, SignInFailed } from '../oidc.ts';
import { actorOf, callerOf, type ConsolePorts, notFound, page, redirect, type Reply, type Visit } from '../route.ts';

function field(label: string, name: string, type: 'text' | 'password', more: Part = null): Html {
  const autocomplete = type === 'password' ? 'current-password' : 'username';
  return html`<label
    >${label} <input type="${type}" name="${name}" required autocomplete="${autocomplete}" ${more}
  /></label>`;
}

/** A field for a new password. @param name `again` for the second field if the password must be typed twice */
export function newPasswordField(label: string, name: 'new' | 'again' = 'new'): Html {
  const least = name === 'new' ? `, at least ${minPasswordLength} characters` : '';
  return html`<label
    >${label}${least}
    <input type="password" name="${name}" required minlength="${minPasswordLength}" autocomplete="new-password"
  /></label>`;
}

export async function signInPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const next = visit.query.get('next') ?? visit.form.get('next') ?? '';
  // After a wrong password only that must be typed again.
  const name = visit.form.get('name') ?? '';
  const [atName, atPassword] = name === '' ? [html`autofocus`, null] : [html`value="${name}"`, html`autofocus`];
  const left = visit.query.get('left') === null ? null : await ports.oidc?.signOutAddress().catch(() => null);
  const body = html`${left === null || left === undefined ? null : html`<p class="note">You are signed out here, but still signed in at ${ports.oidc?.name}. <a href="${left}">Sign out there, too</a>.</p>`}
    <form method="post" action="${visit.link('/sign-in')}">
      <input type="hidden" name="next" value="${next}" />
      <p>${field('Name', 'name', 'text', atName)}</p>
      <p>${field('Password', 'password', 'password', atPassword)}</p>
      <button>Sign in</button>
    </form>
    ${ports.oidc === null ? null : html`<p><a class="button quiet" href="${visit.link('/sign-in/oidc', { next })}">Sign in with ${ports.oidc.name}</a></p>`}`;
  const isRefused = visit.refusal instanceof SignInRefused || visit.refusal instanceof SignInFailed;
  return page('Sign in', body, isRefused ? { status: 401 } : {});
}

export async function signIn(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { form, address } = visit;
  const people = ports.people.by(ports.actor);
  const account = await authenticate(people, form.get('name') ?? '', form.get('password') ?? '');
  const actor = { ...ports.actor, account: account.name };
  const token = await ports.sessions.begin(account, { method: 'password', address }, actor);
  return { kind: 'redirect', to: placeAfter(visit), cookie: { token } };
}

/** Where to go after signing in: only to a page of ours. A foreign address could be a trap (open redirect). */
function placeAfter({ form, query, link }: Visit): string {
  const next = form.get('next') ?? query.get('next') ?? '';
  return link(/^\/(?![/\\])[^\s\\]*$/.test(next) ? next : '/');
}

export async function signOut({ caller, link }: Visit, ports: ConsolePorts): Promise<Reply> {
  if (caller !== null) await ports.sessions.end({ id: caller.session.id }, actorOf({ caller }, ports));
  const left = caller?.session.method === 'oidc' ? 1 : null;
  return { kind: 'redirect', to: link('/sign-in', { left }), cookie: { token: null } };
}

export const sessionColumns: readonly Column<Session>[] = [
  ['Since', ({ createdAt }) => timeTag(createdAt)],
  ['Last request', ({ seenAt }) => timeTag(seenAt)],
  ['From', ({ address }) => address],
];

/** The caller's own account: roles, sessions, password. */
export async function ownPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { link } = visit;
  const { account, session } = callerOf(visit);
  const sessions = await ports.sessions.list(account.name);
  const body = html`<h2>Your roles</h2>
    ${account.roles.length === 0 ? html`<p>You have none. An admin can give you one on the page People.</p>` : factsTag(account.roles.map((role) => [role, roleWords[role]]))}
    <h2>Where you are signed in</h2>
    ${tableTag('Your sessions', [...sessionColumns, ['Browser', ({ id }) => (id === session.id ? 'this one' : 'another')]], sessions)}
    ${buttonForm(link('/me/sign-out-others'), 'End all but this one', 'quiet')}
    <h2>Password</h2>
    <form method="post" action="${link('/me/password')}">
      <p>${field('Current password', 'password', 'password')}</p>
      <p>${newPasswordField('New password')}</p>
      <p>${newPasswordField('New password again', 'again')}</p>
      <button>Change the password</button>
      <p class="soft">After that, you must sign in again everywhere.</p>
    </form>`;
  return page('Your account', body);
}

export async function endOtherSessions(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { account, session } = callerOf(visit);
  await ports.sessions.end({ account: account.name, except: session.id }, actorOf(visit, ports));
  return redirect(visit.link('/me'));
}

export async function changeOwnPassword(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { form, link } = visit;
  const { name } = callerOf(visit).account;
  const people = ports.people.by(actorOf(visit, ports));
  const password = form.get('new') ?? '';
  if (password !== form.get('again')) throw new UsageError('the two new passwords are not the same');
  await authenticate(people, name, form.get('password') ?? '');
  await changePassword(people, name, async () => password);
  return { kind: 'redirect', to: link('/sign-in'), cookie: { token: null } };
}

/** Lets the person with the link from the terminal create the first admin. */
export async function firstPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  await refuseSecond(ports);
  firstOf(visit, ports);
  const body = html`<p>
      There is no admin yet. This account gets every role except approver, because nobody may approve their own batches.
    </p>
    <form method="post" action="${visit.link(visit.path)}">
      <p>${field('Name', 'name', 'text', html`autofocus`)}</p>
      <p>${newPasswordField('Password')}</p>
      <p>${newPasswordField('The password again', 'again')}</p>
      <button>Create the account</button>
    </form>`;
  return page('The first account', body);
}

export async function addFirst(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  await refuseSecond(ports);
  const { form, address, link } = visit;
  const password = form.get('new') ?? '';
  if (password !== form.get('again')) throw new UsageError('the two passwords are not the same');
  const name = accountName(form.get('name') ?? '');
  const account = { name, roles: firstRoles, osUsers: null };
  const add = () => addAccount(ports.people.by(ports.actor), account, async () => password);
  const added = await firstOf(visit, ports).use(add);
  const token = await ports.sessions.begin(added, { method: 'link', address }, { ...ports.actor, account: name });
  return { kind: 'redirect', to: link('/'), cookie: { token } };
}

const firstRoles: readonly Role[] = ['reader', 'analyst', 'maker', 'operator', 'admin'];

/** Throws a NotFoundError if there is an admin: somebody may have added one on the command line meanwhile. */
async function refuseSecond({ people }: ConsolePorts): Promise<void> {
  const accounts = await people.accounts();
  if (accounts.some((each) => hasRole(each, 'admin'))) throw usedUp();
}

function firstOf({ path }: Visit, { first }: ConsolePorts): FirstAccount {
  if (first?.isOpen(path) === true) return first;
  throw usedUp();
}

const usedUp = () => notFound('this link was already used, or there is a newer one');

function oidcOf({ oidc }: ConsolePorts): Oidc {
  if (oidc === null) throw notFound('signing in with another service is not set up here');
  return oidc;
}

function callbackOf({ origin, link }: Visit): string {
  return `${origin}${link('/sign-in/oidc/callback')}`;
}

export async function oidcSignIn(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { caller, query } = visit;
  const wantsAgain = query.get('again') !== null && caller !== null;
  const again = wantsAgain ? { account: caller.account.name, session: caller.session.id } : null;
  const begun = await oidcOf(ports).begin({ callback: callbackOf(visit), next: placeAfter(visit), again });
  return { kind: 'redirect', to: begun.to, ticket: begun.ticket };
}

/** The page to which the provider sends the browser back. The browser sends no session cookie: the request comes from another site. */
export async function oidcCallback(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const oidc = oidcOf(ports);
  const url = new URL(callbackOf(visit));
  url.search = visit.query.toString();
  const { name, next, again } = await oidc.finish(visit.ticket, url);
  const account = await accountOf(name, ports);
  if (again === null) {
    const actor = { ...ports.actor, account: account.name };
    const token = await ports.sessions.begin(account, { method: 'oidc', address: visit.address }, actor);
    return { kind: 'onward', to: next, cookie: { token } };
  }
  if (again.account !== account.name) {
    throw new SignInFailed(`you are signed in here as ${again.account}, but there as ${account.name}`);
  }
  oidc.confirm(again);
  return { kind: 'onward', to: next };
}

/** Returns the active account of that name. Throws the same error whether the account is missing or disabled. */
async function accountOf(name: string, { people }: ConsolePorts): Promise<Account> {
  // Only ASCII: normalising would merge letters that look alike, but to the provider these are different people.
  const known = /^[\x21-\x7e]+$/.test(name) ? normalName(name) : undefined;
  const account = known === undefined ? undefined : await people.account(known);
  if (account?.state === 'active') return account;
  throw new SignInFailed(`you are signed in there as ${name}, but there is no active account of that name here`, {
    advice: 'An admin of the console can add it on the page People.',
  });
}

/** The part of a form on the page `here` in which a person proves again who they are: with the password or at the provider. */
export function proofTag(visit: Visit, { oidc }: ConsolePorts, here: string): Html {
  const { session } = callerOf(visit);
  if (oidc === null || session.method !== 'oidc') return field('Your password', 'password', 'password');
  if (oidc.isConfirmed(session.id)) return stateTag(`${oidc.name} has confirmed that it is you.`, 'good');
  const to = visit.link('/sign-in/oidc', { again: 1, next: here });
  return html`<a class="button quiet" href="${to}">Confirm with ${oidc.name} that it is you</a> first.`;
}

/** Checks that proof, and returns the caller's account. Throws a UsageError. */
export async function provenAccount(visit: Visit, ports: ConsolePorts): Promise<Account> {
  const { account, session } = callerOf(visit);
  if (session.method === 'oidc' && ports.oidc?.takeConfirmation(session.id) === true) return account;
  return authenticate(ports.people.by(actorOf(visit, ports)), account.name, visit.form.get('password') ?? '');
}
