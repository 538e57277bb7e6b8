// @module-tag full
import { describe, expect, test } from 'vitest';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newUser } from '../support/bulk.ts';
import { invoke } from '../support/invoke.ts';
import { startConsole } from '../support/console.ts';
import { newAccount } from '../support/people.ts';
import { useBrowser } from './browser.ts';
import { clientSecret, startProvider } from './provider.ts';

const open = useBrowser();

/** A console with a provider, an account for anna, and a browser that keeps cookies and follows no redirects. */
async function signInWorld(more: Readonly<Record<string, string>> = {}, config?: string) {
  let url = '';
  const provider = await startProvider(() => `${url}/sign-in/oidc/callback`);
  const environment = {
    ADMIN_MIRROR_SERVE_OIDC_ISSUER: provider.issuer,
    ADMIN_MIRROR_SERVE_OIDC_CLIENT_ID: 'console',
    ADMIN_MIRROR_SERVE_OIDC_CLIENT_SECRET: clientSecret,
    ...more,
  };
  const console = await startConsole({ environment, ...(config === undefined ? {} : { config }) });
  url = console.url;
  await console.people.add(newAccount('anna@example.com', { roles: ['reader'] }));
  return { ...console, provider, visitor: visitor(url) };
}

/** A visitor with cookies by origin, who requests one page at a time. */
function visitor(url: string) {
  const jars = new Map<string, Map<string, string>>();
  const jarOf = (at: URL) => {
    const jar = jars.get(at.origin) ?? new Map<string, string>();
    jars.set(at.origin, jar);
    return jar;
  };
  const get = async (address: string, init: RequestInit = {}): Promise<Response> => {
    const at = new URL(address, url);
    const cookie = [...jarOf(at)].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(at, { redirect: 'manual', ...init, headers: { cookie, origin: url } });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '' || /expires=Thu, 01 Jan 1970/i.test(line)) jarOf(at).delete(name);
      else jarOf(at).set(name, value);
    }
    return response;
  };
  return {
    get: (address: string) => get(address),
    post: (path: string, form: Record<string, string>) =>
      get(path, { method: 'POST', body: new URLSearchParams(form) }),
    forget: (origin: string) => jars.delete(origin),
    cookieOf: (name: string) => jarOf(new URL(url)).get(name),
    /** Follows the button to the provider; returns the address by which it sends the browser back. */
    throughProvider: async (path = '/sign-in/oidc'): Promise<string> => {
      let address = path;
      for (let step = 0; step < 10; step += 1) {
        const at = new URL(address, url);
        if (at.pathname === '/sign-in/oidc/callback') return at.href;
        const response = await get(at.href);
        address = new URL(response.headers.get('location') ?? '', at).href;
      }
      throw new Error(`the provider leads nowhere: ${address}`);
    },
  };
}

const session = '__Host-admin-mirror';

describe('signing in by OpenID Connect', () => {
  test('works in a browser from the button to the requested page, and signs out again', async () => {
    const { url, provider } = await signInWorld();
    const { page, problems } = await open(url, {}, [provider.issuer]);
    await page.goto('/runs');
    await page.getByRole('link', { name: 'Sign in with localhost' }).click();
    await page.waitForURL('**/runs');
    expect(await page.getByRole('link', { name: 'anna@example.com' }).count()).toBe(1);
    expect(provider.logins).toEqual(['anna@example.com']);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('link', { name: 'Sign out there, too' }).waitFor();
    await page.goto('/runs');
    expect(new URL(page.url()).pathname).toBe('/sign-in');
    expect(problems).toEqual([]);
  });

  test('refuses a callback with another state, without its cookie, or for a second time', async () => {
    const { visitor: anna, url } = await signInWorld();
    const wrong = new URL(await anna.throughProvider());
    wrong.searchParams.set('state', 'guessed');
    const refused = await anna.get(wrong.href);
    expect({ status: refused.status, session: anna.cookieOf(session) }).toEqual({ status: 401, session: undefined });
    expect(await refused.text()).toContain('did not sign you in');

    const back = await anna.throughProvider();
    expect((await visitor(url).get(back)).status).toBe(401);
    expect((await anna.get(back)).status).toBe(200);
    expect(anna.cookieOf(session)).toMatch(/^[\w-]{43}$/);
    const again = await anna.get(back);
    expect({ status: again.status, text: await again.text() }).toEqual({
      status: 401,
      text: expect.stringContaining('this sign-in was already used'),
    });
  });

  test('creates no account', async () => {
    const { visitor: eve, provider } = await signInWorld();
    provider.signsIn('eve@example.com');
    const response = await eve.get(await eve.throughProvider());
    expect({ status: response.status, session: eve.cookieOf(session) }).toEqual({ status: 401, session: undefined });
    expect(await response.text()).toContain('there is no active account of that name');
  });

  test.each([
    ['of other letters that look the same', '\uFF41nna@example.com'],
    ['with a letter that becomes another one in lower case', 'an\uFF2Ea@example.com'],
    ['with spaces around it', ' anna@example.com'],
  ])('does not accept a name %s as that of an account', async (_, claim) => {
    const { visitor: eve, provider } = await signInWorld();
    provider.signsIn(claim);
    const response = await eve.get(await eve.throughProvider());
    expect({ status: response.status, session: eve.cookieOf(session) }).toEqual({ status: 401, session: undefined });
    expect(await response.text()).toContain('there is no active account of that name');
  });

  test('ignores upper and lower case', async () => {
    const { visitor: anna, provider } = await signInWorld();
    provider.signsIn('Anna@Example.com');
    expect((await anna.get(await anna.throughProvider())).status).toBe(200);
    expect(anna.cookieOf(session)).toMatch(/^[\w-]{43}$/);
  });

  test('does not sign in a disabled account', async () => {
    const { visitor: anna, people } = await signInWorld();
    await people.setState('anna@example.com', 'disabled');
    const response = await anna.get(await anna.throughProvider());
    expect(response.status).toBe(401);
    expect(await response.text()).toContain('there is no active account of that name');
  });

  test('does not accept an address that the provider has not verified', async () => {
    const { visitor: anna, provider } = await signInWorld();
    provider.signsIn('anna@example.com', false);
    const response = await anna.get(await anna.throughProvider());
    expect(response.status).toBe(401);
    expect(await response.text()).toContain('has not verified your email address');
  });

  test('takes an address, and whether it is verified, from one source', async () => {
    const { visitor: eve, provider } = await signInWorld();
    // The address of the ID token is not the one that the userinfo endpoint calls verified.
    for (const isVerified of [undefined, false]) {
      const inToken = {
        email: 'anna@example.com',
        ...(isVerified === undefined ? {} : { email_verified: isVerified }),
      };
      provider.signsIn('eve@example.com', true, inToken);
      const response = await eve.get(await eve.throughProvider());
      expect({ status: response.status, session: eve.cookieOf(session) }).toEqual({ status: 401, session: undefined });
      expect(await response.text()).toContain('has not verified your email address');
    }
    provider.signsIn('eve@example.com', false, { email: 'anna@example.com', email_verified: true });
    expect((await eve.get(await eve.throughProvider())).status).toBe(200);
  });

  test('reports that the provider is down, and still offers the password', async () => {
    const { visitor: anna, provider } = await signInWorld();
    await provider.goDown();
    const response = await anna.get('/sign-in/oidc');
    expect(response.status).toBe(503);
    expect(await response.text()).toContain('there is no working OpenID provider');
    expect((await anna.get('/sign-in')).status).toBe(200);
  });

  test('requires a new sign-in at the provider before an approval, by the same person', async () => {
    const { visitor: anna, provider, people } = await signInWorld();
    await anna.get(await anna.throughProvider());
    await anna.get(await anna.throughProvider('/sign-in/oidc?again=1&next=/me'));
    expect(provider.logins).toEqual(['anna@example.com', 'anna@example.com']);
    await people.add(newAccount('berta@example.com', { roles: ['reader'] }));
    anna.forget(provider.issuer);
    provider.signsIn('berta@example.com');
    const other = await anna.get(await anna.throughProvider('/sign-in/oidc?again=1&next=/me'));
    expect({ status: other.status, text: await other.text() }).toEqual({
      status: 401,
      text: expect.stringContaining('you are signed in here as anna@example.com, but there as berta@example.com'),
    });
  });
});

describe('an approval', () => {
  test('by an account without a password requires a new confirmation by the provider', async () => {
    const {
      visitor: anna,
      people,
      sandbox,
      folder,
    } = await signInWorld({}, 'bulk:\n  approval:\n    balance:\n      net: 4\n');
    await people.changeRoles('anna@example.com', { add: ['approver'], remove: [] });
    const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    writeFileSync(join(folder, 'credit.csv'), `user_id,type,amount,description\n${newUser(sandbox, 10)},add,5,x\n`);
    const planned = await invoke(['bulk', 'plan', 'balance', 'credit.csv', '--json'], { folder, environment });
    const { batch } = JSON.parse(planned.stdout) as { readonly batch: string };
    expect(await invoke(['bulk', 'submit', batch], { folder, environment })).toMatchObject({ code: 0 });
    await anna.get(await anna.throughProvider());
    const place = `/batches/${batch}`;
    const shown = await (await anna.get(place)).text();
    const hash = /name="hash" value="(\w+)"/.exec(shown)?.[1] ?? '';
    expect(shown).toContain('that it is you</a> first');
    expect((await anna.post(`${place}/approve`, { hash })).status).toBe(422);
    await anna.get(await anna.throughProvider(`/sign-in/oidc?again=1&next=${place}`));
    expect(await (await anna.get(place)).text()).toContain('has confirmed that it is you');
    expect((await anna.post(`${place}/approve`, { hash })).status).toBe(303);
    expect(await (await anna.get(place)).text()).toContain('approved');
  });
});

describe('the settings of the provider', () => {
  test('must be https, and name the console', async () => {
    const at = (environment: Readonly<Record<string, string>>) => startConsole({ environment });
    await expect(
      at({ ADMIN_MIRROR_SERVE_OIDC_ISSUER: 'http://id.example.com', ADMIN_MIRROR_SERVE_OIDC_CLIENT_ID: 'console' }),
    ).rejects.toThrow('is not https');
    await expect(at({ ADMIN_MIRROR_SERVE_OIDC_ISSUER: 'https://id.example.com' })).rejects.toThrow(
      'client_id is not set',
    );
  });
});
