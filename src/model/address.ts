/**
 * Addresses: which hosts are this machine, and where a database is. They never hold a password; that comes from a file or a
 * variable.
 */
import type { Secret } from './secret.ts';

/** `required`: encrypted, whoever responds. `verified`: encrypted, and the server's certificate is checked. */
type DatabaseTls = 'off' | 'required' | 'verified';

interface DatabaseAddress {
  /** IPv6 without brackets. A folder if the server is reached through a socket in it. */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly tls: DatabaseTls;
}

/** Everything needed to connect. */
export interface DatabaseAccess {
  readonly address: DatabaseAddress;
  /** Undefined if the server wants none. */
  readonly password: Secret | undefined;
  /** Certificates (PEM) to trust besides the usual ones. */
  readonly ca: string | undefined;
}

/** The store that several machines share: a schema of a database. */
export interface SharedStore extends DatabaseAccess {
  /** Each profile has its own. */
  readonly schema: string;
  /** How long a lock lasts without renewal; 45 s by default. */
  readonly leaseMs?: number;
}

const tlsModes: Readonly<Record<string, DatabaseTls>> = {
  disable: 'off',
  require: 'required',
  'verify-full': 'verified',
};

/**
 * Parses `postgresql://user@host:5432/database`, with `?sslmode=disable|require|verify-full` or, for a socket, `?host=/folder`.
 * Without `sslmode`, connections that leave this machine are encrypted and verified. Undefined if it is no such URL or has a
 * password.
 */
export function parseDatabaseAddress(text: string): DatabaseAddress | undefined {
  // A URL with a user must have a host.
  const given = text.replace(/^(postgres(?:ql)?:\/\/[^/@]*@)(?=\/)/, `$1${noHost}`);
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || !['postgresql:', 'postgres:'].includes(url.protocol)) return undefined;
  const { hostname, port, username, password, pathname, searchParams, hash } = url;
  const [folder, mode] = [searchParams.get('host'), searchParams.get('sslmode')];
  const known = [...searchParams.keys()].every((name) => name === 'host' || name === 'sslmode');
  const host = hostname === noHost || hostname === '' ? (folder ?? '') : hostname.replaceAll(/[[\]]/g, '');
  const isSocket = host.startsWith('/');
  const [database, user] = [decoded(pathname.slice(1)), decoded(username)];
  const tls = mode === null ? (isSocket || isLoopback(host) ? 'off' : 'verified') : tlsModes[mode];
  const isWhole = host !== '' && database !== '' && !database.includes('/') && user !== '' && tls !== undefined;
  if (!isWhole || !known || password !== '' || hash !== '' || (folder !== null && !isSocket)) return undefined;
  return { host, port: Number(port || 5_432), database, user, tls };
}

const noHost = 'socket.invalid';

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

/** For messages: `postgresql://mirror@db.example.com:5432/mirror`. */
export function databaseText({ host, port, database, user }: DatabaseAddress): string {
  const name = `/${encodeURIComponent(database)}`;
  const by = encodeURIComponent(user);
  if (host.startsWith('/')) return `postgresql://${by}@${name}?host=${host}`;
  return `postgresql://${by}@${hostInUrl(host)}:${port}${name}`;
}

/** Returns the host as a URL has it: IPv6 in brackets. */
export function hostInUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Returns whether the host is this machine. IPv6 may have brackets. */
export function isLoopback(host: string): boolean {
  return (
    host === 'localhost' ||
    host.endsWith('.localhost') ||
    host === '[::1]' ||
    host === '::1' ||
    /^127(?:\.\d+){3}$/.test(host)
  );
}
