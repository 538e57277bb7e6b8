/**
 * One write: sent once and never again, whatever comes back. What is certain is said; where it is not certain whether
 * the server did it, that is said, too. Section "Writing" of docs/architecture.md.
 */
import { bodyOf, problemsIn, recordIn, UnreadableResponse } from './envelope.ts';
import { responseOf, isRedirect, redirectError, refusalOf, type RequestName, wordsOf } from './response-errors.ts';
import { type HttpResponse, requestedWaitOf, retryAfterOf } from './http.ts';
import { type Response, RefusedInput, Unreachable, WriteOutcomeUnknown } from './errors.ts';
import { type Line, type Message, nameOf, transmit } from './request.ts';
import { recordKey, type RecordKey } from '../model/records.ts';
import { passwordsIn } from '../model/secret.ts';
import { redactorWith, scrubbedOf } from './redact.ts';
import { adviceFor, TransportError } from './transport-error.ts';

const readBack = 'It may have been done. Read the user back before you send it again.';
/** Statuses under which a write may have been made, besides 5xx: the server gave up waiting, or met a conflict. */
const conflict = 409;
const doubtful = new Set([408, conflict, 425]);
/** Redirects that are sent in place of doing something; after 302 and 303 it may have been done. */
const movedStatuses = new Set([301, 307, 308]);

/**
 * Sends the write once. Gives the response as it came where the server reports success. Throws KeyRefused, NotFound or
 * RefusedInput where it refused; ServerFailed where it wants a retry later, nothing having been done; Unreachable
 * where nothing was sent; WriteOutcomeUnknown where the response was lost or leaves open what happened; and the signal's
 * reason where it was aborted before sending.
 */
export async function write(line: Line, message: Message, signal?: AbortSignal): Promise<Response> {
  const secrets = message.body === undefined ? [] : passwordsIn(JSON.parse(message.body));
  const name = { request: nameOf(line, message), redact: redactorWith(line.http.redact, secrets) };
  let response: HttpResponse;
  try {
    const sent = await transmit(line, message, signal);
    // A server may send back the password that it was given, or send the one that it made.
    response = { ...sent, body: scrubbedOf(sent.body, secrets) };
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
  return judged(response, message, name, line.clock.now());
}

/**
 * What a deletion that failed has come to: after a conflict the server has decided, so a user whom `look` still finds was
 * not deleted. Any other error is given back as it is.
 */
export async function refusedIfThere(error: unknown, look: () => Promise<Response>): Promise<unknown> {
  if (!(error instanceof WriteOutcomeUnknown) || error.response?.status !== conflict) return error;
  try {
    // What a cache has kept is from before.
    const { ageMs = 0 } = await look();
    if (ageMs > 0) return error;
  } catch {
    return error;
  }
  return new RefusedInput(`${error.message}; the user is still there`, conflict, problemsIn(error.response.body), {
    response: error.response,
    advice: "The words are the server's own. Orders and punishments forbid a deletion that is not forced.",
  });
}

function judged(response: HttpResponse, message: Message, name: RequestName, now: number): Response {
  const { status } = response;
  if (status >= 200 && status <= 299) return succeeded(response, message, name);
  if (movedStatuses.has(status)) throw redirectError(response, name);
  const waitMs = requestedWaitOf(response.headers, now);
  // When a limit begins anew, a server may say with every response: of a 503 it says nothing.
  const isPutOff = status === 503 && retryAfterOf(response.headers, now) !== undefined && isOfTheApi(response);
  const notNow = status === 429 || isPutOff;
  if (notNow) throw refusalOf(response, name, '; nothing was done', waitMs);
  if (isRedirect(status) || status >= 500 || doubtful.has(status)) {
    const words = wordsOf(response, name.redact);
    throw new WriteOutcomeUnknown(`${name.request} returned ${status}${words}`, {
      response: responseOf(response),
      advice: readBack,
    });
  }
  throw refusalOf(response, name);
}

/** A page is of a proxy, which also says when to come back where it gave up waiting, while the server goes on. */
function isOfTheApi(response: HttpResponse): boolean {
  try {
    bodyOf(response);
    return true;
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    return error.refusal !== undefined;
  }
}

/** The user whom the response shows where that is another one than was written to: something has mixed up two requests. */
function otherUserIn(body: unknown, { path }: Message): RecordKey | undefined {
  const user = /\/users\/(\d+)/.exec(path)?.[1];
  const record = recordIn(body);
  if (user === undefined || record === undefined || !('username' in record)) return undefined;
  const id = recordKey(record);
  return String(id) === user ? undefined : id;
}

function succeeded(response: HttpResponse, message: Message, { request, redact }: RequestName): Response {
  if (response.status === 204 && response.body === '') return responseOf(response);
  try {
    const other = otherUserIn(bodyOf(response), message);
    if (other !== undefined) throw new UnreadableResponse(`the response is about user ${other}`);
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    const options = { response: responseOf(response) };
    if (error.refusal !== undefined) {
      const problems = error.refusal.map(redact);
      const words = problems.length === 0 ? '' : `: ${problems.join('; ')}`;
      throw new RefusedInput(`${request} was refused${words}`, response.status, problems, {
        ...options,
        advice: "The words are the server's own. Correct what was sent.",
      });
    }
    throw new WriteOutcomeUnknown(`${request} returned ${response.status}, but ${error.message}`, {
      ...options,
      advice: readBack,
    });
  }
  return responseOf(response);
}
