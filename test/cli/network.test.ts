import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSandbox, type Sandbox } from '../support/bent/sandbox.ts';
import { mayBeProxied } from '../../src/api/transport.ts';
import { runCli } from '../support/cli.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { caFile, certificateFiles, proxyTo, timedCertificates, tlsInFrontOf } from '../support/tls.ts';

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await openSandbox({ users: 20, packages: 3, emails: 10, coupons: 3, now: sandboxNow });
});

afterAll(() => sandbox.close());

const address = 'https://panel.example.com';

async function behindProxy() {
  const proxy = await proxyTo(await tlsInFrontOf(sandbox.url));
  const folder = temporaryFolder();
  const environment = {
    ADMIN_MIRROR_BASE_URL: address,
    ADMIN_MIRROR_API_KEY: sandbox.key,
    ADMIN_MIRROR_CA_FILE: caFile,
    HTTPS_PROXY: proxy.url.replace('http://', 'http://anna:proxy-password@'),
  };
  const run = (argv: readonly string[], more: Readonly<Record<string, string>> = {}) =>
    runCli(argv, { folder, environment: { ...environment, ...more }, constants: { api: { attempts: 1 } } });
  return { proxy, folder, run };
}

describe('behind a proxy with a private CA', () => {
  test('reads and writes go through the proxy, and its password is never shown', async () => {
    const { proxy, folder, run } = await behindProxy();
    const synced = await run(['sync', '--json', '--verbose']);
    expect(synced.code).toBe(0);
    expect(JSON.parse(synced.stdout)).toMatchObject({ status: 'complete' });
    expect(existsSync(join(folder, 'data/mirror.db'))).toBe(true);
    const authorization = `Basic ${Buffer.from('anna:proxy-password').toString('base64')}`;
    expect(new Set(proxy.asked.map((each) => JSON.stringify(each)))).toEqual(
      new Set([JSON.stringify({ host: 'panel.example.com:443', authorization })]),
    );
    const before = proxy.asked.length;
    const written = await run(['users', 'update', '2', '--language', 'fr', '--verbose']);
    expect(written.code).toBe(0);
    expect(proxy.asked.length).toBeGreaterThan(before);
    const config = await run(['config']);
    for (const { stdout, stderr } of [synced, written, config]) expect(stdout + stderr).not.toContain('proxy-password');
  });

  test('doctor reports the proxy and the CA file', async () => {
    const { run } = await behindProxy();
    const { code, stdout } = await run(['doctor'], { HTTPS_PROXY: '', https_proxy: (await behindProxy()).proxy.url });
    expect(stdout).toMatch(/ok +proxy +127\.0\.0\.1:\d+ for https addresses$/m);
    expect(stdout).toMatch(/ok +certificates +1 more certificate to trust \(environment ADMIN_MIRROR_CA_FILE\)/);
    expect(code).toBe(0);
  });

  test('a certificate of an unknown CA is refused, and so is a CA file without certificates', async () => {
    const { run, folder } = await behindProxy();
    const unknown = await run(['sync'], { ADMIN_MIRROR_CA_FILE: '' });
    expect(unknown.code).toBe(4);
    expect(unknown.stderr).toMatch(/certificate[^]*name the file [^]* in network\.ca_file or ADMIN_MIRROR_CA_FILE/);
    writeFileSync(join(folder, 'empty.pem'), 'no certificate\n');
    const none = await run(['sync'], { ADMIN_MIRROR_CA_FILE: 'empty.pem' });
    expect(none.code).toBe(2);
    expect(none.stderr).toMatch(/there is no certificate in .*empty\.pem\n.*network\.ca_file or ADMIN_MIRROR_CA_FILE/);
  });

  test.each([
    [
      'has expired',
      timedCertificates.expired,
      /certificate has expired [^]*must renew it\. Check this machine's clock/,
    ],
    ['is not valid yet', timedCertificates.early, /certificate is not valid yet [^]*Check this machine's clock/],
  ])('a certificate that %s is reported at once by every command', async (_, certificate, expected) => {
    const port = await tlsInFrontOf(sandbox.url, { ...certificateFiles, certificate });
    const folder = temporaryFolder();
    const environment = {
      ADMIN_MIRROR_BASE_URL: `https://127.0.0.1:${port}`,
      ADMIN_MIRROR_API_KEY: sandbox.key,
      ADMIN_MIRROR_CA_FILE: certificate,
    };
    writeFileSync(join(folder, 'one.csv'), 'user_id,type,amount\n2,add,1.00\n');
    for (const argv of [['sync'], ['doctor'], ['bulk', 'plan', 'balance', 'one.csv'], ['users', 'get', '2']]) {
      const { code, stdout, stderr } = await runCli(argv, { folder, environment });
      expect(code).toBe(4);
      expect(stdout + stderr).toMatch(expected);
      expect(stdout + stderr).not.toContain('tried');
    }
  });

  test('addresses in the ranges of NO_PROXY bypass the proxy, and doctor names what is neither name nor range', async () => {
    const proxied = (host: string, noProxy: string) =>
      mayBeProxied(`https://${host}/x`, { proxy: 'http://127.0.0.1:1', noProxy });
    for (const host of ['10.1.2.3', '[fd00::7]']) expect(proxied(host, 'a.example,10.0.0.0/8 fd00::/8')).toBe(false);
    for (const host of ['11.1.2.3', 'ten.example', '[fe00::7]'])
      expect(proxied(host, '10.0.0.0/8,fd00::/8')).toBe(true);
    for (const wrong of ['10.0.0.0/33', '10.0.0.0/255.0.0.0', 'x/8']) expect(proxied('10.1.2.3', wrong)).toBe(true);
    const { run } = await behindProxy();
    const { stdout } = await run(['doctor'], { NO_PROXY: '10.0.0.0/255.0.0.0,10.*,*.local,10.0.0.0/8,a.example:443' });
    expect(stdout).toMatch(/warn +proxy +10\.0\.0\.0\/255\.0\.0\.0, 10\.\* in NO_PROXY is no host and no range/);
  });

  test('certificates are verified whatever NODE_TLS_REJECT_UNAUTHORIZED says', async () => {
    const { run } = await behindProxy();
    const unsafe = { NODE_TLS_REJECT_UNAUTHORIZED: '0', ADMIN_MIRROR_CA_FILE: '' };
    expect((await run(['sync'], unsafe)).code).toBe(4);
    expect((await run(['users', 'get', '2'], { ...unsafe, ADMIN_MIRROR_CA_FILE: caFile })).code).toBe(0);
  });

  test('NO_PROXY and the local machine bypass the proxy', async () => {
    const { proxy, run } = await behindProxy();
    const named = await run(['doctor'], { NO_PROXY: '.invalid', ADMIN_MIRROR_BASE_URL: 'https://panel.invalid' });
    expect(named.code).toBe(4);
    const here = await run(['doctor'], {
      ADMIN_MIRROR_BASE_URL: `https://127.0.0.1:${await tlsInFrontOf(sandbox.url)}`,
    });
    expect(here.code).toBe(0);
    expect(proxy.asked).toEqual([]);
  });
});
