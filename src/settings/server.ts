/** How to reach other machines: the server and its key, the proxy, certificates, and the shared store. */
import { UsageError } from '../model/errors.ts';
import { fileReason, readRegularFile } from '../model/files.ts';
import { Secret } from '../model/secret.ts';
import { profileVariable } from './profiles.ts';
import { credentialsWord, type Settings } from './settings.ts';
import { type SettingKey, settingOf } from './table.ts';
import { createHash, X509Certificate } from 'node:crypto';
import type { SharedStore } from '../model/address.ts';

/** Returns the address and the key. Throws a UsageError that names every place where a missing one can be set. */
export function serverOf(settings: Settings) {
  const baseUrl = baseUrlOf(settings);
  const { key, warnings } = keyOf(settings);
  const unsafe = unsafeVariable(settings);
  return {
    baseUrl,
    key,
    warnings: unsafe === undefined ? warnings : [...warnings, `${unsafe.message}. ${unsafe.advice}`],
  };
}

/** Returns the problem of a variable that would have Node accept any certificate: the key would go to whoever is in between. */
export function unsafeVariable({ network }: Pick<Settings, 'network'>): UsageError | undefined {
  if (!network.asksNotToVerify) return undefined;
  return new UsageError('NODE_TLS_REJECT_UNAUTHORIZED=0 is not obeyed: certificates are always verified', {
    advice: 'Remove it. To trust a certificate of your own, name its file in network.ca_file or ADMIN_MIRROR_CA_FILE.',
  });
}

/** Returns a mark of the address and the key: settings with the same mark share one limit of requests. Undefined if nothing can be sent. */
export function limitMark(settings: Settings): string | undefined {
  try {
    const { baseUrl, key } = serverOf(settings);
    return createHash('sha256').update(`${baseUrl} ${key.reveal()}`).digest('hex');
  } catch {
    // The problem is reported when something is sent.
    return undefined;
  }
}

export function baseUrlOf(settings: Settings): string {
  if (settings.api.baseUrl !== undefined) return settings.api.baseUrl;
  if (settings.profile !== undefined) {
    throw new UsageError(`no base address is set for the profile ${settings.profile}`, {
      advice: `Write it into the profile as api.base_url, or set ${profileVariable(settingOf('api.base_url'), settings.profile)}.`,
    });
  }
  throw new UsageError('no base address is set', {
    advice:
      'Give --base-url, or set ADMIN_MIRROR_BASE_URL (in the environment or in .env), ' +
      'or api.base_url in config/admin-mirror.yaml.',
  });
}

/** Returns the key from its variable, or else from the key file, which is read now. */
export function keyOf(settings: Settings): { readonly key: Secret; readonly warnings: readonly string[] } {
  const { profile, api } = settings;
  const variable = profile === undefined ? settingOf('api.key').env : profileVariable(settingOf('api.key'), profile);
  if (api.key !== undefined) {
    const isOpen = 'the file .env holds the key and can be read by others: chmod 600 .env';
    return { key: checked(api.key, variable), warnings: api.keyIsOpen ? [isOpen] : [] };
  }
  const { keyFile: file } = api;
  if (file === undefined) throw noKey(profile, variable);
  if (file.includes(credentialsWord)) {
    throw new UsageError(`the key file ${credentialsWord}… is a credential of systemd, and there is none here`, {
      advice: 'Run it as the service that has LoadCredential, or set ADMIN_MIRROR_API_KEY_FILE to another file.',
    });
  }
  const { text, mode } = readSecretFile(file, 'api.key');
  const isOpen = (mode & 0o077) !== 0 && !api.keyIsCredential;
  return {
    key: checked(new Secret(text), `the key file ${file}`),
    warnings: isOpen ? [`the key file ${file} can be read by others: chmod 600 ${file}`] : [],
  };
}

function noKey(profile: string | undefined, variable: string): UsageError {
  if (profile !== undefined) {
    return new UsageError(`no API key is set for the profile ${profile}`, {
      advice:
        `Set ${variable} (in the environment or in .env), or write the key into a file and name it as api.key_file ` +
        'in the profile. The common api.key_file counts only for the common api.base_url, or with {profile} in it.',
    });
  }
  return new UsageError('no API key is set', {
    advice:
      'Set ADMIN_MIRROR_API_KEY (in the environment or in .env), or write the key into a file and name it in ' +
      'ADMIN_MIRROR_API_KEY_FILE, or as api.key_file in config/admin-mirror.yaml.',
  });
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
  return checked(new Secret(text.trim()), where);
}

/** Common mistakes: a pattern, the problem and the advice. A key goes into a header as it is. */
const slips: readonly (readonly [RegExp, string, string])[] = [
  [/^$/, 'is empty', 'The key must stand there, and nothing else.'],
  [/\s/, 'holds a space or a line break, which no key has', 'The key alone must stand there, on one line.'],
  [/^(["']).*\1$/, 'is in quotes, which would be sent as part of the key', 'Remove the quotes.'],
  [/[^\x21-\x7e]/, 'holds a character that no key has', 'Copy the key again.'],
];

function checked(key: Secret, where: string): Secret {
  const slip = slips.find(([pattern]) => pattern.test(key.reveal()));
  if (slip === undefined) return key;
  throw new UsageError(`${where} ${slip[1]}`, { advice: slip[2] });
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
