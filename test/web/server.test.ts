import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { roles } from '../../src/model/actor.ts';
import { limits } from '../../src/web/app.ts';
import { finished, startCli } from '../support/cli.ts';
import { startConsole } from '../support/console.ts';
import { invoke } from '../support/invoke.ts';
import { minuteMs, timestampOf } from '../../src/model/time.ts';
import { openJournal } from '../support/journal-file.ts';
import { mirroredFolder } from '../support/mirror.ts';
import { operator } from '../support/people.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { caFile, certificateFiles } from '../support/tls.ts';
import { listening } from '../support/listening.ts';

interface Announced {
  readonly url: string;
  readonly first_account: string | null;
  readonly pid: number;
}

/** `serve` as a child process that has announced its address. */
async function served(args: readonly string[] = [], folder = temporaryFolder()) {
  const child = startCli(['serve', '--listen', '127.0.0.1:0', '--json', ...args], { folder });
  onTestFinished(() => void child.kill('SIGKILL'));
  const end = finished(child);
  const [line] = (await once(child.stdout, 'data')) as [string];
  return { ...(JSON.parse(line) as Announced), child, end };
}

describe('serve', () => {
  test(
    'prints its address and the link for the first account, and ends with 0 on SIGTERM and 130 on Ctrl+C',
    { tags: 'full' },
    async () => {
      const { folder } = await mirroredFolder();
      for (const [signal, code] of [
        ['SIGTERM', 0],
        ['SIGINT', 130],
      ] as const) {
        const { url, first_account: first, child, end } = await served([], folder);
        expect(first?.startsWith(`${url}/first/`)).toBe(true);
        expect(await (await fetch(String(first))).text()).toContain('The first account');
        // An unfinished request does not keep it running.
        const open = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {});
        open.write('POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n');
        child.kill(signal);
        expect(await end).toMatchObject({ code, stderr: '' });
      }
    },
  );

  test('ends with 2 if the port is taken, if passwords would cross a network without TLS, or if a TLS file is missing', async () => {
    const { port } = new URL(await listening(createServer()));
    const taken = await invoke(['serve', '--listen', `127.0.0.1:${port}`]);
    expect(taken).toMatchObject({ code: 2, stderr: expect.stringContaining('another program already listens there') });
    const open = await invoke(['serve', '--listen', '0.0.0.0:0']);
    expect(open).toMatchObject({ code: 2, stderr: expect.stringContaining('without TLS') });
    const missing = { ADMIN_MIRROR_SERVE_TLS: 'no.pem,no.key' };
    expect(await invoke(['serve'], { environment: missing })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('no.'),
    });
  });

  test('serves https with a key and a certificate, and sends Strict-Transport-Security', async () => {
    const { url } = await startConsole({ address: { tls: certificateFiles } });
    const ca = readFileSync(caFile);
    const asked = httpsRequest(`${url}/sign-in`, { ca, servername: 'panel.example.com' }).end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    expect(response.statusCode).toBe(200);
    expect(response.headers['strict-transport-security']).toMatch(/^max-age=/);
    expect(await text(response)).toContain('Sign in');
  });
});

describe('behind a proxy', () => {
  test('every link, form and redirect is under the path of the proxy', { tags: 'full' }, async () => {
    const behindProxy = new URL('https://office.example.com/mirror/');
    const { browser, first } = await startConsole({ address: { behindProxy }, isFirst: true });
    const origin = { origin: behindProxy.origin, host: behindProxy.host };
    const nobody = await browser('nobody', null);
    const away = await nobody.get('/runs');
    expect(away.headers.get('location')).toBe('/mirror/sign-in?next=%2Fruns');
    const password = 'correct horse battery staple';
    const made = await nobody.post(first?.path ?? '', { name: 'anna', new: password, again: password }, origin);
    expect(made.headers.get('location')).toBe('/mirror/');
    const anna = await browser('berta', [...roles]);
    for (const path of ['/', '/runs', '/me', '/people', '/audit']) {
      const body = await (await anna.get(path)).text();
      const links = [...body.matchAll(/(?:href|src|action)="([^"#]*)[^"]*"/g)].map(([, link = '']) => link);
      expect(links.length).toBeGreaterThan(5);
      expect(links.filter((link) => link !== '' && !link.startsWith('/mirror/'))).toEqual([]);
    }
  });
});

describe('the limits', () => {
  test('refuse a form that is too large, and too many tries to sign in', async () => {
    const { browser } = await startConsole();
    const { post } = await browser('nobody', null);
    const statuses: number[] = [];
    for (let count = 0; count <= limits.signInsPerMinute; count += 1) {
      // The form is too large for its password to be checked; the try counts all the same.
      statuses.push((await post('/sign-in', { name: 'x'.repeat(limits.formBytes) })).status);
    }
    expect(statuses).toEqual([...Array.from({ length: limits.signInsPerMinute }, () => 413), 429]);
  });

  test('count the address that the proxy saw, and ignore forwarded addresses before it', async () => {
    const behindProxy = new URL('https://office.example.com/mirror/');
    const { browser } = await startConsole({ address: { behindProxy } });
    const { post } = await browser('nobody', null);
    const from = { origin: behindProxy.origin, host: behindProxy.host };
    const lastOf = async (addresses: (count: number) => string) => {
      let status = 0;
      for (let count = 0; count <= limits.signInsPerMinute; count += 1) {
        const seen = { ...from, 'x-forwarded-for': addresses(count) };
        ({ status } = await post('/sign-in', { name: 'x'.repeat(limits.formBytes) }, seen));
      }
      return status;
    };
    expect(await lastOf((count) => `192.0.2.${count}, 198.51.100.7`)).toBe(429);
    expect(await lastOf((count) => `192.0.2.1, 203.0.113.${count}`)).toBe(413);
    // One machine has a whole IPv6 network, and an IPv4 address may be written as IPv6.
    expect(await lastOf((count) => `2001:db8:1:2::${count + 1}`)).toBe(429);
    expect(await lastOf((count) => `2001:db8:1:${count + 3}::1`)).toBe(413);
    expect(await lastOf((count) => `::ffff:198.18.0.${count}`)).toBe(413);
  });

  test('keep room for new connections if many idle ones are open', async () => {
    const { url } = await startConsole();
    const sockets = Array.from({ length: limits.connections + 1 }, () =>
      connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {}),
    );
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });
    await Promise.race(sockets.map((socket) => once(socket, 'close')));
    expect((await fetch(`${url}/sign-in`)).status).toBe(200);
  });
});

describe('the audit', () => {
  test('shows what matches its filters, or what is wrong with them', async () => {
    const { browser } = await startConsole();
    const anna = await browser('anna', [...roles]);
    for (const [query, words] of [
      ['since=22.11.2026', 'is not a time'],
      ['until=2026-02-30', 'is not a time'],
      ['user=abc', 'is not the id of a user'],
      ['user=9007199254740993', 'is not the id of a user'],
    ] as const) {
      const response = await anna.get(`/audit?${query}`);
      expect([query, response.status, (await response.text()).includes(words)]).toEqual([query, 422, true]);
    }
    // It can be corrected in the form that was sent.
    expect(await (await anna.get('/audit?user=abc&person=kim')).text()).toMatch(
      /value="kim"[^]*name="user"[^>]* value="abc"/,
    );
    expect(await (await anna.get('/audit?until=9999-12-31')).text()).toContain('account added');
    expect(await (await anna.get('/audit?since=&until=&user=&person=&batch=')).text()).toContain('account added');
  });

  test('takes a time in every way that commands take one', async () => {
    const { browser, clock } = await startConsole();
    const anna = await browser('anna', [...roles]);
    const later = timestampOf(clock.now() + minuteMs);
    const found = async (query: string) => (await (await anna.get(`/audit?${query}`)).text()).includes('account added');
    for (const since of ['1h', later.slice(0, 10), '2026-03-11 00:00'])
      expect([since, await found(`since=${since}`)]).toEqual([since, true]);
    for (const since of [later.slice(0, 16), later])
      expect([since, await found(`since=${since}`)]).toEqual([since, false]);
    expect(await found('until=1h')).toBe(false);
    expect(await found(`until=${later.slice(0, 10)}`)).toBe(true);
  });

  test('shows the newest steps, and says that there are older ones', async () => {
    const { browser, settings, clock } = await startConsole();
    const anna = await browser('anna', [...roles]);
    const journal = await openJournal(settings.store.journal, operator, clock);
    for (let user = 1; user <= 500; user += 1) await journal.viewed(user, 'record');
    await journal.close();
    const shown = await (await anna.get('/audit')).text();
    expect(shown).toContain('These are the newest 500 acts.');
    expect(shown.indexOf('of user 499<')).toBeGreaterThan(shown.indexOf('of user 500<'));
    expect(await (await anna.get('/audit?user=500')).text()).not.toContain('to see older ones');
  });
});

describe('an error', () => {
  test('of the program says that it is a bug, and shows neither its place in the code nor secrets', async () => {
    const { browser, settings, sandbox } = await startConsole();
    const anna = await browser('anna', [...roles]);
    const journal = new SqliteDatabase(settings.store.journal);
    journal.exec('ALTER TABLE journal_steps RENAME TO elsewhere');
    journal.close();
    const response = await anna.get('/audit');
    const body = await response.text();
    expect(response.status).toBe(500);
    expect(body).toContain('This is a bug in admin-mirror.');
    expect(body).not.toMatch(/\.ts:\d+|node_modules|no such table/);
    expect(body).not.toContain(sandbox.key);
  });
});
