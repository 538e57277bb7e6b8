/** The kinds of settings: what each accepts, what value it becomes, and the words for what was expected. */
import { parseDatabaseAddress, isLoopback } from '../model/address.ts';
import { type Money, parseMoney } from '../model/money.ts';
import { isResourceName, resourceNames, resourceOf, type ResourceName } from '../model/resources.ts';
import { Secret, SecretAddress } from '../model/secret.ts';
import { withoutEndSlashes } from '../model/text.ts';
import { durationText, parseDuration } from '../model/time.ts';
import { type Reader, refused, textReader } from './block.ts';

/** How a setting of one kind is read from the config file. */
export interface Kind<T> extends Reader<T> {
  readonly name: KindName;
  /** Turns the text of a flag or a variable into what the config file would give. The text is trimmed by default. */
  readonly fromText?: (text: string) => unknown;
  /** The smallest and the largest number, or duration in ms. */
  readonly least?: number;
  readonly most?: number;
}

export type KindName =
  | 'address'
  | 'secret'
  | 'path'
  | 'pem'
  | 'duration'
  | 'count'
  | 'rate'
  | 'money'
  | 'bound'
  | 'switch'
  | 'name'
  | 'related'
  | 'fields'
  | 'brake'
  | 'listen'
  | 'hook'
  | 'program'
  | 'database'
  | 'text';

function text<T>(name: KindName, expected: string, read: (text: string) => T | typeof refused): Kind<T> {
  return { name, ...textReader(expected, read) };
}

/** Makes `off` undefined. Older YAML turns a plain `off` into false. */
function orOff<T>(kind: Kind<T>): Kind<T | undefined> {
  return {
    ...kind,
    expected: `${kind.expected}, or off`,
    read: (given) => (given === 'off' || given === false ? undefined : kind.read(given)),
  };
}

/** The text of a flag or a variable as a number, if it is one. */
function numberIn(text: string): unknown {
  const plain = text.trim();
  return /^\d+(?:\.\d+)?$/.test(plain) ? Number(plain) : plain;
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

/** Returns the names of a list or of one text with commas, without `none`. */
export function namesIn(value: string | readonly unknown[]): string[] {
  const names = typeof value === 'string' ? value.split(',') : value.map(String);
  return names.map((name) => name.trim()).filter((name) => name !== '' && name !== 'none');
}

/** Reads names from a list, or from one text with commas. */
function listOf(given: unknown): readonly string[] | undefined {
  return isText(given) || (Array.isArray(given) && given.every(isText)) ? namesIn(given) : undefined;
}

/** http or https, without a user, query or fragment. The last slash is removed. */
export const address = text(
  'address',
  'an address that begins with https:// or http://, such as https://panel.example.com, without a user, a password or a query',
  (given) => {
    const url = urlOf(given);
    const isPlain =
      url !== undefined && [url.username, url.password, url.search, url.hash].every((part) => part === '');
    if (!isPlain || !['http:', 'https:'].includes(url.protocol)) return refused;
    return withoutEndSlashes(`${url.origin}${url.pathname}`);
  },
);

export const path: Kind<string> = {
  ...text('path', 'the path of a file', (given) => (given === '' || given.includes('\0') ? refused : given)),
  fromText: (given) => given,
};

/** One file or two: the certificate with its chain, and its key, which may be in the same file. */
export const pem: Kind<readonly string[]> = {
  name: 'pem',
  expected: 'the path of a PEM file, or of two: the certificate with its chain, and its key',
  read: (given) => {
    const files = listOf(given) ?? [];
    const isOneOrTwo = files.length === 1 || files.length === 2;
    return isOneOrTwo && files.every((each) => path.read(each) !== refused) ? files : refused;
  },
};

/** A secret in a file of its own. */
export interface SecretFile {
  readonly file: string;
}

/** A secret comes from the variable itself, or from a file that the variable NAME_FILE or the setting `…_file` names. */
export const secret: Kind<Secret | SecretFile> = {
  name: 'secret',
  expected: 'text, or the path of a file',
  fromText: (given) => given,
  read: (given) => {
    if (isText(given)) return new Secret(given.trim());
    const { file } = given as SecretFile;
    return path.read(file) === refused ? refused : { file };
  },
};

export interface DurationKind extends Kind<number> {
  readonly name: 'duration';
}

/** In ms. @param least 0 allows `0s`. A timer of Node can wait 24 days at most. */
export function duration({ least = 1, most = Infinity } = {}): DurationKind {
  const few = most === Infinity ? 'above 0 such as 30s, 10m or 48h' : '';
  const range = few === '' ? `from ${durationText(least)} to ${durationText(most)}, such as 30s or 10m` : few;
  const expected = least === 0 ? 'a duration such as 30s or 10m, or 0s for none' : `a duration ${range}`;
  const kind = text('duration', expected, (given) => {
    const ms = parseDuration(given);
    return ms !== undefined && ms >= least && ms <= most ? ms : refused;
  });
  return { ...kind, name: 'duration', least, most };
}

export function count({ least = 1, most = Number.MAX_SAFE_INTEGER } = {}): Kind<number> {
  return {
    name: 'count',
    expected: most === Number.MAX_SAFE_INTEGER ? 'a whole number above 0' : `a whole number from ${least} to ${most}`,
    read: (given) => (isCount(given, least, most) ? given : refused),
    fromText: numberIn,
    least,
    most,
  };
}

export const bound = orOff({ ...count(), name: 'bound' as const });

/** Requests a second. */
export const rate = orOff({
  name: 'rate',
  expected: 'a number above 0',
  read: (given) => (typeof given === 'number' && given > 0 && Number.isFinite(given) ? given : refused),
  fromText: numberIn,
});

export const money = orOff<Money>({
  name: 'money',
  expected: 'an amount above 0 such as 500 or 99.50',
  read: (given) => {
    const amount = amountIn(given);
    return amount !== undefined && /[1-9]/.test(amount) ? amount : refused;
  },
});

const switchWords: Readonly<Record<string, boolean>> = Object.fromEntries([
  ...['true', '1', 'yes', 'on'].map((word) => [word, true]),
  ...['false', '0', 'no', 'off'].map((word) => [word, false]),
]);

export const onOff: Kind<boolean> = {
  name: 'switch',
  expected: 'true or false',
  read: (given) => (typeof given === 'boolean' ? given : refused),
  fromText: (given) => switchWords[given.trim().toLowerCase()] ?? given,
};

/** The name of a profile also becomes the name of a folder and the end of variables. */
export const profileName = /^[a-z0-9][a-z0-9_-]{0,31}$/i;

export const name = text('name', 'a name of up to 32 letters, digits, - and _, such as staging', (given) =>
  profileName.test(given) ? given : refused,
);

export const words = text('text', 'text of up to 200 characters', (given) =>
  given === '' || given.length > 200 ? refused : given,
);

type Related = Readonly<Record<ResourceName, { readonly include: readonly string[] }>>;

const relatedNames = resourceNames.flatMap((each) =>
  (resourceOf(each).includes ?? []).map((include) => `${each}.${include}`),
);

/** The related records of each resource. In a variable: `users.orders,packages.prices`. */
export const related: Kind<Related> = {
  name: 'related',
  expected: `related records by resource, such as users: { include: [orders] } or, in a variable, ${relatedNames.slice(0, 1).join()}, or none`,
  names: relatedNames,
  fromText: (given) => namesIn(given),
  read: (given) => {
    const named = Array.isArray(given) ? given.map(String) : given === 'none' ? [] : relatedIn(given);
    if (named === undefined || !named.every((each) => relatedNames.includes(each))) return refused;
    const of = (resource: ResourceName) => ({
      include: [...new Set(named)].flatMap((each) =>
        each.startsWith(`${resource}.`) ? [each.slice(resource.length + 1)] : [],
      ),
    });
    return Object.fromEntries(resourceNames.map((each) => [each, of(each)])) as unknown as Related;
  },
};

/** `{ users: { include: [orders] } }` → `['users.orders']`; undefined for anything else. */
export function relatedIn(given: unknown): string[] | undefined {
  if (typeof given !== 'object' || given === null) return undefined;
  const found: string[] = [];
  for (const [resource, own] of Object.entries(given as Record<string, unknown>)) {
    if (own === null) continue;
    if (typeof own !== 'object' || Object.keys(own).some((key) => key !== 'include')) return undefined;
    const list = listOf((own as { include?: unknown }).include ?? []);
    if (list === undefined || !isResourceName(resource)) return undefined;
    found.push(...list.map((each) => `${resource}.${each}`));
  }
  return found;
}

/** The documented fields of all resources, without `id`. */
const fieldNames: readonly string[] = [
  ...new Set(resourceNames.flatMap((each) => resourceOf(each).fields.map((field) => field.name))),
].filter((each) => each !== 'id');

/** Documented fields, or any other as `_extra.name`. */
export const fields: Kind<readonly string[]> = {
  name: 'fields',
  expected: 'names of fields, such as last_seen_at, updated_at or _extra.last_ip, or none',
  names: fieldNames,
  read: (given) => {
    const names = listOf(given);
    return names?.every((each) => fieldNames.includes(each) || /^_extra\../.test(each)) === true ? names : refused;
  },
};

/** How many rows a run may remove at once, by resource; empty for the brake's own rule. */
export const brake: Kind<Readonly<Partial<Record<ResourceName, number>>>> = {
  name: 'brake',
  expected: 'resources with numbers of rows, such as emails=200 or [emails=200, coupons=20], or auto',
  read: (given) => {
    const pairs = given === 'auto' ? [] : listOf(given);
    if (pairs === undefined) return refused;
    const rows: Partial<Record<ResourceName, number>> = {};
    for (const pair of pairs) {
      const [, resource = '', most] = /^(\w+)=(\d{1,9})$/.exec(pair) ?? [];
      if (!isResourceName(resource) || Number(most) === 0) return refused;
      rows[resource] = Number(most);
    }
    return Object.freeze(rows);
  },
};

/** An address and a port; port 0 stands for any free one. An IPv6 address stands in brackets. */
export const listen = orOff(
  text('listen', 'an address and a port such as 127.0.0.1:9464', (given) => {
    const [, bracketed, plain, digits] = /^(?:\[([\da-f:.]+)\]|([\w.-]+)):(\d{1,5})$/i.exec(given) ?? [];
    const host = bracketed ?? plain;
    const port = Number(digits);
    return host !== undefined && port < 65_536 ? { host, port } : refused;
  }),
);

/** The path of such an address may be the only secret that keeps others from using it. */
export const hook = text('hook', 'an address that begins with https:// (http:// for this machine alone)', (given) => {
  const url = urlOf(given);
  const isPrivate = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname));
  return url !== undefined && isPrivate && url.username === '' && url.hash === ''
    ? new SecretAddress(url.href)
    : refused;
});

/** A program and its arguments. A text is split at its spaces; nothing else in it has a meaning, since no shell reads it. */
export const program: Kind<readonly string[]> = {
  name: 'program',
  expected: 'a program with its arguments, as one text or in a list',
  read: (given) => {
    const parts: unknown = isText(given) ? given.split(/\s+/).filter((part) => part !== '') : given;
    if (!Array.isArray(parts) || !parts.every(isText) || (parts[0] ?? '') === '') return refused;
    return parts.every((part) => !part.includes('\0')) ? parts : refused;
  },
};

export const database = text(
  'database',
  'the address of a database such as postgresql://mirror@db.example.com/shop, without a password',
  (given) => parseDatabaseAddress(given) ?? refused,
);
