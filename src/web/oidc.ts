/** Signing in by OpenID Connect: a provider only says who somebody is; only an active account of ours signs in by it. */
import { randomBytes } from 'node:crypto';
import * as client from 'openid-client';
import { fetch } from 'undici';
import { openDispatcher } from '../api/network.ts';
import { messageOf, UnreachableError, UsageError } from '../model/errors.ts';
import { isLoopback } from '../model/address.ts';
import type { Releases } from '../model/releases.ts';
import type { Secret } from '../model/secret.ts';
import { type Clock, minuteMs, secondMs } from '../model/time.ts';
import { networkOf, passwordIn } from '../settings/server.ts';
import type { Settings } from '../settings/settings.ts';

/** Who is asked for again, before an approval: only the same person, in the same session, confirms. */
interface Again {
  readonly account: string;
  readonly session: string;
}

interface Pending {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  readonly next: string;
  readonly again: Again | null;
  readonly until: number;
}

/** What the pages use of it. */
export type Oidc = NonNullable<ReturnType<typeof openOidc>>;

/** It went wrong on the way to the provider and back; the page of signing in says so. */
export class SignInFailed extends UsageError {}

const limits = {
  /** From the first page to the way back. */
  pendingMs: 10 * minuteMs,
  /** Between confirming and approving. */
  confirmedMs: 5 * minuteMs,
  /** The oldest go first. */
  pending: 1_000,
  requestSeconds: 10,
} as const;

interface OidcPorts {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly redact: (text: string) => string;
  readonly keepSecret: (word: string) => void;
}

/** The provider of the settings; null where there is none. Nothing is requested yet. Throws a UsageError. */
export function openOidc({ settings, clock, redact, keepSecret }: OidcPorts, releases: Releases) {
  const { issuer, clientId, claim } = settings.serve.oidc;
  if (issuer === undefined) return null;
  const server = new URL(issuer);
  if (server.protocol !== 'https:' && !isLoopback(server.hostname)) {
    throw new UsageError('serve.oidc.issuer is not https: whoever listens could sign in as somebody else', {
      advice: 'Give the https:// address of the provider.',
    });
  }
  if (clientId === undefined) {
    throw new UsageError('serve.oidc.client_id is not set', {
      advice: 'Register the console with the provider, and set the client id that it gives.',
    });
  }
  const secret = secretOf(settings);
  if (secret !== undefined) for (const word of [secret.reveal(), asSent(secret.reveal())]) keepSecret(word);
  const dispatcher = openDispatcher(server.href, networkOf(settings), {
    connectTimeoutMs: limits.requestSeconds * secondMs,
  });
  releases.add({ close: () => dispatcher.destroy() });
  const pending = new Map<string, Pending>();
  const confirmed = new Map<string, number>();

  let found: Promise<client.Configuration> | undefined;
  /** Asked for at the first need, and again until it was given. */
  function configuration(): Promise<client.Configuration> {
    found ??= client
      .discovery(
        server,
        String(clientId),
        undefined,
        secret === undefined ? client.None() : client.ClientSecretBasic(secret.reveal()),
        {
          timeout: limits.requestSeconds,
          [client.customFetch]: (url, options) =>
            fetch(url, { ...options, dispatcher } as Parameters<typeof fetch>[1]) as unknown as Promise<Response>,
          ...(server.protocol === 'http:' ? { execute: [client.allowInsecureRequests] } : {}),
        },
      )
      .catch((error: unknown) => {
        found = undefined;
        throw new UnreachableError(`the provider of sign-ins at ${server.origin} does not respond as one`, {
          advice: 'Sign in with your password, or try again later. `serve.oidc.issuer` says where the provider is.',
          cause: error,
        });
      });
    return found;
  }

  function isConfirmed(session: string): boolean {
    return (confirmed.get(session) ?? 0) > clock.now();
  }

  return {
    /** The provider, for the words on a button. */
    name: server.host,
    /** Where the browser is sent, and what it keeps until it comes back. */
    begin: async ({ callback, next, again }: Pick<Pending, 'next' | 'again'> & { readonly callback: string }) => {
      const config = await configuration();
      const verifier = client.randomPKCECodeVerifier();
      const [state, nonce] = [client.randomState(), client.randomNonce()];
      const address = client.buildAuthorizationUrl(config, {
        redirect_uri: callback,
        scope: 'openid email profile',
        state,
        nonce,
        code_challenge: await client.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...(again === null ? {} : { prompt: 'login', max_age: '0' }),
      });
      const now = clock.now();
      for (const [ticket, { until }] of pending) {
        if (until > now && pending.size < limits.pending) break;
        pending.delete(ticket);
      }
      const ticket = randomBytes(24).toString('base64url');
      pending.set(ticket, { state, nonce, verifier, next, again, until: now + limits.pendingMs });
      return { to: address.href, ticket };
    },
    /** What the provider's claim says, and what was begun. Throws a SignInFailed for anything else that comes back, or an UnreachableError. */
    finish: async (ticket: string | null, callback: URL) => {
      const began = pending.get(ticket ?? '');
      // Once: who comes back a second time with the same code gets nothing for it.
      pending.delete(ticket ?? '');
      if (began === undefined || began.until <= clock.now()) {
        throw new SignInFailed('this sign-in was used, took too long, or began in another browser', {
          advice: 'Begin again.',
        });
      }
      const config = await configuration();
      const claims = await claimsOf(config, callback, began).catch((error: unknown) => {
        throw new SignInFailed(`${server.host} did not sign you in: ${redact(reasonOf(error))}`, {
          advice: 'Begin again.',
          cause: error,
        });
      });
      const name = claims[claim];
      if (typeof name !== 'string' || name === '') {
        throw new SignInFailed(`${server.host} does not say your ${claim}, by which accounts are found here`, {
          advice: 'An admin of the console can name another claim in serve.oidc.claim.',
        });
      }
      if (claim === 'email' && claims['email_verified'] !== true) {
        throw new SignInFailed(`${server.host} does not vouch for your email address`, {
          advice: 'Confirm the address there. An admin of the console can name another claim in serve.oidc.claim.',
        });
      }
      return { name, next: began.next, again: began.again };
    },
    /** Somebody was asked again, and it was the same person. */
    confirm: ({ session }: Again): void => {
      for (const [each, until] of confirmed) if (until <= clock.now()) confirmed.delete(each);
      confirmed.set(session, clock.now() + limits.confirmedMs);
    },
    /** Whether the session was confirmed a moment ago. */
    isConfirmed,
    /** The same, once: the next approval wants it again. */
    takeConfirmation: (session: string): boolean => {
      const is = isConfirmed(session);
      confirmed.delete(session);
      return is;
    },
    /** Where somebody signs out of the provider, too; null where it has no such page. */
    signOutAddress: async (): Promise<string | null> => {
      const config = await configuration();
      return config.serverMetadata().end_session_endpoint === undefined ? null : client.buildEndSessionUrl(config).href;
    },
  };
}

/** What the provider says of the person: in the token, and where the claim is not there, on its page for that. */
async function claimsOf(config: client.Configuration, callback: URL, { state, nonce, verifier, again }: Pending) {
  const tokens = await client.authorizationCodeGrant(config, callback, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: verifier,
    idTokenExpected: true,
    // Signed in again just now; a minute is for clocks that differ.
    ...(again === null ? {} : { maxAge: 60 }),
  });
  const claims = tokens.claims();
  if (claims === undefined) throw new Error('it gave no token');
  if (config.serverMetadata().userinfo_endpoint === undefined) return { ...claims };
  return { ...(await client.fetchUserInfo(config, tokens.access_token, claims.sub)), ...claims };
}

/** In the words of the library and of the provider, which may say anything. */
function reasonOf(error: unknown): string {
  if (error instanceof client.AuthorizationResponseError || error instanceof client.ResponseBodyError) {
    return error.error_description ?? error.error;
  }
  return messageOf(error);
}

/** As it stands in the header that is sent: every sign but letters and digits is encoded. */
function asSent(secret: string): string {
  return encodeURIComponent(secret)
    .replaceAll(/[-_.!~*'()]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');
}

function secretOf({ serve: { oidc } }: Settings): Secret | undefined {
  if (oidc.clientSecret !== undefined || oidc.clientSecretFile === undefined) return oidc.clientSecret;
  const advice = 'Correct serve.oidc.client_secret_file, or set ADMIN_MIRROR_SERVE_OIDC_CLIENT_SECRET.';
  return passwordIn(oidc.clientSecretFile, 'file of the client secret', advice);
}
