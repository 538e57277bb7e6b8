/** The kinds of settings: what each accepts, what value it becomes, and the words for what was expected. */
import { resolve } from 'node:path';
import { parseDatabaseAddress, isLoopback } from '../model/address.ts';
import { UsageError } from '../model/errors.ts';
import { type Money, parseMoney } from '../model/money.ts';
import { isResourceName, resourceNames, resourceOf, type ResourceName } from '../model/resources.ts';
import { withoutCredentials, Secret, SecretAddress } from '../model/secret.ts';
import { withoutEndSlashes } from '../model/text.ts';
import { durationText, parseDuration } from '../model/time.ts';
import { allSettings, type SettingKey, settingOf, type settingTable } from './table.ts';

interface ListenAddress {
  readonly host: string;
  /** 0 stands for any free port. */
  readonly port: number;
}

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Returns the words after "expected" in an error. */
export function expectedOf(key: SettingKey): string {
  const { kind, least, most } = settingOf(key);
  const words: Record<SettingKind, string> = {
    address:
      'an address that begins with https:// or http://, such as https://panel.example.com, without a user, a password or a query',
    secret: 'text',
    path: 'the path of a file',
    duration:
      most === undefined
        ? 'a duration above 0 such as 30s, 10m or 48h'
        : `a duration from ${durationText(least ?? 1)} to ${durationText(most)}, such as 30s or 10m`,
    count: `a whole number from ${least ?? 1} to ${most ?? 'any'}`,
    rate: 'a number above 0, or off',
    bound: 'a whole number above 0, or off',
    money: 'an amount above 0 such as 500 or 99.50, or off',
    wait: 'a duration such as 30s or 10m, or 0s for none',
    level: `one of ${logLevels.join(', ')}`,
    switch: 'true or false',
    name: 'a name of up to 32 letters, digits, - and _, such as staging',
    includes: `names of related records, such as [${includesOf(key).slice(0, 2).join(', ')}], or none`,
    fields: 'names of fields, such as last_seen_at, updated_at or _extra.last_ip, or none',
    brake: 'resources with numbers of rows, such as emails=200 or [emails=200, coupons=20], or auto',
    listen: 'an address and a port such as 127.0.0.1:9464, or off',
    hook: 'an address that begins with https:// (http:// for this machine alone)',
    proxy: 'the address of a proxy, such as http://proxy.example.com:3128',
    hosts: 'names of hosts, such as [intranet.example.com, .local]',
    program: 'a program with its arguments, as one text or in a list',
    database: 'the address of a database such as postgresql://mirror@db.example.com/shop, without a password',
    identifier: 'a name of up to 63 letters, digits, - and _, such as shop_mirror',
    text: 'text of up to 200 characters',
  };
  return words[kind];
}

/** Turns the text of a flag or a variable into what the config file would give: `8` into a number, `true` into a boolean. */
export function fromText(kind: SettingKind, text: string): unknown {
  const plain = text.trim();
  if (kind === 'count' || kind === 'rate' || kind === 'bound')
    return /^\d+(?:\.\d+)?$/.test(plain) ? Number(plain) : plain;
  if (kind === 'switch') return switchWords[plain.toLowerCase()] ?? text;
  if (kind === 'includes') return plain === 'none' ? 'none' : text.split(',').map((name) => name.trim());
  return ['secret', 'path', 'fields', 'brake'].includes(kind) ? text : plain;
}

const switchWords: Readonly<Record<string, boolean>> = Object.fromEntries([
  ...['true', '1', 'yes', 'on'].map((word) => [word, true]),
  ...['false', '0', 'no', 'off'].map((word) => [word, false]),
]);

type Reader<T> = (given: unknown) => T | typeof refused;
const refused = Symbol('refused');

function text<T>(read: (text: string) => T | typeof refused): Reader<T> {
  return (given) => (typeof given === 'string' ? read(given) : refused);
}

/** Makes `off` undefined. Older YAML turns a plain `off` into false. */
function orOff<T>(read: Reader<T>): Reader<T | undefined> {
  return (given) => (given === 'off' || given === false ? undefined : read(given));
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

export function isCount(value: unknown, least: number, most = Number.MAX_SAFE_INTEGER): value is number {
  return Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most;
}

/** Returns an exact amount of at least 0; undefined for anything else. YAML gives numbers, whose shortest text is what was written. */
export function amountIn(value: unknown): Money | undefined {
  if (!isText(value) && typeof value !== 'number') return undefined;
  const read = parseMoney(String(value), 8);
  return 'money' in read && !read.money.startsWith('-') ? read.money : undefined;
}

function urlOf(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** Reads names from a list, or from one text with commas. */
function names<T>(read: (names: readonly string[]) => T | typeof refused): Reader<T> {
  return (given) => (isText(given) || (Array.isArray(given) && given.every(isText)) ? read(namesIn(given)) : refused);
}

/** The name of a profile also becomes the name of a folder and the end of variables. */
export const profileName = /^[a-z0-9][a-z0-9_-]{0,31}$/i;

/** The documented fields of all resources, without `id`. */
const fieldNames: readonly string[] = [
  ...new Set(resourceNames.flatMap((name) => resourceOf(name).fields.map((field) => field.name))),
].filter((name) => name !== 'id');

/** Reads each kind. Durations become milliseconds. */
const readers = {
  /** http or https, without a user, query or fragment. The last slash is removed. */
  address: text((given) => {
    const url = urlOf(given);
    const isPlain =
      url !== undefined && [url.username, url.password, url.search, url.hash].every((part) => part === '');
    if (!isPlain || !['http:', 'https:'].includes(url.protocol)) return refused;
    return withoutEndSlashes(`${url.origin}${url.pathname}`);
  }),
  secret: text((given) => new Secret(given.trim())),
  text: text((given) => (given === '' || given.length > 200 ? refused : given)),
  path: text((given) => (given === '' || given.includes('\0') ? refused : given)),
  database: text((given) => parseDatabaseAddress(given) ?? refused),
  /** Above 0. */
  duration: text((given) => parseDuration(given) || refused),
  /** Requests a second. */
  rate: orOff((given) => (typeof given === 'number' && given > 0 && Number.isFinite(given) ? given : refused)),
  bound: orOff((given) => (isCount(given, 1) ? given : refused)),
  money: orOff((given) => {
    const amount = amountIn(given);
    return amount !== undefined && /[1-9]/.test(amount) ? amount : refused;
  }),
  /** 0 allowed. */
  wait: text((given) => parseDuration(given) ?? refused),
  level: text((given): LogLevel | typeof refused => logLevels.find((level) => level === given) ?? refused),
  switch: (given: unknown) => (typeof given === 'boolean' ? given : refused),
  /** A name in PostgreSQL, which has room for 63 bytes. */
  identifier: text((given) => (/^[\w-]{1,63}$/.test(given) ? given : refused)),
  name: text((given) => (profileName.test(given) ? given : refused)),
  /** Documented fields, or any other as `_extra.name`. */
  fields: names((given) =>
    given.every((name) => fieldNames.includes(name) || /^_extra\../.test(name)) ? given : refused,
  ),
  /** How many rows a run may remove at once, by resource; empty for the brake's own rule. */
  brake: (given: unknown) =>
    names((pairs) => {
      const rows: Partial<Record<ResourceName, number>> = {};
      for (const pair of pairs) {
        const [, name = '', count] = /^(\w+)=(\d{1,9})$/.exec(pair) ?? [];
        if (!isResourceName(name) || Number(count) === 0) return refused;
        rows[name] = Number(count);
      }
      return Object.freeze(rows);
    })(given === 'auto' ? [] : given),
  /** An IPv6 address stands in brackets. */
  listen: orOff(
    text((given): ListenAddress | typeof refused => {
      const [, bracketed, plain, digits] = /^(?:\[([\da-f:.]+)\]|([\w.-]+)):(\d{1,5})$/i.exec(given) ?? [];
      const host = bracketed ?? plain;
      const port = Number(digits);
      return host !== undefined && port < 65_536 ? { host, port } : refused;
    }),
  ),
  /** The path of such an address may be the only secret that keeps others from using it. */
  hook: text((given) => {
    const url = urlOf(given);
    const isPrivate = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname));
    return url !== undefined && isPrivate && url.username === '' && url.hash === ''
      ? new SecretAddress(url.href)
      : refused;
  }),
  /** An http or https proxy. Without a scheme it is http, as other programs read such variables. */
  proxy: text((given) => {
    const url = urlOf(given.includes('://') ? given : `http://${given}`);
    return url !== undefined && ['http:', 'https:'].includes(url.protocol) && url.pathname === '/'
      ? new SecretAddress(url.href)
      : refused;
  }),
  /** Becomes one text with commas. */
  hosts: names((given) => given.join(',')),
  /** A program and its arguments. A text is split at its spaces; nothing else in it has a meaning, since no shell reads it. */
  program: (given: unknown): readonly string[] | typeof refused => {
    const words: unknown = isText(given) ? given.split(/\s+/).filter((word) => word !== '') : given;
    if (!Array.isArray(words) || !words.every(isText) || (words[0] ?? '') === '') return refused;
    return words.every((word) => !word.includes('\0')) ? words : refused;
  },
};

/** `count` and `includes` have no reader, since what they accept depends on the setting. */
export type SettingKind = keyof typeof readers | 'count' | 'includes';

/** Returns the names that a setting of related records accepts; empty for any other setting. */
function includesOf(key: SettingKey): readonly string[] {
  const [section, name = ''] = key.split('.');
  return section === 'resources' && isResourceName(name) ? (resourceOf(name).includes ?? []) : [];
}

/** Returns the names that the setting accepts; empty if it takes no names, or any. */
export function namesOf(key: SettingKey): readonly string[] {
  return settingOf(key).kind === 'fields' ? fieldNames : includesOf(key);
}

/** Returns the names of a list or of one text with commas, without `none`. */
export function namesIn(value: string | readonly unknown[]): string[] {
  const names = typeof value === 'string' ? value.split(',') : value.map(String);
  return names.map((name) => name.trim()).filter((name) => name !== '' && name !== 'none');
}

type KindValue<K extends SettingKind> = K extends keyof typeof readers
  ? Exclude<ReturnType<(typeof readers)[K]>, typeof refused>
  : K extends 'count'
    ? number
    : readonly string[];

/** All values by key; undefined only if the setting has no default, or can be off. */
export type SettingValues = {
  readonly [S in (typeof settingTable)[number] as S['key']]:
    | KindValue<S['kind']>
    | (S['default'] extends null ? undefined : never);
};

type Camel<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<Camel<Rest>>}`
  : Name;

type NameIn<Section extends string, Key extends string> = Key extends `${Section}.${infer Name}`
  ? Exclude<Name, `${string}.${string}`>
  : never;

/** The settings of a section by the names in the program: `bulk.settle_after` is `settleAfterMs` of the section `bulk`. */
type Section<Name extends string> = {
  readonly [
    S in (typeof settingTable)[number] as `${Camel<NameIn<Name, S['key']>>}${S['kind'] extends 'duration' | 'wait' ? 'Ms' : ''}`
  ]: SettingValues[S['key']];
};

/** Returns the settings of the section, with absolute paths. */
export function sectionOf<Name extends string>(values: SettingValues, section: Name, folder: string): Section<Name> {
  const own = allSettings.flatMap(({ key, kind }) => {
    const written = key.slice(section.length + 1);
    if (key !== `${section}.${written}` || written.includes('.')) return [];
    const name = written.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    const value = values[key];
    const inForce = kind === 'path' && typeof value === 'string' ? resolve(folder, value) : value;
    return [[kind === 'duration' || kind === 'wait' ? `${name}Ms` : name, inForce] as const];
  });
  return Object.freeze(Object.fromEntries(own)) as Section<Name>;
}

/** Reads a value that was given as text, number, boolean or list. Returns undefined if it is refused, since a value can itself be undefined. */
export function readValue<K extends SettingKey>(key: K, given: unknown) {
  const value = readGiven(key, given);
  return value === refused ? undefined : { value: value as SettingValues[K] };
}

function readGiven(key: SettingKey, given: unknown): unknown {
  const { kind, least = 1, most } = settingOf(key);
  if (kind === 'count') return isCount(given, least, most) ? given : refused;
  if (kind === 'duration' && most !== undefined) {
    const ms = readers.duration(given);
    return typeof ms === 'number' && ms >= least && ms <= most ? ms : refused;
  }
  if (kind !== 'includes') return readers[kind](given);
  if (given === 'none') return [];
  const known = includesOf(key);
  // Keeps the given order, each name once.
  return Array.isArray(given) && given.every((name) => isText(name) && known.includes(name))
    ? [...new Set(given)]
    : refused;
}

/** Returns why the address must not be used: it is http to another machine, or ends in /api. @param origin where it was set */
export function addressProblem(
  values: Pick<SettingValues, 'api.base_url' | 'api.insecure_http'>,
  origin: string,
): UsageError | undefined {
  const address = values['api.base_url'];
  if (address === undefined) return undefined;
  const url = new URL(address);
  const ours = /\/api(?:\/v1)?$/.exec(url.pathname);
  if (ours !== null) {
    return new UsageError(`the base address ${address} (${origin}) must not end in ${ours[0]}`, {
      advice: `Use ${address.slice(0, -ours[0].length)}: /api/v1 is added to it.`,
    });
  }
  if (url.protocol === 'https:' || values['api.insecure_http'] || isLoopback(url.hostname)) return undefined;
  return new UsageError(
    `the base address ${address} (${origin}) is not https: the key would cross the network in clear`,
    { advice: `Use https://${address.slice('http://'.length)}, or accept it with --insecure-http.` },
  );
}

/** Returns a typed address without its last slash. Throws a UsageError if it is no address, or must not be used. */
export function checkedAddress(text: string, insecureHttp: boolean): string {
  const address = readValue('api.base_url', text.trim())?.value;
  if (address === undefined) {
    throw new UsageError(`"${withoutCredentials(text.trim())}" is not ${expectedOf('api.base_url')}`);
  }
  const problem = addressProblem({ 'api.base_url': address, 'api.insecure_http': insecureHttp }, 'as given');
  if (problem !== undefined) throw problem;
  return address;
}
