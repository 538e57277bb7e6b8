/** A real provider of OpenID Connect on this machine; a test sets who signs in. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Provider } from 'oidc-provider';
import { onTestFinished } from 'vitest';

export const clientSecret = 'a secret of the provider and the console';

interface Claims {
  readonly email?: string;
  readonly email_verified?: boolean;
}

interface Person extends Claims {
  readonly email: string;
  /** What the ID token says, as opposed to the userinfo endpoint. */
  readonly inToken: Claims;
}

/**
 * Starts it for a console at that address, under another name of this machine, so that it is another site for a
 * browser.
 */
export async function startProvider(callback: () => string) {
  let person: Person = { email: 'anna@example.com', email_verified: true, inToken: {} };
  const logins: string[] = [];
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`;
  const client = { client_id: 'console', client_secret: clientSecret, redirect_uris: [] as string[] };
  let provider: Provider | undefined;

  /** Created at the first request: the console has no address before. */
  function made(): Provider {
    provider ??= new Provider(issuer, {
      clients: [{ ...client, redirect_uris: [callback()] }],
      claims: { email: ['email', 'email_verified'], profile: ['preferred_username'] },
      conformIdTokenClaims: false,
      cookies: { keys: ['only for a test'] },
      features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: true } },
      interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
      findAccount: (_context, id) => ({
        accountId: id,
        claims: (use) =>
          use === 'id_token'
            ? { sub: id, ...person.inToken }
            : { sub: id, email: id, email_verified: person.email_verified },
      }),
      // Users consent to share their data.
      loadExistingGrant: async (context) => {
        const { Grant } = context.oidc.provider;
        const grant = new Grant({
          clientId: String(context.oidc.client?.clientId),
          accountId: String(context.oidc.session?.accountId),
        });
        grant.addOIDCScope('openid email profile');
        await grant.save();
        return grant;
      },
    });
    return provider;
  }

  server.on('request', (request, response) => {
    if (request.url?.startsWith('/interaction/') === true) {
      logins.push(person.email);
      void made().interactionFinished(request, response, { login: { accountId: person.email } });
      return;
    }
    void made().callback()(request, response);
  });
  onTestFinished(() => void server.close());
  return {
    issuer,
    /** The names that had to sign in, in order. */
    logins,
    signsIn: (email: string, isVerified = true, inToken: Claims = {}) => {
      person = { email, email_verified: isVerified, inToken };
    },
    goDown: () =>
      new Promise<void>((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}
