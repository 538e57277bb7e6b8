/** Signing in by the provider of the settings, and being asked again by it before an approval. */
import { normalName } from '../../people/rules.ts';
import type { Account } from '../../model/account.ts';
import { authenticate } from '../../people/sign-in.ts';
import { html, type Html, problemTag, stateTag } from '../html.ts';
import { type Oidc, SignInFailed } from '../oidc.ts';
import type { ConsolePorts } from '../ports.ts';
import { actorOf, type Caller, notFound, type Reply, type Visit } from '../route.ts';
import { field, placeAfter, signInPage } from './sign-in.ts';

function oidcOf({ oidc }: ConsolePorts): Oidc {
  if (oidc === null) throw notFound('nobody signs in by another service here');
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

/** The way back from the provider. No session comes with it: for the browser it is still a request of another site. */
export async function oidcCallback(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const oidc = oidcOf(ports);
  const url = new URL(callbackOf(visit));
  url.search = visit.query.toString();
  try {
    const { name, next, again } = await oidc.finish(visit.ticket, url);
    const account = await accountOf(name, ports);
    if (again === null) {
      const actor = { ...ports.actor, account: account.name };
      const token = await ports.sessions.begin(account, { method: 'oidc', address: visit.address }, actor);
      return { kind: 'onward', to: next, cookie: { token } };
    }
    if (again.account !== account.name) {
      throw new SignInFailed(`you are signed in as ${again.account}, and confirmed as ${account.name}`);
    }
    oidc.confirm(again);
    return { kind: 'onward', to: next };
  } catch (error) {
    if (!(error instanceof SignInFailed)) throw error;
    return signInPage(visit, ports, problemTag(error.message, error.advice));
  }
}

/** The same words for an account that is not there and one that is disabled. */
async function accountOf(name: string, { people }: ConsolePorts): Promise<Account> {
  const known = normalName(name);
  const account = known === undefined ? undefined : await people.account(known);
  if (account?.state === 'active') return account;
  throw new SignInFailed(`you are signed in there as ${name}, and there is no active account of that name here`, {
    advice: 'An admin of the console can add it on the page People.',
  });
}

function isOidc({ session }: Caller): boolean {
  return session.method === 'oidc';
}

/**
 * What a form says where somebody proves once more who sits at the screen: the password, or that the provider has just
 * confirmed it. `here` is the page that the form stands on.
 */
export function proofTag({ caller, link }: Visit, { oidc }: ConsolePorts, here: string): Html {
  if (caller === null || oidc === null || !isOidc(caller)) return field('Your password', 'password', 'password');
  if (oidc.isConfirmed(caller.session.id))
    return html`${stateTag(`${oidc.name} has confirmed that it is you.`, 'good')}`;
  const to = link('/sign-in/oidc', { again: 1, next: here });
  return html`<a class="button quiet" href="${to}">Confirm with ${oidc.name} that it is you</a> first.`;
}

/** The account of the caller, who has proven it with the form. Throws a UsageError. */
export async function provenAccount({ caller, form }: Visit, ports: ConsolePorts): Promise<Account> {
  if (caller === null) throw notFound();
  const { account, session } = caller;
  if (isOidc(caller) && ports.oidc?.takeConfirmation(session.id) === true) return account;
  return authenticate(ports.people.by(actorOf(caller, ports)), account.name, form.get('password') ?? '');
}
