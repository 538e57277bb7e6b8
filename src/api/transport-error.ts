/** Why no whole response came: one small vocabulary for the errors of sockets, TLS, HTTP parsing and time. */
import { secondMs } from '../model/time.ts';
import { causeOf, codeOf, type Redact } from './redact.ts';

/**
 * `connect`: nobody took the connection. `tls`: the other side could not prove who it is, or speaks no TLS. `reset`: the
 * connection broke. `timeout`: silence. `too-large`: a body over the bound. `protocol`: what came is not HTTP.
 * `aborted`: the caller stopped it after sending had begun. `late`: the time in which it could be sent was over.
 */
export type TransportFault = 'connect' | 'tls' | 'reset' | 'timeout' | 'too-large' | 'protocol' | 'aborted' | 'late';

export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly fault: TransportFault;
  /** False where it is certain that the server has seen nothing of the request. */
  readonly sent: boolean;

  constructor(message: string, fault: TransportFault, sent: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.fault = fault;
    this.sent = sent;
  }
}

export interface Circumstances {
  readonly sent: boolean;
  readonly redact: Redact;
}

const words: Readonly<Record<string, string>> = {
  HTTPParserError: 'the response is not HTTP',
  // A status of three digits that is none trips an assertion of undici.
  ERR_ASSERTION: 'the response is not HTTP',
  UND_ERR_HEADERS_OVERFLOW: 'the headers of the response are too large',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'the response is not as long as its headers say',
  Z_DATA_ERROR: 'the response is not compressed as its headers say',
  Z_BUF_ERROR: 'the compressed response is cut short',
  ECONNREFUSED: 'the connection was refused',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the host name could not be looked up',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the network',
  UND_ERR_CONNECT_TIMEOUT: 'the connection was not taken in time',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed',
  UND_ERR_SOCKET: 'the connection was closed before the response was whole',
  UND_ERR_HEADERS_TIMEOUT: 'no response came in time',
  UND_ERR_BODY_TIMEOUT: 'the response stopped in its middle',
  CERT_HAS_EXPIRED: "the server's certificate has expired",
  CERT_NOT_YET_VALID: "the server's certificate is not valid yet",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the server's certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "the server's certificate chain is self-signed",
  UNABLE_TO_GET_ISSUER_CERT: "the server's certificate cannot be verified",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "the server's certificate cannot be verified",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "the server's certificate cannot be verified",
  ERR_TLS_CERT_ALTNAME_INVALID: "the server's certificate is for another name",
  ERR_SSL_WRONG_VERSION_NUMBER: 'the server does not speak TLS on this port',
};

/** What undici calls `bad response`: bytes before a request, or `100 Continue`, which no request of ours asks for. */
const unrequested =
  'the server, or something in front of it, sent a response that was not requested, such as 100 Continue';

const timeouts = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT', 'ETIMEDOUT']);

function faultOf(code: string, sent: boolean): TransportFault {
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/.test(code)) return 'tls';
  if (!sent) return 'connect';
  if (timeouts.has(code)) return 'timeout';
  return /^(HPE_|HTTPParserError$|UND_ERR_RES)/.test(code) ? 'protocol' : 'reset';
}

/** The error as one of ours; what it says and what caused it are free of the key. */
export function transportErrorOf(
  error: unknown,
  { sent, redact }: Circumstances,
  fault?: TransportFault,
): TransportError {
  const cause = causeOf(error, redact);
  // Not every error of undici's parser has a code.
  const code = codeOf(error) ?? (error instanceof Error && error.name === 'HTTPParserError' ? error.name : '');
  const isUnrequested = error instanceof Error && error.message === 'bad response';
  const known = isUnrequested ? unrequested : words[code];
  const text = known === undefined ? cause.message : `${known} (${code})`;
  return new TransportError(text, fault ?? faultOf(code, sent), sent, cause);
}

export function wasTimeout(ms: number, { sent }: Circumstances): TransportError {
  const text = `${sent ? 'the response was not whole' : 'no connection stood'} after ${ms / secondMs} s`;
  return new TransportError(text, sent ? 'timeout' : 'connect', sent);
}

export function tooLarge(bytes: number, { sent }: Circumstances): TransportError {
  return new TransportError(`the response is larger than ${Math.floor(bytes / 1_048_576)} MiB`, 'too-large', sent);
}

/** What to do about it. */
export function adviceFor({ fault, message }: TransportError): string {
  const address = 'the base address (--base-url, ADMIN_MIRROR_BASE_URL or api.base_url)';
  if (fault !== 'tls') {
    return (
      `Check ${address}, that the server is running, and that it can be reached from this machine; ` +
      '`admin-mirror doctor` shows the proxy, where one is used.'
    );
  }
  if (message.includes('CERT_HAS_EXPIRED'))
    return "Whoever runs the server must renew it. Check this machine's clock, too.";
  if (message.includes('CERT_NOT_YET_VALID')) return "Check this machine's clock.";
  if (/SELF_SIGNED|UNABLE_TO_/.test(message)) {
    return 'If you trust it, name the file (PEM) of the certificate that it is signed with, or its own if it is self-signed, in network.ca_file or ADMIN_MIRROR_CA_FILE.';
  }
  return `Check ${address}: its name and its port.`;
}
