/** The store that several machines share, as the settings name it. */
import type { SharedStore } from '../model/database-address.ts';
import { UsageError } from '../model/errors.ts';
import { fileReason } from '../model/file-error.ts';
import { readRegularFile } from '../model/read-file.ts';
import { Secret } from '../model/secret.ts';
import { networkOf } from './network.ts';
import type { Settings } from './settings.ts';

/** Undefined where there is none. The password is read now. Throws a UsageError where its file cannot be read. */
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
