import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { formsOf } from '../../src/model/secret.ts';
import { hourMs } from '../../src/model/time.ts';
import { sessionLimits } from '../../src/people/sign-in.ts';
import { startConsole } from '../support/console.ts';
import { newAccount } from '../support/people.ts';
import { invoke } from '../support/invoke.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { listening } from '../support/listening.ts';

const password = 'correct horse battery staple';

describe('the first account', () => {
  test('is created with the one-time link from the terminal, and is signed in', async () => {
    const { browser, first, people } = await startConsole({ isFirst: true });
    const { get, post } = await browser('nobody', null);
    expect((await get('/first/guessed')).status).toBe(404);
    expect(await (await get(first?.path ?? '')).text()).toContain('The first account');
    expect((await post(first?.path ?? '', { name: 'Anna', new: 'short', again: 'short' })).status).toBe(422);
    const made = await post(first?.path ?? '', { name: 'Anna', new: password, again: password });
    expect(made.status).toBe(303);
    const cookie = made.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect(await (await get('/', { cookie })).text()).toContain('anna');
    expect((await people.account('anna'))?.roles).toContain('admin');
    expect((await post(first?.path ?? '', { name: 'eve', new: password, again: password })).status).toBe(404);
  });

  test('is created once if two use the link at once, and not at all if an admin was added meanwhile', async () => {
    const { browser, first, people } = await startConsole({ isFirst: true });
    const { post } = await browser('nobody', null);
    const make = (name: string) => post(first?.path ?? '', { name, new: password, again: password });
    const made = await Promise.all(['anna', 'eve'].map(make));
    expect(new Set(made.map(({ status }) => status))).toEqual(new Set([303, 404]));
    const other = await startConsole({ isFirst: true });
    const late = await other.browser('nobody', null);
    await other.people.add(newAccount('root', { roles: ['admin'] }));
    expect((await late.get(other.first?.path ?? '')).status).toBe(404);
    const tried = { name: 'eve', new: password, again: password };
    expect((await late.post(other.first?.path ?? '', tried)).status).toBe(404);
    expect(await people.accounts()).toHaveLength(1);
  });
});

describe('signing in', () => {
  test('is offered to a form whose session has ended, with a note that nothing was done', async () => {
    const { browser } = await startConsole();
    const { post } = await browser('nobody', null);
    const late = await post('/runs', { run: 'sync' });
    expect(late.status).toBe(401);
    expect(await late.text()).toMatch(
      /Your session may have ended\. Nothing was done[^]*href="\/sign-in\?next=%2Fruns"/,
    );
  });

  test(
    'sets a cookie for this host alone that scripts cannot read, and redirects to the requested page',
    { tags: 'full' },
    async () => {
      const { browser, first } = await startConsole({ isFirst: true });
      const { post, get } = await browser('nobody', null);
      await post(first?.path ?? '', { name: 'anna', new: password, again: password });
      const away = await get('/runs?status=failed');
      expect(away.headers.get('location')).toBe('/sign-in?next=%2Fruns%3Fstatus%3Dfailed');
      const refused = await post('/sign-in', { name: 'anna', password: 'wrong' });
      expect(refused.status).toBe(401);
      expect(await refused.text()).toMatch(/name="name"[^>]*value="anna"/);
      const next = '/runs?status=failed';
      const signedIn = await post('/sign-in', { name: 'Anna', password, next });
      expect(signedIn.headers.get('location')).toBe(next);
      expect(signedIn.headers.get('set-cookie')).toMatch(
        /^__Host-admin-mirror=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
      );
      const elsewhere = await post('/sign-in', { name: 'anna', password, next: '//evil.example/' });
      expect(elsewhere.headers.get('location')).toBe('/');
      // A header cannot hold either of these characters unescaped.
      const odd = await post('/sign-in', { name: 'anna', password, next: '/data/users?value=中\u0001' });
      expect(odd.status).toBe(303);
      expect(odd.headers.get('location')).toBe('/data/users?value=%E4%B8%AD%01');
    },
  );
});

describe('a session', () => {
  test('ends after an hour without a request, and after twelve hours in any case', { tags: 'full' }, async () => {
    let now = sandboxNow;
    const { browser } = await startConsole({ clock: { now: () => now } });
    const idle = await browser('idle', ['reader']);
    const busy = await browser('busy', ['reader']);
    const status = async ({ get }: typeof idle): Promise<number> => (await get('/')).status;
    now += sessionLimits.idleMs - 1;
    expect([await status(busy), await status(idle)]).toEqual([200, 200]);
    for (let spent = now - sandboxNow; spent < sessionLimits.absoluteMs - hourMs; spent += hourMs / 2) {
      now += hourMs / 2;
      expect(await status(busy)).toBe(200);
    }
    expect(await status(idle)).toBe(303);
    now = sandboxNow + sessionLimits.absoluteMs;
    expect(await status(busy)).toBe(303);
  });

  test('ends if the account is disabled, its password changes, it signs out, or an admin ends it', async () => {
    const { browser, people } = await startConsole();
    const admin = await browser('boss', ['admin']);
    for (const [name, end] of Object.entries({
      disabled: () => people.setState('disabled', 'disabled'),
      changed: () => people.setPassword('changed', 'no hash'),
      ended: () => admin.post('/people/ended/sign-out'),
    })) {
      const { get } = await browser(name, ['reader']);
      expect((await get('/')).status).toBe(200);
      await end();
      expect((await get('/')).status).toBe(303);
    }
    // A kept cookie does not become valid again with the account.
    const { get } = await browser('back', ['reader']);
    await people.setState('back', 'disabled');
    await people.setState('back', 'active');
    expect((await get('/')).status).toBe(303);
    const own = await browser('own', ['reader']);
    await own.post('/sign-out');
    expect((await own.get('/')).status).toBe(303);
  });
});

/** A provider that echoes what it receives and signs nobody in. */
async function echoingProvider(): Promise<string> {
  const server = createServer((request, response) => {
    const { authorization = '' } = request.headers;
    const said = `${Buffer.from(authorization.replace('Basic ', ''), 'base64').toString()} ${authorization}`;
    const metadata = { issuer, authorization_endpoint: `${issuer}/auth`, token_endpoint: `${issuer}/token` };
    const isToken = request.url === '/token';
    response.writeHead(isToken ? 401 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isToken ? { error: 'invalid_client', error_description: said } : metadata));
  });
  const issuer = await listening(server);
  return issuer;
}

describe('the client secret of a provider', () => {
  const secret = 'Hq7-not/for&anybody';

  test.each(['file', 'variable'])('from a %s is on no page, whatever the provider responds', async (from) => {
    const file = join(temporaryFolder(), 'secret');
    writeFileSync(file, `${secret}\n`, { mode: 0o600 });
    const { browser } = await startConsole({
      environment: {
        ADMIN_MIRROR_SERVE_OIDC_ISSUER: await echoingProvider(),
        ADMIN_MIRROR_SERVE_OIDC_CLIENT_ID: 'console',
        ...(from === 'file'
          ? { ADMIN_MIRROR_SERVE_OIDC_CLIENT_SECRET_FILE: file }
          : { ADMIN_MIRROR_SERVE_OIDC_CLIENT_SECRET: secret }),
      },
    });
    const { get } = await browser('nobody', null);
    const away = await get('/sign-in/oidc');
    const { searchParams } = new URL(away.headers.get('location') ?? '');
    const cookie = away.headers.get('set-cookie')?.split(';')[0] ?? '';
    const back = await get(`/sign-in/oidc/callback?code=x&state=${searchParams.get('state') ?? ''}`, { cookie });
    const body = await back.text();
    expect([back.status, body]).toEqual([401, expect.stringContaining('did not sign you in: console:****')]);
    expect(formsOf(secret).filter((form) => body.includes(form))).toEqual([]);
  });

  test('is in no output, no log and no list of settings', async () => {
    const environment = {
      ADMIN_MIRROR_SERVE_OIDC_ISSUER: await echoingProvider(),
      ADMIN_MIRROR_SERVE_OIDC_CLIENT_SECRET: secret,
    };
    for (const argv of [['config'], ['config', '--json'], ['doctor'], ['serve', '--verbose']]) {
      const { stdout, stderr } = await invoke(argv, { environment });
      expect(formsOf(secret).filter((form) => `${stdout}${stderr}`.includes(form))).toEqual([]);
    }
    // A command hides the secret even in what a user typed.
    const refused = await invoke(['query', `SELECT '${secret}' FROM nothing`], { environment });
    expect(refused.stderr).not.toContain(secret);
  });
});

describe('the console', () => {
  test('responds to an address that begins with two slashes that there is no such page', async () => {
    const { browser } = await startConsole();
    const { get } = await browser('anna', ['reader']);
    for (const path of ['//', '//x:99999/', '//people?a=b?c']) {
      const response = await get(path);
      expect(response.status).toBe(404);
      expect(await response.text()).toContain('there is no such page');
    }
  });

  test('lets pages load only its own styles, scripts and pictures', async () => {
    const { browser } = await startConsole();
    const { get } = await browser('nobody', null);
    const policy = (await get('/sign-in')).headers.get('content-security-policy');
    expect(policy).toMatch(/^default-src 'none';/);
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
  });

  test('does not listen for other machines without TLS, nor behind a proxy without it', async () => {
    await expect(startConsole({ address: { host: '0.0.0.0' } })).rejects.toThrow('without TLS');
    const behindProxy = new URL('http://office.example.com/mirror');
    for (const host of ['127.0.0.1', '0.0.0.0']) {
      await expect(startConsole({ address: { host, behindProxy } })).rejects.toThrow('is not https');
    }
    const { url } = await startConsole({ address: { behindProxy: new URL('http://localhost:8080/') } });
    expect(url).toContain('127.0.0.1');
  });
});
