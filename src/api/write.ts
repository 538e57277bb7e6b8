/**
 * Sends a write once and never again, whatever comes back. The error says what is certain: refused, nothing sent, or that it
 * is unknown whether the server made the write. Section "Writing" of docs/architecture.md.
 */
import { bodyOf, problemsIn, recordIn, UnreadableResponse } from './envelope.ts';
import { type HttpRequest, type HttpResponse, requestedWaitOf, retryAfterOf } from './http.ts';
import {
  isRedirect,
  redirectError,
  refusalOf,
  RefusedInput,
  type RequestName,
  type Response,
  responseOf,
  Unreachable,
  wordsOf,
  WriteOutcomeUnknown,
} from './errors.ts';
import { nameOf, type RequestContext, transmit } from './request.ts';
import { recordKey, type RecordKey } from '../model/records.ts';
import { passwordsIn } from '../model/secret.ts';
import { redactorWith, scrubbedOf } from './redact.ts';
import { adviceFor, TransportError } from './transport.ts';

const readBack = 'It may have been done. Read the user back before you send it again.';
/** Besides 5xx, statuses after which a write may have been made: the server gave up waiting, or met a conflict. */
const conflict = 409;
const doubtful = new Set([408, conflict, 425]);
/** Redirects that a server sends instead of acting. A 302 or 303 may be sent after the write was made. */
const movedStatuses = new Set([301, 307, 308]);

/**
 * Sends the write once and returns the response as it came if the server reports success. Throws KeyRefused, NotFound or
 * RefusedInput if the server refused; ServerFailed if it did nothing and asks to try later; Unreachable if nothing was
 * sent; WriteOutcomeUnknown if the response was lost or does not say what happened; and the signal's reason if it was
 * aborted before sending.
 */
export async function write(context: RequestContext, request: HttpRequest, signal?: AbortSignal): Promise<Response> {
  const secrets = request.body === undefined ? [] : passwordsIn(JSON.parse(request.body));
  const name = { request: nameOf(context, request), redact: redactorWith(context.http.redact, secrets) };
  let response: HttpResponse;
  try {
    const received = await transmit(context, request, signal);
    // A server may send back the password that it was given, or one that it made.
    response = { ...received, body: scrubbedOf(received.body, secrets) };
  } catch (error) {
    if (!(error instanceof TransportError)) throw error;
    if (error.sent) {
      throw new WriteOutcomeUnknown(`${name.request} was sent and its response was lost: ${error.message}`, {
        cause: error,
        advice: readBack,
      });
    }
    throw new Unreachable(`${name.request}: ${error.message}; nothing was sent`, {
      cause: error,
      advice: adviceFor(error),
    });
  }
  return checkedOutcome(response, request, name, context.clock.now());
}

/**
 * Returns the error for a failed deletion. After a conflict the server has decided, so if `readUser` still finds the user, the
 * deletion was refused. Any other error is returned as it is.
 */
export async function deletionErrorOf(error: unknown, readUser: () => Promise<Response>): Promise<unknown> {
  if (!(error instanceof WriteOutcomeUnknown) || error.response?.status !== conflict) return error;
  try {
    // A response from a cache may be older than the deletion.
    const { ageMs = 0 } = await readUser();
    if (ageMs > 0) return error;
  } catch {
    return error;
  }
  return new RefusedInput(`${error.message}; the user is still there`, conflict, problemsIn(error.response.body), {
    response: error.response,
    advice: "The words are the server's own. Orders and punishments forbid a deletion that is not forced.",
  });
}

/** Returns the response to a write if it succeeded; throws the error of any other outcome. */
function checkedOutcome(response: HttpResponse, request: HttpRequest, name: RequestName, now: number): Response {
  const { status } = response;
  if (status >= 200 && status <= 299) return checkedSuccess(response, request, name);
  if (movedStatuses.has(status)) throw redirectError(response, name);
  const waitMs = requestedWaitOf(response.headers, now);
  // Only Retry-After counts for a 503: a server may send X-RateLimit-Reset with every response.
  const isPutOff = status === 503 && retryAfterOf(response.headers, now) !== undefined && isFromTheApi(response);
  if (status === 429 || isPutOff) throw refusalOf(response, name, '; nothing was done', waitMs);
  if (isRedirect(status) || status >= 500 || doubtful.has(status)) {
    const words = wordsOf(response, name.redact);
    throw new WriteOutcomeUnknown(`${name.request} returned ${status}${words}`, {
      response: responseOf(response),
      advice: readBack,
    });
  }
  throw refusalOf(response, name);
}

/** Whether the body is the API's JSON. A web page is from a proxy, which may ask to come back while the server still works. */
function isFromTheApi(response: HttpResponse): boolean {
  try {
    bodyOf(response);
    return true;
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    return error.kind === 'refused';
  }
}

/** Returns the user in the response if it is not the one that was written to: then something has mixed up two requests. */
function otherUserIn(body: unknown, { path }: HttpRequest): RecordKey | undefined {
  const user = /\/users\/(\d+)/.exec(path)?.[1];
  const record = recordIn(body);
  if (user === undefined || record === undefined || !('username' in record)) return undefined;
  const id = recordKey(record);
  return String(id) === user ? undefined : id;
}

function checkedSuccess(response: HttpResponse, request: HttpRequest, name: RequestName): Response {
  if (response.status === 204 && response.body === '') return responseOf(response);
  try {
    const other = otherUserIn(bodyOf(response), request);
    if (other !== undefined) throw new UnreadableResponse(`the response is about user ${other}`);
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    const options = { response: responseOf(response) };
    if (error.kind === 'refused') {
      const problems = error.problems.map(name.redact);
      const words = problems.length === 0 ? '' : `: ${problems.join('; ')}`;
      throw new RefusedInput(`${name.request} was refused${words}`, response.status, problems, {
        ...options,
        advice: "The words are the server's own. Correct what was sent.",
      });
    }
    throw new WriteOutcomeUnknown(`${name.request} returned ${response.status}, but ${error.message}`, {
      ...options,
      advice: readBack,
    });
  }
  return responseOf(response);
}
