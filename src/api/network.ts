/**
 * The way to other machines: through a proxy where there is one, and trusting certificates of one's own besides the usual.
 * Nothing here reads the environment, where undici would look by itself.
 */
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { Agent, type Dispatcher, EnvHttpProxyAgent } from 'undici';
import { isLoopback } from '../model/address.ts';

export interface Network {
  /** The proxy for https addresses, with its user and password; undefined where there is none. */
  readonly proxy?: string | undefined;
  /** Hosts that are reached without it, as in NO_PROXY. */
  readonly noProxy?: string | undefined;
  /** Certificates in PEM that count besides those of the system. */
  readonly ca?: string | undefined;
}

/** Whether the address may be reached through the proxy: https, and not this machine. `noProxy` may still exclude it. */
export function mayBeProxied(address: string, { proxy }: Network): boolean {
  const { protocol, hostname } = new URL(address);
  return proxy !== undefined && protocol === 'https:' && !isLoopback(hostname);
}

/** What sends requests to the address, in the way of the network. The caller closes it. */
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

/** With `ca` alone, Node would trust nothing else. Made once: reading all certificates takes milliseconds. */
function trusting(ca: string): SecureContext {
  return createSecureContext({ ca: [...getCACertificates('default'), ca] });
}
