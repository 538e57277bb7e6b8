/** How other machines are reached: the proxy, certificates, and the store that several machines share. */
import { X509Certificate } from 'node:crypto';
import type { SharedStore } from '../model/address.ts';
import { UsageError } from '../model/errors.ts';
import { fileReason, readRegularFile } from '../model/files.ts';
import { Secret } from '../model/secret.ts';
import type { Settings } from './settings.ts';

/** How other machines are reached, the certificates read now. Throws a UsageError. */
export function networkOf({ network }: Pick<Settings, 'network'>): {
  readonly proxy: string | undefined;
  readonly noProxy: string | undefined;
  readonly ca: string | undefined;
} {
  const { proxy, noProxy, caFile } = network;
  return { proxy: proxy?.reveal(), noProxy, ca: caFile === undefined ? undefined : certificatesIn(caFile).join('\n') };
}

/** The certificates of the file, each as PEM. Throws a UsageError where there is none that can be read. */
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

/** The store that several machines share; undefined where there is none. The password is read now. Throws a UsageError where its file cannot be read. */
export function sharedStoreOf(settings: Settings): SharedStore | undefined {
  const { shared: address } = settings.store;
  if (address === undefined) return undefined;
  const { profile } = settings;
  return {
    address,
    password: passwordOf(settings),
    ca: networkOf(settings).ca,
    leaseMs: settings.store.sharedLeaseMs,
    schema: profile === undefined ? 'admin_mirror_store' : `admin_mirror_store_${profile}`,
  };
}

function passwordOf({ store: { sharedPassword, sharedPasswordFile: file } }: Settings): Secret | undefined {
  if (sharedPassword !== undefined || file === undefined) return sharedPassword;
  const advice = 'Correct store.shared_password_file, or set ADMIN_MIRROR_STORE_SHARED_PASSWORD.';
  return passwordIn(file, 'file of the password of the shared store', advice);
}

/** The one password of the file. Throws a UsageError. @param what the file is, in words */
export function passwordIn(file: string, what: string, advice: string): Secret {
  try {
    return new Secret(readRegularFile(file).bytes.toString('utf8').trim());
  } catch (error) {
    throw new UsageError(`the ${what} ${file} cannot be read: ${fileReason(error)}`, { advice, cause: error });
  }
}
