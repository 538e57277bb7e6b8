/** A console over a sandbox's mirror, opened as `serve` opens it, and browsers that are signed in to it. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import type { Sleep } from '../../src/api/gate.ts';
import type { Role } from '../../src/model/actor.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { silentLog } from '../../src/model/log.ts';
import { SecretWords } from '../../src/model/secret.ts';
import { Releases } from '../../src/model/releases.ts';
import type { Clock } from '../../src/model/time.ts';
import { openPeople } from '../../src/people/open.ts';
import { readAllSettings, readSettings, settingsFrom } from '../../src/settings/settings.ts';
import type { OtherConstants } from '../../src/settings/table.ts';
import { openConsole } from '../../src/web/open.ts';
import type { ConsoleAddress } from '../../src/web/app.ts';
import type { SandboxOptions } from './bent/sandbox.ts';
import { mirroredFolder } from './mirror.ts';
import { newAccount, operator } from './people.ts';

const sessionCookie = '__Host-admin-mirror';

interface ConsoleTry {
  readonly sandbox?: SandboxOptions;
  readonly address?: Partial<ConsoleAddress>;
  readonly clock?: Clock;
  /** Settings as environment variables. */
  readonly environment?: Readonly<Record<string, string>>;
  /** In the place of constants of the settings. */
  readonly constants?: OtherConstants;
  /** The config file. */
  readonly config?: string;
  /** Without any account, as at the first start. */
  readonly isFirst?: boolean;
  /** How a batch that is being sent waits; without it, not at all. */
  readonly sleep?: Sleep;
}

/** The variables of the tests' own environment that a command needs. */
function processEnvironment(): Record<string, string> {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '', TMPDIR } = process.env;
  return { PATH, HOME, NODE_COMPILE_CACHE, ...(TMPDIR === undefined ? {} : { TMPDIR }) };
}

/** Opens it with an admin called root, unless it is the first start. Everything is closed with the test. */
export async function startConsole(tried: ConsoleTry = {}) {
  const { sandbox, folder, file } = await mirroredFolder(tried.sandbox);
  const server = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const environment = { ...server, ...tried.environment };
  if (tried.config !== undefined) {
    mkdirSync(`${folder}/config`);
    writeFileSync(`${folder}/config/admin-mirror.yaml`, tried.config);
  }
  const { constants = {} } = tried;
  const settings = settingsFrom(readSettings({ flags: [], environment, folder, constants }));
  const clock = tried.clock ?? { now: () => sandbox.control.now() };
  const kept = new Releases();
  onTestFinished(() => kept.close());
  const people = await openPeople(settings, operator, clock, kept);
  if (tried.isFirst !== true) await people.add(newAccount('root', { roles: ['admin'] }));
  const address = { host: '127.0.0.1', port: 0, tls: null, behindProxy: null, isReadOnly: false, ...tried.address };
  /** Opens the console like a new process, with its own abort signal. */
  async function open() {
    const releases = new Releases();
    const secrets = new SecretWords();
    const stopping = new AbortController();
    const surroundings = { settings, clock, log: silentLog, signal: stopping.signal };
    const sources = { flags: [], environment, folder, constants };
    const servers = readAllSettings(sources);
    const given = { reading: readSettings(sources), servers };
    const commands = { folder, environment: { ...processEnvironment(), ...environment }, settings: given };
    const common = { address, actor: operator, redact: (text: string) => secrets.redact(text) };
    const keepSecret = (word: string) => secrets.add(word);
    const options = { ...common, keepSecret, commands, servers, sleep: tried.sleep ?? (() => Promise.resolve()) };
    const opened = await openConsole(surroundings, options, releases);
    const stop = async (): Promise<void> => {
      stopping.abort(new InterruptedError('SIGTERM'));
      await releases.close();
    };
    onTestFinished(stop);
    return { ...opened, stop };
  }
  let { url, first, stop } = await open();
  /** Stops it, as SIGTERM does. */
  const close = (): Promise<void> => stop();
  /** Stops the console, and starts another one on the same files. */
  const restart = async (): Promise<void> => {
    await close();
    ({ url, first, stop } = await open());
  };

  /** A browser signed in with these roles; not signed in if `roles` is null. */
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
      post: (path: string, form: Record<string, string> | string = {}, headers: Record<string, string> = {}) =>
        ask(path, headers, { method: 'POST', body: typeof form === 'string' ? form : new URLSearchParams(form) }),
      /** Sends a form with a file: its fields come before the file. */
      upload: (
        path: string,
        fields: Record<string, string>,
        name: string,
        bytes: string | Uint8Array<ArrayBuffer>,
        signal: AbortSignal | null = null,
      ) => {
        const body = new FormData();
        for (const [field, value] of Object.entries(fields)) body.append(field, value);
        body.append('file', new Blob([bytes]), name);
        return ask(path, {}, { method: 'POST', body, signal });
      },
      send: (path: string, body: FormData) => ask(path, {}, { method: 'POST', body }),
    };
  }
  return { sandbox, folder, file, settings, people, url, first, browser, clock, close, restart };
}
