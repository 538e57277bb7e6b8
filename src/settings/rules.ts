/** What must hold of addresses and tokens, whatever their kind accepts: nothing secret crosses a network in clear. */
import { isLoopback } from '../model/address.ts';
import { UsageError } from '../model/errors.ts';
import { SecretAddress } from '../model/secret.ts';
import type { Settings } from './settings.ts';
import type { SettingValues } from './table.ts';

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
