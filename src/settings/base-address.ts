/** What the schema of one value cannot see of the base address: http to another machine, and a path too many. */
import { UsageError } from '../model/errors.ts';
import { withoutCredentials } from '../model/secret-words.ts';
import { expectedOf, readValue, type SettingValues } from './kinds.ts';
import { isLoopback } from '../model/loopback.ts';

/** Why the address must not be used; undefined where it may. `origin` says where it was set. */
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

/** The address that was typed, without its last slash. Throws a UsageError where it is none, or must not be used. */
export function checkedAddress(text: string, insecureHttp: boolean): string {
  const address = readValue('api.base_url', text.trim())?.value;
  if (address === undefined) {
    throw new UsageError(`"${withoutCredentials(text.trim())}" is not ${expectedOf('api.base_url')}`);
  }
  const problem = addressProblem({ 'api.base_url': address, 'api.insecure_http': insecureHttp }, 'as given');
  if (problem !== undefined) throw problem;
  return address;
}
