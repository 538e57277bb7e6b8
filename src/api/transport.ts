/**
 * Connections to other machines: opened through a proxy if one is set, trusting extra certificates, with all settings passed
 * in, so that undici reads none from the environment. And why no whole response came: one error for sockets, TLS, HTTP parsing
 * and time limits.
 */
import { BlockList, isIP } from 'node:net';
import { createSecureContext, getCACertificates } from 'node:tls';
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

/** Whether the proxy applies to the address: it is https and not this machine. A name in `noProxy` may still exclude it. */
export function mayBeProxied(address: string, { proxy, noProxy = '' }: Network): boolean {
  const { protocol, hostname } = new URL(address);
  return proxy !== undefined && protocol === 'https:' && !isLoopback(hostname) && !isInRange(hostname, noProxy);
}

/** Whether the host is an IP address in a range of the list, such as `10.0.0.0/8`. undici knows names alone. */
function isInRange(hostname: string, noProxy: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host) === 0) return false;
  return membersOf(noProxy).some((member) => rangeOf(member)?.check(host, isIP(host) === 4 ? 'ipv4' : 'ipv6'));
}

function membersOf(noProxy: string): string[] {
  return noProxy.split(/[\s,]+/).filter((member) => member !== '');
}

function rangeOf(member: string): BlockList | undefined {
  const [, net = '', bits = ''] = /^([\d.a-f:]+)\/(\d{1,3})$/i.exec(member) ?? [];
  const family = isIP(net);
  if (family === 0 || Number(bits) > (family === 4 ? 32 : 128)) return undefined;
  const range = new BlockList();
  range.addSubnet(net, Number(bits), family === 4 ? 'ipv4' : 'ipv6');
  return range;
}

/** Returns the members of the list that match no host: neither a name, perhaps with `*.` before it, nor a range. */
export function unreadMembers(noProxy: string): string[] {
  return membersOf(noProxy).filter((member) =>
    member.includes('/') ? rangeOf(member) === undefined : /.\*|^\*[^.]/.test(member),
  );
}

/** Opens a dispatcher that reaches the address through the network. The caller closes it. */
export function openDispatcher(
  address: string,
  network: Network,
  { connectTimeoutMs, ...options }: Omit<Agent.Options, 'connect' | 'factory'> & { readonly connectTimeoutMs: number },
): Dispatcher {
  const { ca } = network;
  // With `ca` alone, Node would trust no others. Made once, because it takes milliseconds.
  const trusted = ca && { secureContext: createSecureContext({ ca: [...getCACertificates('default'), ca] }) };
  // Stated, because NODE_TLS_REJECT_UNAUTHORIZED would count otherwise.
  const tls = { rejectUnauthorized: true, ...trusted };
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

/**
 * `connect`: no connection could be opened. `tls`: the server's certificate is not valid, or it does not speak TLS. `reset`: the
 * connection broke. `timeout`: no whole response in time. `too-large`: the body is over the bound. `protocol`: what came is
 * not HTTP. `aborted`: the caller stopped it after sending had begun. `late`: `mayBegin` refused to send it.
 */
export type TransportFault = 'connect' | 'tls' | 'reset' | 'timeout' | 'too-large' | 'protocol' | 'aborted' | 'late';

export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly fault: TransportFault;
  /** False if it is certain that nothing of the request was sent. */
  readonly sent: boolean;

  constructor(message: string, fault: TransportFault, sent: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.fault = fault;
    this.sent = sent;
  }
}

/** Where the words of Node.js or undici do not say enough. */
const messages: Readonly<Record<string, string>> = {
  HTTPParserError: 'the response is not HTTP',
  Z_DATA_ERROR: 'the response is not compressed as its headers say',
  Z_BUF_ERROR: 'the compressed response is cut short',
  ECONNREFUSED: 'the connection was refused',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the host name could not be looked up',
  UND_ERR_CONNECT_TIMEOUT: 'the connection was not accepted in time',
  ECONNRESET: 'the connection was reset',
  UND_ERR_SOCKET: 'the connection was closed before the response was whole',
  CERT_HAS_EXPIRED: "the server's certificate has expired",
  CERT_NOT_YET_VALID: "the server's certificate is not valid yet",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the server's certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "the server's certificate chain is self-signed",
  ERR_TLS_CERT_ALTNAME_INVALID: "the server's certificate is for another name",
  ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not speak TLS on this port',
};

const unverified = "the server's certificate cannot be verified";
/** undici's `bad response`: bytes that came before a request, or `100 Continue`, which we never request. */
const unrequested =
  'the server, or something in front of it, sent a response that was not requested, such as 100 Continue';

function faultOf(code: string, sent: boolean): TransportFault {
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/.test(code)) return 'tls';
  if (!sent) return 'connect';
  if (code === 'ETIMEDOUT') return 'timeout';
  return /^(HPE_|HTTPParserError$|UND_ERR_RES)/.test(code) ? 'protocol' : 'reset';
}

/** The `code` of an error of Node.js or undici: `ECONNREFUSED`, `UND_ERR_SOCKET`. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** Turns the error into a TransportError without the key. The original may hold the request in its fields, so its words are copied. */
export function transportErrorOf(
  error: unknown,
  { sent, redact, fault }: { sent: boolean; redact: (text: string) => string; fault: TransportFault | undefined },
): TransportError {
  const known = error instanceof Error ? error : new Error(String(error));
  const code = codeOf(error) ?? (known.name === 'HTTPParserError' ? known.name : '');
  const words = `${known.name}: ${known.message}`;
  const cause = new Error(redact(code === '' || words.includes(code) ? words : `${words} (${code})`));
  // A stack would point to this line, although the error comes from the network.
  cause.stack = cause.message;
  const message =
    known.message === 'bad response' ? unrequested : code.startsWith('UNABLE_TO_') ? unverified : messages[code];
  const text = message === undefined ? cause.message : `${message} (${code})`;
  return new TransportError(text, fault ?? faultOf(code, sent), sent, cause);
}
