/**
 * How a request can fail for good, as errors for the operator. Each names the request and the address, never the key.
 * Section "Errors" of docs/api.md.
 */
import {
  type ErrorOptions,
  IncompleteError,
  KeyRefusedError,
  OutcomeUnknownError,
  UnreachableError,
  UsageError,
} from '../model/errors.ts';

/**
 * What the server sent, as it came. Errors keep it out of sight of whoever prints or logs them: it may hold
 * anything, even the key.
 */
export interface Response {
  readonly status: number;
  /** The parsed JSON (numbers beyond 2^53 as bigints), or the text where it is none. */
  readonly body: unknown;
  readonly raw: string;
  /** How long ago the server gave this, where a cache in front has kept it, in whole seconds, ms. */
  readonly ageMs?: number;
}

interface ApiErrorOptions extends ErrorOptions {
  /** Undefined where there was none. */
  readonly response?: Response | undefined;
  /** Whether the same list may be given in smaller pages: it failed as a host does that cannot make the page. */
  readonly smallerMayHelp?: boolean;
}

/** Sets `response` where neither printing nor logging the error looks. */
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

/** 401 or 403. `status` says which: a 403 may be for this resource alone. */
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

/** The server looked at the request and does not want it: 422, or another 4xx, or `success: false`. */
export class RefusedInput extends UsageError {
  override readonly name = 'RefusedInput';
  readonly status: number;
  /** As the server words them, `field: message`. */
  readonly problems: readonly string[];
  declare readonly response: Response | undefined;

  constructor(message: string, status: number, problems: readonly string[], options: ApiErrorOptions = {}) {
    super(message, options);
    this.status = status;
    this.problems = problems;
    hide(this, options);
  }
}

/** The server was there, and every try failed: a lasting 5xx, 429, or responses that cannot be read. */
export class ServerFailed extends ReadFailed {
  override readonly name = 'ServerFailed';
  /** Of the last try. */
  readonly status: number;
  /** How long the server says to wait, ms. */
  readonly waitMs: number | undefined;
  /** Whether another page came than the one requested. */
  readonly isOther: boolean;
  declare readonly response: Response | undefined;

  constructor(
    message: string,
    status: number,
    options: ApiErrorOptions & { readonly waitMs?: number | undefined; readonly isOther?: boolean } = {},
  ) {
    super(message, options);
    this.status = status;
    this.waitMs = options.waitMs;
    this.isOther = options.isOther ?? false;
    hide(this, options);
  }
}

/** No response came at all, in any try. Of a write: it is certain that nothing was sent. */
export class Unreachable extends ReadFailed {
  override readonly name = 'Unreachable';
}

/** Something responds at the address, and it is not this API: a web page, or a redirect. */
export class NotTheApi extends ReadFailed {
  override readonly name = 'NotTheApi';
}

/** A list shows the records of another one, also when it was requested once more. */
export class ForeignRecords extends IncompleteError {
  override readonly name = 'ForeignRecords';
}

/** The body is over the bound: the caller may request smaller pages. */
export class PageTooLarge extends ReadFailed {
  override readonly name = 'PageTooLarge';
}

/** Whether the page could not be made, or not be taken: smaller ones may be. */
export function isPageFailure(error: unknown): error is ReadFailed {
  return error instanceof ReadFailed && error.smallerMayHelp;
}

/** Whether the server has no such page, as it may say of one behind a list's end: it refuses it, fails, or gives another one. */
export function isNoPage(error: unknown): error is Error {
  const isNo = error instanceof RefusedInput || error instanceof NotFound || isPageFailure(error);
  return isNo || (error instanceof ServerFailed && error.isOther);
}

/** A write was sent and its response was lost, or says nothing of what happened. */
export class WriteOutcomeUnknown extends OutcomeUnknownError {
  override readonly name = 'WriteOutcomeUnknown';
  declare readonly response: Response | undefined;

  constructor(message: string, options: ApiErrorOptions = {}) {
    super(message, options);
    hide(this, options);
  }
}
