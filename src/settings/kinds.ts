/** The kinds of settings: what each accepts, as a schema of zod's small form (every command reads settings, and the whole of zod takes 25 ms to load), what value it becomes, and the words for what was expected. */
import * as z from 'zod/mini';
import { parseDatabaseAddress, isLoopback } from '../model/address.ts';
import { type Money, parseMoney } from '../model/money.ts';
import { isResourceName, resourceNames, resourceOf, type ResourceName } from '../model/resources.ts';
import { Secret, SecretAddress } from '../model/secret.ts';
import { withoutEndSlashes } from '../model/text.ts';
import { durationText, parseDuration } from '../model/time.ts';

/** How a value is read: a setting, an option of a job, a threshold of approval. */
export interface Kind<T> {
  /** What the config file may hold, and the value that it becomes. */
  readonly type: z.ZodMiniType<T>;
  /** The words after "expected" in an error. */
  readonly expected: string;
  /** The names that it accepts, to suggest one; left out if it takes no names, or any. */
  readonly names?: readonly string[];
  /** What else than its type matters about a value; left out if nothing does. */
  readonly is?: 'secret' | 'hook' | 'path' | 'pem' | 'duration' | 'database' | 'address';
  /** Turns the text of a flag or a variable into what the config file would give. The text is trimmed by default. */
  readonly fromText?: (text: string) => unknown;
}

/** The type of what becomes something else. `read` returns undefined for a value that is not accepted. */
function becoming<Given, T>(type: z.ZodMiniType<Given>, read: (given: Given) => T | undefined): z.ZodMiniType<T> {
  const change = z.transform((given: Given, { issues }) => {
    const value = read(given);
    if (value !== undefined) return value;
    issues.push({ code: 'custom', input: given, message: 'not accepted' });
    return z.NEVER;
  });
  return z.pipe(type, change);
}

/** Makes `off` undefined. Older YAML turns a plain `off` into false. */
function orOff<T>({ type, expected, ...rest }: Kind<T>): Kind<T | undefined> {
  const off = z.pipe(
    z.literal(['off', false]),
    z.transform(() => undefined),
  );
  return { ...rest, expected: `${expected}, or off`, type: z.union([off, type]) };
}

/** The text of a flag or a variable as a number, if it is one. */
function numberIn(text: string): unknown {
  const plain = text.trim();
  return /^\d+(?:\.\d+)?$/.test(plain) ? Number(plain) : plain;
}

/** Returns the names of a list or of one text with commas, without `none`. */
export function namesIn(value: string | readonly unknown[]): string[] {
  const names = typeof value === 'string' ? value.split(',') : value.map(String);
  return names.map((name) => name.trim()).filter((name) => name !== '' && name !== 'none');
}

const list = z.union([z.string(), z.array(z.string())]);
/** Names in a list, or in one text with commas. */
const namesInList = z.pipe(
  list,
  z.transform((given: string | string[]) => namesIn(given)),
);
const plainText = z.string().check(z.minLength(1));
const file = plainText.check(z.refine((given) => !given.includes('\0')));

export const text: Kind<string> = { expected: 'text', type: plainText.check(z.refine((given) => given.trim() !== '')) };

/** http or https, without a user, query or fragment. The last slash is removed. */
export const address: Kind<string> = {
  is: 'address',
  expected:
    'an address that begins with https:// or http://, such as https://panel.example.com, without a user, a password or a query',
  type: becoming(z.string().check(z.regex(/^https?:\/\//)), (given) => {
    if (!URL.canParse(given)) return undefined;
    const { username, password, search, hash, origin, pathname } = new URL(given);
    return username + password + search + hash === '' ? withoutEndSlashes(`${origin}${pathname}`) : undefined;
  }),
};

export const path: Kind<string> = {
  is: 'path',
  expected: 'the path of a file',
  type: file,
  fromText: (given) => given,
};

/** One file or two: the certificate with its chain, and its key, which may be in the same file. */
export const pem: Kind<readonly string[]> = {
  is: 'pem',
  expected: 'the path of a PEM file, or of two: the certificate with its chain, and its key',
  type: z.pipe(namesInList, z.array(file).check(z.minLength(1), z.maxLength(2))),
};

/** A secret in a file of its own. */
export interface SecretFile {
  readonly file: string;
}

/** A secret comes from the variable itself, or from a file that the variable NAME_FILE or the setting `…_file` names. */
export const secret: Kind<Secret | SecretFile> = {
  is: 'secret',
  expected: 'text, or the path of a file',
  fromText: (given) => given,
  type: z.union([
    z.pipe(
      z.string(),
      z.transform((given) => new Secret(given.trim())),
    ),
    z.object({ file }),
  ]),
};

interface DurationKind extends Kind<number> {
  readonly is: 'duration';
}

/** In ms. @param least 0 allows `0s`. A timer of Node can wait 24 days at most. */
export function duration({ least = 1, most = Infinity } = {}): DurationKind {
  const range =
    most === Infinity
      ? 'above 0 such as 30s, 10m or 48h'
      : `from ${durationText(least)} to ${durationText(most)}, such as 30s or 10m`;
  return {
    is: 'duration',
    expected: least === 0 ? 'a duration such as 30s or 10m, or 0s for none' : `a duration ${range}`,
    type: becoming(z.string().check(z.regex(/^\d+(?:\.\d+)?(?:ms|s|m|h|d)$/)), (given) => {
      const ms = parseDuration(given);
      return ms !== undefined && ms >= least && ms <= most ? ms : undefined;
    }),
  };
}

export function count({ least = 1, most = Number.MAX_SAFE_INTEGER } = {}): Kind<number> {
  return {
    expected: `a whole number from ${least}${most === Number.MAX_SAFE_INTEGER ? '' : ` to ${most}`}`,
    type: z.int().check(z.gte(least), z.lte(most)),
    fromText: numberIn,
  };
}

export const bound = orOff(count());

/** Requests a second. */
export const rate = orOff({ expected: 'a number above 0', type: z.number().check(z.gt(0)), fromText: numberIn });

/** An exact amount of at least 0. YAML gives numbers, whose shortest text is what was written. */
const exactAmount = becoming(z.union([z.number().check(z.gte(0)), z.string()]), (given) => {
  const read = parseMoney(String(given), 8);
  return 'money' in read && !read.money.startsWith('-') ? read.money : undefined;
});

export const amount: Kind<Money> = { expected: 'an amount such as 500 or 99.50', type: exactAmount };

export const money = orOff<Money>({
  expected: 'an amount above 0 such as 500 or 99.50',
  type: exactAmount.check(z.refine((given) => /[1-9]/.test(given))),
});

export const onOff: Kind<boolean> = {
  expected: 'true or false',
  type: z.boolean(),
  fromText: (given) => z.stringbool().safeParse(given.trim()).data ?? given,
};

/** The name of a profile also becomes the name of a folder and the end of variables. */
export const profileName = /^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$/;

export const name: Kind<string> = {
  expected: 'a name of up to 32 letters, digits, - and _, such as staging',
  type: z.string().check(z.regex(profileName)),
};

/** What the server is, and the colour in which people see that. */
export interface Environment {
  readonly name: string;
  readonly color: string | undefined;
}

export const environment: Kind<Environment> = {
  expected: 'a name, and red, orange, green, blue or purple if it shall have a colour, such as production red',
  type: becoming(plainText, (given) => {
    const [, named, color] = /^([\p{L}\d_-]{1,24})(?: (red|orange|green|blue|purple))?$/u.exec(given.trim()) ?? [];
    return named === undefined ? undefined : { name: named, color };
  }),
};

export const words: Kind<string> = {
  expected: 'text of up to 200 characters',
  type: plainText.check(z.maxLength(200)),
};

/** Names in a list, or one alone. */
export function names(expected: string, accepts: (name: string) => boolean): Kind<readonly string[]> {
  const one = text.type.check(z.refine(accepts));
  return {
    expected,
    type: z.union([
      z.pipe(
        one,
        z.transform((given) => [given]),
      ),
      z.array(one).check(z.minLength(1)),
    ]),
  };
}

type Related = Readonly<Record<ResourceName, { readonly include: readonly string[] }>>;

const relatedNames = resourceNames.flatMap((each) =>
  (resourceOf(each).includes ?? []).map((include) => `${each}.${include}`),
);
const include = z.nullable(z.strictObject({ include: z.optional(list) }));

/** The related records of each resource. In a variable: `users.orders,packages.prices`. */
export const related: Kind<Related> = {
  expected: `related records by resource, such as users: { include: [orders] } or, in a variable, ${relatedNames.slice(0, 1).join()}, or none`,
  names: relatedNames,
  fromText: (given) => namesIn(given),
  type: becoming(
    z.union([z.literal('none'), z.array(z.string()), z.partialRecord(z.enum(resourceNames), include)]),
    (given) => {
      const named = relatedIn(given);
      if (!named.every((each) => relatedNames.includes(each))) return undefined;
      const of = (resource: ResourceName) => ({
        include: [...new Set(named)].flatMap((each) =>
          each.startsWith(`${resource}.`) ? [each.slice(resource.length + 1)] : [],
        ),
      });
      return Object.fromEntries(resourceNames.map((each) => [each, of(each)])) as unknown as Related;
    },
  ),
};

/** `{ users: { include: [orders] } }` → `['users.orders']`; also of a value that is not accepted. */
export function relatedIn(given: unknown): string[] {
  if (typeof given === 'string' || Array.isArray(given)) return namesIn(given);
  return Object.entries((given ?? {}) as Record<string, unknown>).flatMap(([resource, own]) => {
    const { data } = include.safeParse(own);
    return namesIn(data?.include ?? []).map((each) => `${resource}.${each}`);
  });
}

/** The documented fields of all resources, without `id`. */
const fieldNames: readonly string[] = [
  ...new Set(resourceNames.flatMap((each) => resourceOf(each).fields.map((field) => field.name))),
].filter((each) => each !== 'id');

/** Documented fields, or any other as `_extra.name`. */
export const fields: Kind<readonly string[]> = {
  expected: 'names of fields, such as last_seen_at, updated_at or _extra.last_ip, or none',
  names: fieldNames,
  type: namesInList.check(z.refine((all) => all.every((each) => fieldNames.includes(each) || /^_extra\../.test(each)))),
};

/** How many rows a run may remove at once, by resource; empty for the brake's own rule. */
export const brake: Kind<Readonly<Partial<Record<ResourceName, number>>>> = {
  expected: 'resources with numbers of rows, such as emails=200 or [emails=200, coupons=20], or auto',
  type: becoming(list, (given) => {
    const rows: Partial<Record<ResourceName, number>> = {};
    for (const pair of given === 'auto' ? [] : namesIn(given)) {
      const [, resource = '', most] = /^(\w+)=(\d{1,9})$/.exec(pair) ?? [];
      if (!isResourceName(resource) || Number(most) === 0) return undefined;
      rows[resource] = Number(most);
    }
    return Object.freeze(rows);
  }),
};

/** An address and a port; port 0 stands for any free one. An IPv6 address stands in brackets. */
export const listen = orOff({
  expected: 'an address and a port such as 127.0.0.1:9464',
  type: becoming(z.string(), (given) => {
    const [, bracketed, plain, digits] = /^(?:\[([\da-f:.]+)\]|([\w.-]+)):(\d{1,5})$/i.exec(given) ?? [];
    const host = bracketed ?? plain;
    const port = Number(digits);
    return host !== undefined && port < 65_536 ? { host, port } : undefined;
  }),
});

/** The path of such an address may be the only secret that keeps others from using it. */
export const hook: Kind<SecretAddress> = {
  is: 'hook',
  expected: 'an address that begins with https:// (http:// for this machine alone)',
  type: becoming(z.string().check(z.regex(/^https?:\/\//)), (given) => {
    if (!URL.canParse(given)) return undefined;
    const { protocol, hostname, username, hash, href } = new URL(given);
    const isPrivate = protocol === 'https:' || isLoopback(hostname);
    return isPrivate && username === '' && hash === '' ? new SecretAddress(href) : undefined;
  }),
};

/** A program and its arguments. A text is split at its spaces; nothing else in it has a meaning, since no shell reads it. */
export const program: Kind<readonly string[]> = {
  expected: 'a program with its arguments, as one text or in a list',
  type: becoming(list, (given) => {
    const parts = typeof given === 'string' ? given.split(/\s+/).filter((part) => part !== '') : given;
    return (parts[0] ?? '') !== '' && parts.every((part) => !part.includes('\0')) ? parts : undefined;
  }),
};

export const database: Kind<NonNullable<ReturnType<typeof parseDatabaseAddress>>> = {
  is: 'database',
  expected: 'the address of a database such as postgresql://mirror@db.example.com/shop, without a password',
  type: becoming(z.string().check(z.regex(/^postgres(?:ql)?:\/\//)), parseDatabaseAddress),
};
