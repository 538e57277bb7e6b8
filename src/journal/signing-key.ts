/**
 * The key pair (Ed25519) that signs documents. It lies beside the journal: `receipt.key`, readable by its owner alone, and
 * `receipt.pub` for those who check. Section "Receipts" of docs/architecture.md.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
  sign,
  verify,
} from 'node:crypto';
import { closeSync, existsSync, fchmodSync, fsyncSync, linkSync, openSync, rmSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { FileError, UsageError } from '../model/errors.ts';
import { explainFileError, makeFolder, readRegularFile, refusePlanted } from '../model/files.ts';

export interface SigningKey {
  /** SHA-256 of the public key (DER), in hexadecimal. */
  readonly id: string;
  /** Returns the Ed25519 signature of the text, in hexadecimal. */
  readonly sign: (text: string) => string;
}

export interface CheckingKey {
  readonly id: string;
  readonly fits: (text: string, signature: string) => boolean;
}

export function keyFiles(journal: string): { readonly signing: string; readonly checking: string } {
  return { signing: join(dirname(journal), 'receipt.key'), checking: join(dirname(journal), 'receipt.pub') };
}

/** Opens the key; makes it if there is none. Throws a FileError if it cannot be used, or if others can read it. */
export function openSigningKey(journal: string): { readonly key: SigningKey; readonly isNew: boolean } {
  const { signing, checking } = keyFiles(journal);
  const isNew = !existsSync(signing) && makeKey(signing, checking);
  const { bytes, mode } = readKeyFile(signing, refusePlanted);
  if ((mode & 0o077) !== 0) {
    throw new FileError(`${signing} can be read by others, who could sign with it`, {
      advice: `Run: chmod 600 ${signing}. If somebody has read it, move it and receipt.pub away: a new pair is made.`,
    });
  }
  const secret = ed25519(() => createPrivateKey(bytes), signing);
  const own = createPublicKey(secret);
  if (!existsSync(checking)) writeKeyFile(checking, own.export({ type: 'spki', format: 'pem' }), 0o644);
  const id = keyId(own);
  if (openCheckingKey(checking).id !== id) {
    throw new FileError(`${checking} is not the public key of ${signing}`, {
      advice: 'Put back the one that belongs to it, or move it away: it is written anew.',
    });
  }
  return { key: { id, sign: (text) => sign(null, Buffer.from(text), secret).toString('hex') }, isNew };
}

/** Reads the public key. Throws a FileError or UsageError if the file has none. */
export function openCheckingKey(file: string): CheckingKey {
  const { bytes } = readKeyFile(file);
  const key = ed25519(() => createPublicKey(bytes), file);
  return {
    id: keyId(key),
    fits: (text, signature) => verify(null, Buffer.from(text), key, Buffer.from(signature, 'hex')),
  };
}

/** Returns false if another process was faster. */
function makeKey(signing: string, checking: string): boolean {
  if (existsSync(checking)) {
    throw new FileError(`${checking} exists, but the key that it belongs to (${signing}) does not`, {
      advice:
        'Put the key back. Where it is lost, keep receipt.pub somewhere else, as it checks what was signed before: then ' +
        'a new pair is made.',
    });
  }
  const { privateKey } = generateKeyPairSync('ed25519');
  return writeKeyFile(signing, privateKey.export({ type: 'pkcs8', format: 'pem' }), 0o600);
}

/** Writes a new key file, whole or not at all. Returns false if there is one by now; that one stays. Throws a FileError. */
export function writeKeyFile(path: string, text: string | Buffer, mode: number): boolean {
  const temporary = join(dirname(path), `.${randomUUID()}.tmp`);
  try {
    makeFolder(dirname(path));
    const handle = openSync(temporary, 'wx', mode);
    try {
      fchmodSync(handle, mode);
      writeSync(handle, text.toString());
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    // A rename would replace a key that another process has just made and already signs with.
    linkSync(temporary, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw explainFileError(error, 'write the key file', path) ?? error;
  } finally {
    rmSync(temporary, { force: true });
  }
}

/**
 * Throws a FileError.
 * @param check throws if the file must not be used
 */
export function readKeyFile(file: string, check: (file: string) => void = () => {}) {
  try {
    check(file);
    return readRegularFile(file);
  } catch (error) {
    throw explainFileError(error, 'read the key file', file) ?? error;
  }
}

function ed25519(read: () => KeyObject, file: string): KeyObject {
  let key: KeyObject | undefined;
  try {
    key = read();
  } catch {
    // The error below replaces this one: the words of OpenSSL help nobody.
  }
  if (key?.asymmetricKeyType === 'ed25519') return key;
  throw new UsageError(`${file} holds no Ed25519 key in PEM format`, {
    advice: 'Public keys are called receipt.pub: `admin-mirror bulk receipt` says where its own lies.',
  });
}

function keyId(key: KeyObject): string {
  return createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest('hex');
}
