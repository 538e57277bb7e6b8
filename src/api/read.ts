/** One read, tried until it succeeds, cannot succeed, or has taken too long. */
import { counted } from '../model/text.ts';
import { secondMs } from '../model/time.ts';
import { isHtml, UnreadableResponse } from './envelope.ts';
import { isRedirect, redirectError, refusalOf, type RequestName, responseOf, webPageError } from './response-errors.ts';
import { type HttpResponse, requestedWaitOf } from './http.ts';
import { ForeignRecords, PageTooLarge, ServerFailed, Unreachable } from './errors.ts';
import { counts, decideRetry, type Failure, type RetryLimits } from './retry.ts';
import { type Line, nameOf, placeOf, transmit } from './transmission.ts';
import { adviceFor, TransportError } from './transport-error.ts';

interface Reading {
  readonly limits: RetryLimits;
  readonly random: () => number;
  readonly signal?: AbortSignal | undefined;
  /** Whether one more try may be sent. */
  readonly mayRetry?: (() => boolean) | undefined;
}

type Tried<T> =
  | { readonly value: T }
  /** `error` makes what is thrown when this was the last try, given how often and how long was tried. */
  | { readonly failure: Failure; readonly error: (tries: string) => Error };

/**
 * Reads the path; `parse` turns a 2xx into the value and throws an UnreadableResponse where it cannot. Throws KeyRefused,
 * NotFound, RefusedInput, ServerFailed, Unreachable, NotTheApi or PageTooLarge, and the signal's reason.
 */
export async function read<T>(
  line: Line,
  path: string,
  parse: (response: HttpResponse) => T,
  reading: Reading,
): Promise<T> {
  const { limits, random } = reading;
  const startedAt = line.clock.now();
  let attempt = 0;
  let isKnownToWait = false;
  for (let tries = 1; ; tries += 1) {
    const tried = await tryOnce(line, path, parse, reading, tries);
    if ('value' in tried) return tried.value;
    if (counts(tried.failure)) attempt += 1;
    const elapsedMs = line.clock.now() - startedAt;
    const decision = decideRetry(tried.failure, { attempt, elapsedMs }, limits, random);
    if (!decision.again || reading.mayRetry?.() === false)
      throw tried.error(tries === 1 ? '' : `, tried ${tries} times in ${seconds(elapsedMs)}`);
    line.counters.retries += 1;
    if (!isKnownToWait && elapsedMs + decision.delayMs >= longSilenceMs) {
      isKnownToWait = true;
      const { message } = tried.error(`, tried ${counted(tries, 'time')}`);
      line.log.warn({}, `${message}; trying again for up to ${seconds(limits.deadlineMs)}`);
    }
    await line.sleep(decision.delayMs, reading.signal);
  }
}

/** Whoever waits for longer wants to know why. */
const longSilenceMs = 30 * secondMs;

function seconds(ms: number): string {
  return ms < 10 * secondMs ? `${(ms / secondMs).toFixed(1)} s` : `${Math.round(ms / secondMs)} s`;
}

async function tryOnce<T>(
  line: Line,
  path: string,
  parse: (response: HttpResponse) => T,
  { signal }: Reading,
  attempt: number,
): Promise<Tried<T>> {
  const message = { method: 'GET', path, attempt } as const;
  const name = { request: nameOf(line, message), redact: line.http.redact };
  let response: HttpResponse;
  try {
    response = await transmit(line, message, signal);
  } catch (error) {
    if (!(error instanceof TransportError)) throw error;
    if (error.fault === 'aborted') throw signal?.reason ?? error;
    return { failure: { kind: 'transport', fault: error.fault }, error: (tries) => lostError(error, name, tries) };
  }
  const { status } = response;
  if (isRedirect(status)) throw redirectError(response, name);
  if (status < 200 || status > 299) {
    const waitMs = requestedWaitOf(response.headers, line.clock.now());
    const doubtful = status === 403 && (isHtml(response) || line.given.has(placeOf(path)));
    return {
      failure: { kind: 'status', status, waitMs, doubtful },
      error: (tries) => refusalOf(response, name, tries, waitMs),
    };
  }
  try {
    const value = await parse(response);
    line.given.add(placeOf(path));
    return { value };
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    return {
      failure: { kind: 'unreadable', doubtful: error.foreign },
      error: (tries) => unreadableError(error, response, name, tries),
    };
  }
}

/** No whole response came. */
function lostError(error: TransportError, { request }: RequestName, tries: string): Error {
  const text = `${request}: ${error.message}${tries}`;
  if (error.fault === 'too-large') {
    return new PageTooLarge(text, {
      cause: error,
      smallerMayHelp: true,
      advice: request.includes('paginate=')
        ? 'Request smaller pages (--paginate, api.page_size).'
        : 'No record is as large as that: report it to whoever runs the server.',
    });
  }
  const smallerMayHelp = ['timeout', 'reset', 'protocol'].includes(error.fault);
  return new Unreachable(text, { cause: error, advice: adviceFor(error), smallerMayHelp });
}

function unreadableError(error: UnreadableResponse, response: HttpResponse, name: RequestName, tries: string): Error {
  if (error.html) return webPageError(name, tries);
  if (error.foreign) {
    return new ForeignRecords(`${name.request}: ${error.message}${tries}`, {
      advice: 'Nothing of it was kept. A route or a cache of the server is wrong: report it to whoever runs it.',
    });
  }
  const { refusal = [] } = error;
  const words = refusal.length === 0 ? '' : `: ${name.redact(refusal.join('; '))}`;
  return new ServerFailed(`${name.request}: ${error.message}${words}${tries}`, response.status, {
    response: responseOf(response),
    smallerMayHelp: !error.mistaken,
    advice: 'The server has trouble, or is not the API that is expected: try again later.',
  });
}
