/** A console over a sandbox's mirror, opened as `serve` opens it, and people who are signed in to it. */
import { onTestFinished } from 'vitest';
import type { Role } from '../../src/model/account.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { silentLog } from '../../src/model/log.ts';
import { Releases } from '../../src/model/releases.ts';
import type { Clock } from '../../src/model/time.ts';
import { openPeople } from '../../src/people/open.ts';
import { readSettings, settingsFrom } from '../../src/settings/settings.ts';
import { openConsole } from '../../src/web/open.ts';
import type { ConsoleAddress } from '../../src/web/server.ts';
import type { SandboxOptions } from '../../src/sandbox/sandbox.ts';
import { mirroredFolder } from './mirror.ts';
import { newAccount, operator } from './people.ts';

export const sessionCookie = '__Host-admin-mirror';

interface ConsoleTry {
  readonly sandbox?: SandboxOptions;
  readonly address?: Partial<ConsoleAddress>;
  readonly clock?: Clock;
  /** Variables besides the address and the key. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Without any account, as it is at the first start. */
  readonly isFirst?: boolean;
}

/** What a command needs of the tests' own environment. */
function processEnvironment(): Record<string, string> {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '', TMPDIR } = process.env;
  return { PATH, HOME, NODE_COMPILE_CACHE, ...(TMPDIR === undefined ? {} : { TMPDIR }) };
}

/** Opens it with an admin called root, unless it is the first start. Everything is closed with the test. */
export async function startConsole(tried: ConsoleTry = {}) {
  const { sandbox, folder, file } = await mirroredFolder(tried.sandbox);
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key, ...tried.environment };
  const settings = settingsFrom(readSettings({ flags: [], environment, folder }));
  const clock = tried.clock ?? { now: () => sandbox.control.clock().now };
  const releases = new Releases();
  onTestFinished(() => releases.close());
  const people = await openPeople(settings, operator, clock, releases);
  if (tried.isFirst !== true) await people.add(newAccount('root', { roles: ['admin'] }));
  const stopping = new AbortController();
  const address = { host: '127.0.0.1', port: 0, tls: null, behindProxy: null, isReadOnly: false, ...tried.address };
  const { url, first } = await openConsole(
    { settings, clock, log: silentLog, signal: stopping.signal },
    {
      address,
      actor: operator,
      redact: (text) => text,
      commands: { folder, environment: { ...processEnvironment(), ...environment }, globalFlags: () => [] },
    },
    releases,
  );

  /** A browser of somebody with these roles; of nobody where there are none to be given. */
  async function browser(name: string, roles: readonly Role[] | null = []) {
    let cookie = '';
    if (roles !== null) {
      const account = (await people.account(name)) ?? (await people.add(newAccount(name, { roles })));
      const from = { method: 'password', address: '127.0.0.1' } as const;
      cookie = `${sessionCookie}=${await people.sessions.begin(account, from, { ...operator, account: name })}`;
    }
    const ask = (path: string, headers: Record<string, string>, init: RequestInit = {}): Promise<Response> =>
      fetch(`${url}${path}`, { redirect: 'manual', ...init, headers: { cookie, origin: url, ...headers } });
    return {
      cookie,
      get: (path: string, headers: Record<string, string> = {}) => ask(path, headers),
      post: (path: string, form: Record<string, string> = {}, headers: Record<string, string> = {}) =>
        ask(path, headers, { method: 'POST', body: new URLSearchParams(form) }),
    };
  }
  /** Ends it, as SIGTERM does. */
  const close = (): Promise<void> => {
    stopping.abort(new InterruptedError('SIGTERM'));
    return releases.close();
  };
  return { sandbox, folder, file, settings, clock, people, url, first, browser, close };
}
