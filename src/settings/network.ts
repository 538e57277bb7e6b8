/** The proxy and the certificates with which other machines are reached. */
import { X509Certificate } from 'node:crypto';
import { UsageError } from '../model/errors.ts';
import { fileReason } from '../model/file-error.ts';
import { readRegularFile } from '../model/read-file.ts';
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
