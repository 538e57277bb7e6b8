/**
 * Connects to other machines, through a proxy if one is set, and trusts extra certificates. All settings are passed in, so
 * that undici reads none from the environment.
 */
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, type Dispatcher, EnvHttpProxyAgent } from 'undici';
import { isLoopback } from '../model/address.ts';

export interface Network {
  /** The proxy for https addresses, with its user and password. */
  readonly proxy?: string | undefined;
  /** Hosts to reach without the proxy, as in NO_PROXY. */
  readonly noProxy?: string | undefined;
  /** PEM certificates to trust besides the usual ones. */
  readonly ca?: string | undefined;
}

/** Whether the proxy applies to the address: it is https and not this machine. `noProxy` may still exclude it. */
export function mayBeProxied(address: string, { proxy }: Network): boolean {
  const { protocol, hostname } = new URL(address);
  return proxy !== undefined && protocol === 'https:' && !isLoopback(hostname);
}

/** Opens a dispatcher that reaches the address through the network. The caller closes it. */
export function openDispatcher(
  address: string,
  network: Network,
  { connectTimeoutMs, ...options }: Omit<Agent.Options, 'connect' | 'factory'> & { readonly connectTimeoutMs: number },
): Dispatcher {
  const secureContext = network.ca === undefined ? undefined : trusting(network.ca);
  const tls = secureContext === undefined ? {} : { secureContext };
  const connect = { timeout: connectTimeoutMs, ...tls };
  if (!mayBeProxied(address, network)) return new Agent({ ...options, connect });
  return new EnvHttpProxyAgent({
    ...options,
    connect,
    connectTimeout: connectTimeoutMs,
    requestTls: tls,
    proxyTls: tls,
    httpProxy: '',
    httpsProxy: network.proxy ?? '',
    noProxy: network.noProxy ?? '',
  });
}

/** Lists Node's own certificates, too: with `ca` alone, Node would trust no others. Called once, because it takes milliseconds. */
function trusting(ca: string): SecureContext {
  return createSecureContext({ ca: [...getCACertificates('default'), ca] });
}
