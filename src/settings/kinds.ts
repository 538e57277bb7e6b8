/** How each kind of setting is read: what is accepted, what it becomes, and the words for what was expected. */
import { z } from 'zod';
import { parseMoney } from '../model/money.ts';
import { isResourceName, resourceNames, resourceOf, type ResourceName } from '../model/resources.ts';
import { Secret, SecretAddress } from '../model/secret.ts';
import { parseDuration } from '../model/time.ts';
import { isLoopback } from '../model/loopback.ts';
import { type SettingKey, type SettingKind, settingOf, type settingTable } from './table.ts';

/** Where a server of ours waits for connections. */
export interface ListenAddress {
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
}

export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** The words after "expected" in an error. */
export function expectedOf(key: SettingKey): string {
  const { kind, least, most } = settingOf(key);
  const words: Record<SettingKind, string> = {
    address: 'the address of a server such as https://panel.example.com, without a user, a password or a query',
    secret: 'text',
    path: 'the path of a file',
    duration: 'a duration such as 30s, 10m or 48h',
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
  };
  return words[kind];
}

/** Text from a flag, the environment or `.env` as the config file would give it: `8` a number, `true` a flag. */
export function fromText(kind: SettingKind, text: string): unknown {
  switch (kind) {
    case 'count':
    case 'rate':
    case 'bound':
      return /^\d+(?:\.\d+)?$/.test(text.trim()) ? Number(text) : text.trim();
    case 'switch':
      return (
        { true: true, 1: true, yes: true, on: true, false: false, 0: false, no: false, off: false }[
          text.trim().toLowerCase()
        ] ?? text
      );
    case 'address':
    case 'duration':
    case 'wait':
    case 'money':
    case 'level':
    case 'name':
    case 'listen':
    case 'hook':
    case 'proxy':
    case 'hosts':
    case 'program':
      return text.trim();
    case 'includes':
      return text.trim() === 'none' ? 'none' : text.split(',').map((name) => name.trim());
    case 'secret':
    case 'path':
    case 'fields':
    case 'brake':
      return text;
    default:
      return kind satisfies never;
  }
}

const path = z.string().min(1);

/** What a profile may be called: it becomes the name of a folder, and the end of variables. */
export const profileName = /^[a-z0-9][a-z0-9_-]{0,31}$/i;

const secret = z.string().transform((text) => new Secret(text.trim()));

/** A server's address: http or https, no user, query or fragment. Without its last slash. */
const address = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const plain = url !== undefined && url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!plain || !['http:', 'https:'].includes(url.protocol)) {
    context.addIssue({ code: 'custom', message: 'address' });
    return z.NEVER;
  }
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
});

/** Milliseconds, above 0. */
const duration = z.string().transform((text, context) => {
  const ms = parseDuration(text);
  if (ms !== undefined && ms > 0) return ms;
  context.addIssue({ code: 'custom', message: 'duration' });
  return z.NEVER;
});

/** Requests a second; undefined where there is no limit of ours. YAML's older readers turn `off` into false. */
const rate = z
  .union([z.number().positive(), z.literal('off'), z.literal(false)])
  .transform((value) => (typeof value === 'number' ? value : undefined));

/** Milliseconds, 0 allowed. */
const wait = z.string().transform((text, context) => {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  context.addIssue({ code: 'custom', message: 'wait' });
  return z.NEVER;
});

/** A count; undefined where there is no bound. */
const bound = z
  .union([z.int().min(1), z.literal('off'), z.literal(false)])
  .transform((value) => (typeof value === 'number' ? value : undefined));

/** An exact amount; undefined where there is no bound. YAML gives numbers, whose shortest text is what was written. */
const money = z.union([z.string(), z.number(), z.literal(false)]).transform((value, context) => {
  if (value === false || value === 'off') return undefined;
  const read = parseMoney(String(value), 8);
  if ('money' in read && /[1-9]/.test(read.money) && !read.money.startsWith('-')) return read.money;
  context.addIssue({ code: 'custom', message: 'money' });
  return z.NEVER;
});

/** Where to listen; undefined where it is off. A host of IPv6 stands in brackets. */
const listen = z.union([z.string(), z.literal(false)]).transform((value, context): ListenAddress | undefined => {
  if (value === false || value === 'off') return undefined;
  const [, bracketed, plain, digits] = /^(?:\[([\da-f:.]+)\]|([\w.-]+)):(\d{1,5})$/i.exec(value) ?? [];
  const host = bracketed ?? plain;
  const port = Number(digits);
  if (host !== undefined && port < 65_536) return { host, port };
  context.addIssue({ code: 'custom', message: 'listen' });
  return z.NEVER;
});

/** An address whose path may be all that keeps others from using it. */
const hook = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPrivate = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname));
  if (url !== undefined && isPrivate && url.username === '' && url.hash === '') return new SecretAddress(url.href);
  context.addIssue({ code: 'custom', message: 'hook' });
  return z.NEVER;
});

/** A program and its arguments. A text is cut at its spaces and nothing else in it has a meaning: no shell sees it. */
const program = z.union([z.string(), z.array(z.string())]).transform((value, context): readonly string[] => {
  const words = typeof value === 'string' ? value.split(/\s+/).filter((word) => word !== '') : value;
  if ((words[0] ?? '') !== '' && words.every((word) => !word.includes('\0'))) return words;
  context.addIssue({ code: 'custom', message: 'program' });
  return z.NEVER;
});

/** The names that a setting of related records accepts; none for another setting. */
function includesOf(key: SettingKey): readonly string[] {
  const [section, name = ''] = key.split('.');
  return section === 'resources' && isResourceName(name) ? (resourceOf(name).includes ?? []) : [];
}

/** Names of related records in the order given, each once. */
function includes(key: SettingKey) {
  return z
    .union([z.array(z.enum(includesOf(key))), z.literal('none')])
    .transform((value): readonly string[] => (value === 'none' ? [] : [...new Set(value)]));
}

/** Every field that the reference names, of any resource, but `id`. */
const fieldNames: readonly string[] = [
  ...new Set(resourceNames.flatMap((name) => resourceOf(name).fields.map((field) => field.name))),
].filter((name) => name !== 'id');

/** The names that a setting accepts, where it takes names. */
export function namesOf(key: SettingKey): readonly string[] {
  return settingOf(key).kind === 'fields' ? fieldNames : includesOf(key);
}

/** A list, or its names in one text; none where there are none. */
export function namesIn(value: string | readonly unknown[]): string[] {
  const names = typeof value === 'string' ? value.split(',') : value.map(String);
  return names.map((name) => name.trim()).filter((name) => name !== '' && name !== 'none');
}

/** Fields of the reference, or as `_extra.name` others. */
const ignorable = z.union([z.string(), z.array(z.string())]).transform((value, context): readonly string[] => {
  const names = namesIn(value);
  if (names.every((name) => fieldNames.includes(name) || /^_extra\../.test(name))) return names;
  context.addIssue({ code: 'custom', message: 'fields' });
  return z.NEVER;
});

/** An http or https proxy; without a scheme it is http, as the variables of other programs have it. */
const proxy = z.string().transform((text, context) => {
  const href = text.includes('://') ? text : `http://${text}`;
  const url = URL.canParse(href) ? new URL(href) : undefined;
  if (url !== undefined && ['http:', 'https:'].includes(url.protocol) && url.pathname === '/') {
    return new SecretAddress(url.href);
  }
  context.addIssue({ code: 'custom', message: 'proxy' });
  return z.NEVER;
});

/** As one text with commas. */
const hosts = z.union([z.string(), z.array(z.string())]).transform((value) => namesIn(value).join(','));

/** Rows that may go at once, by resource; none where the rule of the brake holds. */
const brake = z.union([z.string(), z.array(z.string())]).transform((value, context) => {
  const pairs = namesIn(value === 'auto' ? 'none' : value).map((pair) => /^(\w+)=(\d{1,9})$/.exec(pair));
  const rows: Partial<Record<ResourceName, number>> = {};
  for (const pair of pairs) {
    const [, name = '', count] = pair ?? [];
    if (isResourceName(name) && Number(count) > 0) rows[name] = Number(count);
    else context.addIssue({ code: 'custom', message: 'brake' });
  }
  return Object.freeze(rows);
});

const schemas = {
  address,
  secret,
  path,
  duration,
  rate,
  bound,
  money,
  wait,
  level: z.enum(logLevels),
  switch: z.boolean(),
  name: z.string().regex(profileName),
  fields: ignorable,
  brake,
  listen,
  hook,
  proxy,
  hosts,
  program,
} satisfies Record<Exclude<SettingKind, 'count' | 'includes'>, z.ZodType>;

/** What a setting of the kind becomes. */
type KindValue<K extends SettingKind> = K extends keyof typeof schemas
  ? z.output<(typeof schemas)[K]>
  : K extends 'count'
    ? number
    : readonly string[];

/** The values by their keys; one without a default may be left out. */
export type SettingValues = {
  readonly [S in (typeof settingTable)[number] as S['key']]:
    | KindValue<S['kind']>
    | (S['default'] extends null ? undefined : never);
};

function schemaOf(key: SettingKey): z.ZodType {
  const { kind, least = 1, most = Number.MAX_SAFE_INTEGER } = settingOf(key);
  if (kind === 'includes') return includes(key);
  return kind === 'count' ? z.int().min(least).max(most) : schemas[kind];
}

/** The value of the setting, which was given as text, number or list; undefined where it is refused. */
export function readValue<K extends SettingKey>(
  key: K,
  given: unknown,
): { readonly value: SettingValues[K] } | undefined {
  const { data, success } = schemaOf(key).safeParse(given);
  return success ? { value: data as SettingValues[K] } : undefined;
}
