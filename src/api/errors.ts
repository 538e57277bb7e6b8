/**
 * The errors with which a request finally fails, for the operator, and which of them a response is. Each names the request and
 * the address, never the key. Section "Errors" of docs/api.md.
 */
import {
  type ErrorOptions,
  IncompleteError,
  KeyRefusedError,
  OutcomeUnknownError,
  UnreachableError,
  UsageError,
} from '../model/errors.ts';
import { shortLine } from '../model/text.ts';
import { secondMs } from '../model/time.ts';
import { isHtml, parsedOrText, problemsOf, type UnreadableResponse } from './body.ts';
import { headerText, whenOf } from './headers.ts';
import type { HttpResponse, Redact } from './http.ts';
import type { TransportError } from './transport.ts';

/**
 * What the server sent, as it came. Errors hold it as a property that is not enumerable, so that nobody prints or logs it with
 * them: it may contain anything, even the key.
 */
export interface Response {
  readonly status: number;
  /** The parsed JSON (integers beyond 2^53 as bigints), or the text if it is not JSON. */
  readonly body: unknown;
  readonly raw: string;
  /** Age of the response if it came from a cache, ms, in whole seconds. */
  readonly ageMs?: number;
}

interface ApiErrorOptions extends ErrorOptions {
  readonly response?: Response | undefined;
  /** Whether the server may be able to give the same records in smaller pages. */
  readonly smallerMayHelp?: boolean;
  /** How long the server says to wait, ms. */
  readonly waitMs?: number | undefined;
  /** Whether another page came than the requested one. */
  readonly isWrongPage?: boolean;
}

function hide(error: Error, { response }: ApiErrorOptions): void {
  Object.defineProperty(error, 'response', { value: response });
}

class ReadFailed extends UnreachableError {
  readonly smallerMayHelp: boolean;

  constructor(message: string, options: ApiErrorOptions = {}) {
    super(message, options);
    this.smallerMayHelp = options.smallerMayHelp ?? false;
  }
}

/** 401 or 403; a 403 may concern only this resource. */
export class KeyRefused extends KeyRefusedError {
  override readonly name = 'KeyRefused';
  readonly status: number;
  declare readonly response: Response | undefined;

  constructor(message: string, status: number, options: ApiErrorOptions = {}) {
    super(message, options);
    this.status = status;
    hide(this, options);
  }
}

/** 404: no such record. */
export class NotFound extends UsageError {
  override readonly name = 'NotFound';
  declare readonly response: Response | undefined;

  constructor(message: string, options: ApiErrorOptions = {}) {
    super(message, options);
    hide(this, options);
  }
}

/** The server looked at the request and refused it: 422, another 4xx, or `success: false`. */
export class RefusedInput extends UsageError {
  override readonly name = 'RefusedInput';
  readonly status: number;
  /** In the server's words: `field: message`. */
  readonly problems: readonly string[];
  declare readonly response: Response | undefined;

  constructor(message: string, status: number, problems: readonly string[], options: ApiErrorOptions = {}) {
    super(message, { advice: "The words are the server's own. Correct what was sent.", ...options });
    this.status = status;
    this.problems = problems;
    hide(this, options);
  }
}

/** The server responded, and every try failed: 5xx, 429, or responses that cannot be read. */
export class ServerFailed extends ReadFailed {
  override readonly name = 'ServerFailed';
  /** The status of the last try. */
  readonly status: number;
  readonly waitMs: number | undefined;
  readonly isWrongPage: boolean;
  declare readonly response: Response | undefined;

  constructor(message: string, status: number, options: ApiErrorOptions = {}) {
    super(message, options);
    this.status = status;
    this.waitMs = options.waitMs;
    this.isWrongPage = options.isWrongPage ?? false;
    hide(this, options);
  }
}

/** A smaller page was requested, and one of another size came: the server has a page size of its own. */
export class OtherPageSize extends ReadFailed {
  override readonly name = 'OtherPageSize';
  readonly came: number;

  constructor(message: string, came: number) {
    super(message);
    this.came = came;
  }
}

/** No response came in any try. For a write, this means that nothing was sent. */
export class Unreachable extends ReadFailed {
  override readonly name = 'Unreachable';
}

/** Something else than this API responds at the address: with a web page or a redirect. */
export class NotTheApi extends ReadFailed {
  override readonly name = 'NotTheApi';
}

/** A list shows the records of another list, and did so again when it was requested once more. */
export class ForeignRecords extends IncompleteError {
  override readonly name = 'ForeignRecords';
}

/** The body is larger than the bound; the caller can request smaller pages. */
export class PageTooLarge extends ReadFailed {
  override readonly name = 'PageTooLarge';
}

/** A write was sent, and its response was lost or does not say what happened. */
export class WriteOutcomeUnknown extends OutcomeUnknownError {
  override readonly name = 'WriteOutcomeUnknown';
  declare readonly response: Response | undefined;

  constructor(message: string, options: ApiErrorOptions = {}) {
    super(message, { advice: 'It may have been done. Read the user back before you send it again.', ...options });
    hide(this, options);
  }
}

/** Whether the server could not make the page, or it was too large to read: smaller pages may work. */
export function isPageFailure(error: unknown): error is ReadFailed {
  return error instanceof ReadFailed && error.smallerMayHelp;
}

/** Whether the error may mean that there is no such page: behind the end of a list, servers refuse, fail, or give another page. */
export function isNoPage(error: unknown): error is Error {
  if (error instanceof ServerFailed && error.isWrongPage) return true;
  return error instanceof RefusedInput || error instanceof NotFound || isPageFailure(error);
}

/** What an error needs to name the request. */
export interface RequestName {
  /** `GET https://panel.example.com/api/v1/users?page=2` */
  readonly request: string;
  readonly redact: Redact;
}

const baseUrl = 'the base address (--base-url, ADMIN_MIRROR_BASE_URL or api.base_url)';
const keyAdvice =
  'Check ADMIN_MIRROR_API_KEY or the key file, that the key is for this server, and what the key is allowed to do.';
const addressAdvice = `Check ${baseUrl}: the server that has /api/v1, without /api/v1.`;

/** Returns the response as it came, with its body parsed if it is JSON. */
export function responseOf(response: HttpResponse): Response {
  const { ageMs } = whenOf(response);
  const given = { status: response.status, body: parsedOrText(response.body), raw: response.body };
  return ageMs === undefined ? given : { ...given, ageMs };
}

/** Returns the server's own words for the end of a message: `: username: already taken`. */
export function wordsOf(response: HttpResponse, redact: Redact): string {
  const problems = problemsOf(response);
  if (problems.length > 0) return `: ${redact(problems.join('; '))}`;
  return isHtml(response) ? ', with a web page instead of JSON' : '';
}

export function isRedirect(status: number): boolean {
  return status >= 300 && status < 400;
}

/** The error for a redirect. It names the target, which is never followed. */
export function redirectError(response: HttpResponse, { request, redact }: RequestName): NotTheApi {
  const location = headerText(response.headers, 'location');
  const target = location === undefined ? '' : ` to ${shortLine(redact(location))}`;
  return new NotTheApi(`${request} was redirected (${response.status})${target}; redirects are not followed`, {
    advice: addressAdvice,
  });
}

function webPageError({ request }: RequestName, tries: string): NotTheApi {
  const options = { advice: addressAdvice, smallerMayHelp: true };
  return new NotTheApi(`${request} returned a web page instead of JSON${tries}`, options);
}

/** The error for any status except 2xx. `tries`, for the message, says how often was tried. */
export function refusalOf(response: HttpResponse, name: RequestName, tries = '', waitMs?: number) {
  const { status } = response;
  const { request, redact } = name;
  const words = wordsOf(response, redact);
  const options = { response: responseOf(response) };
  if (isRedirect(status)) return redirectError(response, name);
  if (status === 401) {
    return new KeyRefused(`${request}: the key was refused (401)${words}`, status, { ...options, advice: keyAdvice });
  }
  if (status === 403) {
    const by = isHtml(response) ? ', probably by something in front of the server' : '';
    return new KeyRefused(`${request} was refused (403)${words}${by}`, status, { ...options, advice: keyAdvice });
  }
  if (status === 404) {
    if (isHtml(response)) return webPageError(name, ' (404)');
    const advice = /\/users\/\d/.test(request) ? 'Check the id.' : addressAdvice;
    return new NotFound(`${request}: not found (404)${words}`, { ...options, advice });
  }
  if (status < 500 && ![408, 425, 429].includes(status)) {
    const problems = problemsOf(response).map(redact);
    return new RefusedInput(`${request} was refused (${status})${words}`, status, problems, options);
  }
  const requested = waitMs === undefined ? '' : `; it says to wait ${Math.ceil(waitMs / secondMs)} s`;
  return new ServerFailed(`${request} failed (${status})${words}${tries}${requested}`, status, {
    ...options,
    waitMs,
    // A server that names a wait is busy or down; smaller pages would not change that.
    smallerMayHelp: status !== 429 && waitMs === undefined,
    advice: 'The server has trouble or is busy: try again later.',
  });
}

/** The error of a read if no whole response came. */
export function lostError(error: TransportError, { request }: RequestName, tries: string): Error {
  const text = `${request}: ${error.message}${tries}`;
  if (error.fault === 'too-large') {
    const advice = request.includes('paginate=')
      ? 'Request smaller pages: --paginate of `list`.'
      : 'No record is that large: report it to whoever runs the server.';
    return new PageTooLarge(text, { cause: error, smallerMayHelp: true, advice });
  }
  const smallerMayHelp = ['timeout', 'reset', 'protocol'].includes(error.fault);
  return new Unreachable(text, { cause: error, advice: adviceFor(error), smallerMayHelp });
}

/** The error of a read whose 2xx has no usable body. */
export function unreadableError(
  error: UnreadableResponse,
  response: HttpResponse,
  name: RequestName,
  tries: string,
): Error {
  if (error.kind === 'web-page') return webPageError(name, tries);
  if (error.kind === 'foreign') {
    return new ForeignRecords(`${name.request}: ${error.message}${tries}`, {
      advice: 'Nothing of it was kept. A route or a cache of the server is wrong: report it to whoever runs it.',
    });
  }
  const words = error.problems.length === 0 ? '' : `: ${name.redact(error.problems.join('; '))}`;
  const isWrongPage = error.kind === 'wrong-page';
  return new ServerFailed(`${name.request}: ${error.message}${words}${tries}`, response.status, {
    response: responseOf(response),
    smallerMayHelp: !isWrongPage,
    isWrongPage,
    advice: 'The server has trouble, or is not the API that is expected: try again later.',
  });
}

/** Returns what the operator can do about the error. */
export function adviceFor({ fault, message }: TransportError): string {
  if (fault !== 'tls') {
    return (
      `Check ${baseUrl}, that the server is running, and that it can be reached from this machine; ` +
      '`admin-mirror doctor` shows the proxy, where one is used.'
    );
  }
  if (message.includes('CERT_HAS_EXPIRED'))
    return "Whoever runs the server must renew it. Check this machine's clock, too.";
  if (message.includes('CERT_NOT_YET_VALID')) return "Check this machine's clock.";
  if (/SELF_SIGNED|UNABLE_TO_/.test(message)) {
    return 'If you trust it, name the file (PEM) of the certificate that it is signed with, or its own if it is self-signed, in network.ca_file or ADMIN_MIRROR_CA_FILE.';
  }
  return `Check ${baseUrl}: its name and its port.`;
}
