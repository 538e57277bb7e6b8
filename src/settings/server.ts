/**
 * How to reach other machines: the server and its key, the proxy, certificates, and the shared store. Nothing secret crosses a network
 * in clear.
 */
import { UsageError } from '../model/errors.ts';
import { fileReason, readRegularFile } from '../model/files.ts';
import { Secret, SecretAddress } from '../model/secret.ts';
import { profileVariable } from './profiles.ts';
import type { Settings } from './settings.ts';
import { type SettingKey, settingOf, type SettingValues } from './table.ts';
import { X509Certificate } from 'node:crypto';
import { isLoopback, type SharedStore } from '../model/address.ts';

/** Returns the address and the key. Throws a UsageError that names every place where a missing one can be set. */
export function serverOf(settings: Settings) {
  return { baseUrl: baseUrlOf(settings), ...keyOf(settings) };
}

export function baseUrlOf({ api, profile }: Settings): string {
  if (api.baseUrl !== undefined) return api.baseUrl;
  const variable = variableOf('api.base_url', profile);
  throw new UsageError(`no base address is set${ofProfile(profile)}`, {
    advice:
      profile === undefined
        ? `Give --base-url, or set ${variable} (in the environment or in .env), or api.base_url in config/admin-mirror.yaml.`
        : `Write it into the profile as api.base_url, or set ${variable}.`,
  });
}

/** Returns the key from its variable, or else from the key file, which is read now. */
export function keyOf({ profile, api }: Settings): { readonly key: Secret; readonly warnings: readonly string[] } {
  const variable = variableOf('api.key', profile);
  if (api.key !== undefined) {
    const isOpen = 'the file .env holds the key and can be read by others: chmod 600 .env';
    return { key: typedKey(api.key.reveal(), variable), warnings: api.keyIsOpen ? [isOpen] : [] };
  }
  const { keyFile: file } = api;
  if (file === undefined) {
    const common = ' The common one counts only for the common api.base_url, or with {profile} in it.';
    throw new UsageError(`no API key is set${ofProfile(profile)}`, {
      advice:
        `Set ${variable} (in the environment or in .env), or write the key into a file and name it in ${variable}_FILE, or as ` +
        `api.key_file in ${profile === undefined ? 'config/admin-mirror.yaml.' : `the profile.${common}`}`,
    });
  }
  const { text, mode } = readSecretFile(file, 'api.key');
  const isOpen = (mode & 0o077) !== 0 && !api.keyIsCredential;
  return {
    key: typedKey(text, `the key file ${file}`),
    warnings: isOpen ? [`the key file ${file} can be read by others: chmod 600 ${file}`] : [],
  };
}

function variableOf(key: SettingKey, profile: string | undefined): string {
  return profile === undefined ? settingOf(key).env : profileVariable(settingOf(key), profile);
}

function ofProfile(profile: string | undefined): string {
  return profile === undefined ? '' : ` for the profile ${profile}`;
}

/**
 * Returns a secret from its variable, or else from its file, which is read now; undefined if neither is set. Throws a UsageError
 * if the file cannot be read.
 */
export function secretIn(secret: Secret | undefined, file: string | undefined, key: SettingKey): Secret | undefined {
  return file === undefined ? secret : new Secret(readSecretFile(file, key).text);
}

/** Throws a UsageError if the file cannot be read. */
function readSecretFile(file: string, key: SettingKey): { text: string; mode: number } {
  try {
    const { bytes, mode } = readRegularFile(file);
    return { text: bytes.toString('utf8').trim(), mode };
  } catch (error) {
    const { env } = settingOf(key);
    const advice = `Correct ${env}_FILE or ${key}_file, or set ${env}.`;
    throw new UsageError(`the file of ${key} ${file} cannot be read: ${fileReason(error)}`, { advice, cause: error });
  }
}

/** Returns a key that was typed. Throws a UsageError if it cannot be a key. @param where the place of the key, for the message */
export function typedKey(text: string, where = 'what was given as the key'): Secret {
  const key = text.trim();
  // It goes into a header as it is. In quotes, the quotes would be sent as part of it.
  if (/^[\x21-\x7e]+$/.test(key) && !/^(["']).*\1$/.test(key)) return new Secret(key);
  throw new UsageError(`${where} ${key === '' ? 'is empty' : 'is not one word of plain characters'}`, {
    advice: 'The key alone must stand there, on one line, without spaces and quotes.',
  });
}

/** Returns how other machines are reached; reads the certificates now. Throws a UsageError if that fails. */
export function networkOf({ network }: Pick<Settings, 'network'>): {
  readonly proxy: string | undefined;
  readonly noProxy: string | undefined;
  readonly ca: string | undefined;
} {
  const { proxy, noProxy, caFile } = network;
  return { proxy: proxy?.reveal(), noProxy, ca: caFile === undefined ? undefined : certificatesIn(caFile).join('\n') };
}

/** Returns the certificates of the file, each as PEM. Throws a UsageError if the file has none or cannot be read. */
export function certificatesIn(file: string): readonly string[] {
  const advice = 'Correct network.ca_file or ADMIN_MIRROR_CA_FILE: a file of certificates in PEM.';
  let found: readonly string[];
  try {
    found =
      readRegularFile(file)
        .bytes.toString()
        .match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
    for (const each of found) void new X509Certificate(each);
  } catch (error) {
    throw new UsageError(`the certificates in ${file} cannot be read: ${fileReason(error)}`, { advice, cause: error });
  }
  if (found.length === 0) throw new UsageError(`there is no certificate in ${file}`, { advice });
  return found;
}

/** Returns the shared store; undefined if none is set. Reads the password now, and throws a UsageError if its file cannot be read. */
export function sharedStoreOf(settings: Settings): SharedStore | undefined {
  const { store, profile } = settings;
  if (store.shared === undefined) return undefined;
  return {
    address: store.shared,
    password: secretIn(store.sharedPassword, store.sharedPasswordFile, 'store.shared_password'),
    ca: networkOf(settings).ca,
    leaseMs: store.sharedLeaseMs,
    schema: profile === undefined ? 'admin_mirror_store' : `admin_mirror_store_${profile}`,
  };
}

/** Returns the http or https proxy, or why it is none. Without a scheme it is http, as other programs read such variables. */
export function proxyIn(text: string | undefined): SecretAddress | UsageError | undefined {
  if (text === undefined) return undefined;
  const given = text.includes('://') ? text.trim() : `http://${text.trim()}`;
  const url = URL.canParse(given) ? new URL(given) : undefined;
  const isProxy = url !== undefined && ['http:', 'https:'].includes(url.protocol) && url.pathname === '/';
  if (isProxy) return new SecretAddress(url.href);
  return new UsageError('HTTPS_PROXY is a value that is not shown: expected the address of a proxy', {
    advice: 'Set it as in http://proxy.example.com:3128, or leave it out.',
  });
}

/** A shorter token could be guessed. */
const minTokenLength = 16;

/** The health says how many users there are and what fails, so other machines need a token to read it. */
export function tokenProblem({ worker: { listen, token, tokenFile } }: Settings): UsageError | undefined {
  const advice =
    `Set ADMIN_MIRROR_WORKER_TOKEN to at least ${minTokenLength} random characters, or listen on 127.0.0.1 alone; ` +
    'a client sends it as "Authorization: Bearer …".';
  const { length } = token?.reveal() ?? '';
  if (token !== undefined && length < minTokenLength) return new UsageError('worker.token is too short', { advice });
  if ((token ?? tokenFile) !== undefined || listen === undefined || isLoopback(listen.host)) return undefined;
  return new UsageError(`worker.listen is ${listen.host}, where other machines can connect, so it needs a token`, {
    advice,
  });
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
