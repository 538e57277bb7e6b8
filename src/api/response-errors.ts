/** Turns responses that are no success into errors, for reads and writes. */
import { secondMs } from '../model/time.ts';
import { isHtml, problemsOf, shortLine } from './envelope.ts';
import { ageOf, type HttpResponse, locationOf } from './http.ts';
import { type Response, KeyRefused, NotFound, NotTheApi, RefusedInput, ServerFailed } from './errors.ts';
import { parseExactly } from './exact-json.ts';
import type { Redact } from './redact.ts';

/** What an error needs to name the request. */
export interface RequestName {
  /** `GET https://panel.example.com/api/v1/users?page=2` */
  readonly request: string;
  readonly redact: Redact;
}

const keyAdvice =
  'Check ADMIN_MIRROR_API_KEY or the key file, that the key is for this server, and what the key is allowed to do.';
const addressAdvice =
  'Check the base address (--base-url, ADMIN_MIRROR_BASE_URL or api.base_url): the server that has /api/v1, without /api/v1.';

/** Returns the response as it came, with its body parsed if it is JSON. */
export function responseOf(response: HttpResponse): Response {
  const ageMs = ageOf(response.headers);
  const given = { status: response.status, body: parsedOrText(response.body), raw: response.body };
  return ageMs === undefined ? given : { ...given, ageMs };
}

function parsedOrText(body: string): unknown {
  try {
    return parseExactly(body);
  } catch {
    return body;
  }
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
  const location = locationOf(response.headers);
  const target = location === undefined ? '' : ` to ${shortLine(redact(location))}`;
  return new NotTheApi(`${request} was redirected (${response.status})${target}; redirects are not followed`, {
    advice: addressAdvice,
  });
}

/** The error for a web page instead of a response. */
export function webPageError({ request }: RequestName, tries: string): NotTheApi {
  return new NotTheApi(`${request} returned a web page instead of JSON${tries}`, {
    advice: addressAdvice,
    smallerMayHelp: true,
  });
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
  if (status < 500 && status !== 408 && status !== 425 && status !== 429) {
    const problems = problemsOf(response).map(redact);
    return new RefusedInput(`${request} was refused (${status})${words}`, status, problems, {
      ...options,
      advice: "The words are the server's own. Correct what was sent.",
    });
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
