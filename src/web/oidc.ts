/** Signing in with OpenID Connect. The provider says who somebody is; the person still needs an active account of this program. */
import { randomBytes } from 'node:crypto';
import * as client from 'openid-client';
import { fetch } from 'undici';
import { openDispatcher } from '../api/transport.ts';
import { messageOf, UnreachableError, UsageError } from '../model/errors.ts';
import { isLoopback } from '../model/address.ts';
import type { Releases } from '../model/releases.ts';
import { type Clock, minuteMs, secondMs, steadyClock } from '../model/time.ts';
import { networkOf, secretIn } from '../settings/server.ts';
import type { Settings } from '../settings/settings.ts';

/** The person who must sign in at the provider again before an approval, in the same session. */
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

/** The OpenID provider, as the pages use it. */
export type Oidc = NonNullable<ReturnType<typeof openOidc>>;

/** Signing in at the provider failed. The sign-in page shows why. */
export class SignInFailed extends UsageError {}

const limits = {
  /** How long a person may take at the provider. */
  pendingMs: 10 * minuteMs,
  /** How long a confirmation is good for an approval. */
  confirmedMs: 5 * minuteMs,
  /** How many sign-ins may be under way; the oldest are forgotten first. */
  pending: 1_000,
  requestSeconds: 10,
} as const;

interface OidcPorts {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly redact: (text: string) => string;
  readonly keepSecret: (word: string) => void;
}

/** Opens the provider of the settings; null if none is set. Sends no request yet. Throws a UsageError. */
export function openOidc({ settings, clock: wallClock, redact, keepSecret }: OidcPorts, releases: Releases) {
  const clock = steadyClock(wallClock);
  const { issuer, clientId, clientSecret, clientSecretFile, claim } = settings.serve.oidc;
  if (issuer === undefined) return null;
  const server = new URL(issuer);
  if (server.protocol !== 'https:' && !isLoopback(server.hostname)) {
    throw new UsageError('serve.oidc.issuer is not https: somebody who listens could sign in as another person', {
      advice: 'Set the https:// address of the provider.',
    });
  }
  if (clientId === undefined) {
    throw new UsageError('serve.oidc.client_id is not set', {
      advice: 'Register the console with the provider, and set the client id that it gives you.',
    });
  }
  const secret = secretIn(clientSecret, clientSecretFile, 'serve.oidc.client_secret');
  if (secret !== undefined) for (const word of [secret.reveal(), asSent(secret.reveal())]) keepSecret(word);
  const dispatcher = openDispatcher(server.href, networkOf(settings), {
    connectTimeoutMs: limits.requestSeconds * secondMs,
  });
  releases.add({ close: () => dispatcher.destroy() });
  const pending = new Map<string, Pending>();
  const confirmed = new Map<string, number>();

  let found: Promise<client.Configuration> | undefined;
  /** Requests the configuration when it is first needed, and again after a failure. */
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
        throw new UnreachableError(`there is no working OpenID provider at ${server.origin}`, {
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
    /** The name of the provider, for buttons. */
    name: server.host,
    /** Begins a sign-in. Returns the address to open and the ticket that the browser must bring back. */
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
    /** Returns the name from the provider's claim, and what `begin` was called with. Throws a SignInFailed or an UnreachableError. */
    finish: async (ticket: string | null, callback: URL) => {
      const began = pending.get(ticket ?? '');
      // A ticket works once, so the same code cannot be used a second time.
      pending.delete(ticket ?? '');
      if (began === undefined || began.until <= clock.now()) {
        throw new SignInFailed('this sign-in was already used, took too long, or was begun in another browser', {
          advice: 'Begin again.',
        });
      }
      const config = await configuration();
      const claims = await claimsOf(config, callback, began, claim).catch((error: unknown) => {
        throw new SignInFailed(`${server.host} did not sign you in: ${redact(reasonOf(error))}`, {
          advice: 'Begin again.',
          cause: error,
        });
      });
      const name = claims[claim];
      if (typeof name !== 'string' || name === '') {
        throw new SignInFailed(`${server.host} did not send your ${claim}, which is needed to find your account`, {
          advice: 'An admin of the console can name another claim in serve.oidc.claim.',
        });
      }
      if (claim === 'email' && claims['email_verified'] !== true) {
        throw new SignInFailed(`${server.host} has not verified your email address`, {
          advice: 'Confirm the address there. An admin of the console can name another claim in serve.oidc.claim.',
        });
      }
      return { name, next: began.next, again: began.again };
    },
    /** Records that the person of this session has signed in again. */
    confirm: ({ session }: Again): void => {
      for (const [each, until] of confirmed) if (until <= clock.now()) confirmed.delete(each);
      confirmed.set(session, clock.now() + limits.confirmedMs);
    },
    /** Whether the session was confirmed a moment ago. */
    isConfirmed,
    /** The same, and uses the confirmation up: the next approval needs a new one. */
    takeConfirmation: (session: string): boolean => {
      const wasConfirmed = isConfirmed(session);
      confirmed.delete(session);
      return wasConfirmed;
    },
    /** The page that signs out of the provider, too; null if it has none. */
    signOutAddress: async (): Promise<string | null> => {
      const config = await configuration();
      return config.serverMetadata().end_session_endpoint === undefined ? null : client.buildEndSessionUrl(config).href;
    },
  };
}

/**
 * Returns the claims of the token if it has the one that names the account, else those of the provider's userinfo endpoint. Never
 * some of each: what one says about an address is not true of the address of the other.
 */
async function claimsOf(
  config: client.Configuration,
  callback: URL,
  { state, nonce, verifier, again }: Pending,
  claim: string,
): Promise<Readonly<Record<string, unknown>>> {
  const tokens = await client.authorizationCodeGrant(config, callback, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: verifier,
    idTokenExpected: true,
    // The person must have signed in just now. A minute allows for clocks that differ.
    ...(again === null ? {} : { maxAge: 60 }),
  });
  const claims = tokens.claims();
  if (claims === undefined) throw new Error('it sent no token');
  if (claim in claims || config.serverMetadata().userinfo_endpoint === undefined) return claims;
  return client.fetchUserInfo(config, tokens.access_token, claims.sub);
}

/** Returns the reason in the words of the library or the provider, which may be any text. */
function reasonOf(error: unknown): string {
  if (error instanceof client.AuthorizationResponseError || error instanceof client.ResponseBodyError) {
    return error.error_description ?? error.error;
  }
  return messageOf(error);
}

/** Returns the secret as the request header contains it, with everything but letters and digits encoded. */
function asSent(secret: string): string {
  return encodeURIComponent(secret)
    .replaceAll(/[-_.!~*'()]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
    .replaceAll('%20', '+');
}
