/** Builds responses: JSON, the paginated envelope of a list with all fields of docs/api.md, and refusals in their shapes. */

export type JsonRecord = Record<string, unknown>;

const escaped = /[/\u007f-\uffff]/g;

function escape(character: string): string {
  return character === '/' ? '\\/' : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Writes the value as JSON in ASCII characters, with slashes escaped as PHP does. */
export function toJson(value: unknown): string {
  return JSON.stringify(value).replace(escaped, escape);
}

export function fromJson(text: string): JsonRecord {
  return JSON.parse(text) as JsonRecord;
}

interface PageFacts {
  /** The address of the list, without a query. */
  readonly path: string;
  readonly page: number;
  readonly perPage: number;
  readonly total: number;
  readonly count: number;
}

/** How many page numbers are shown on each side of the current one. */
const eachSide = 3;

/** Returns the page numbers to link: the first, the last, those around the current one; null stands for pages left out. */
function shownPages(page: number, lastPage: number): (number | null)[] {
  const [from, to] = [Math.max(1, page - eachSide), Math.min(lastPage, page + eachSide)];
  const near = Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);
  const start = from === 1 ? [] : from === 2 ? [1] : [1, null];
  const end = to >= lastPage ? [] : to === lastPage - 1 ? [lastPage] : [null, lastPage];
  return [...start, ...near, ...end];
}

/** Returns the JSON text before and after the records of a page. */
export function envelopeAround(facts: PageFacts): { head: string; tail: string } {
  const { path, page, perPage, total, count } = facts;
  const lastPage = Math.max(1, Math.ceil(total / perPage));
  const urlOf = (number: number): string => `${path}?page=${number}`;
  const previous = page > 1 ? urlOf(page - 1) : null;
  const next = page < lastPage ? urlOf(page + 1) : null;
  const from = count > 0 ? (page - 1) * perPage + 1 : null;
  const links = [
    { url: previous, label: '&laquo; Previous', active: false },
    ...shownPages(page, lastPage).map((number) =>
      number === null
        ? { url: null, label: '...', active: false }
        : { url: urlOf(number), label: String(number), active: number === page },
    ),
    { url: next, label: 'Next &raquo;', active: false },
  ];
  const after = {
    first_page_url: urlOf(1),
    from,
    last_page: lastPage,
    last_page_url: urlOf(lastPage),
    links,
    next_page_url: next,
    path,
    per_page: perPage,
    prev_page_url: previous,
    to: from === null ? null : from + count - 1,
    total,
  };
  return { head: `{"status":true,"current_page":${page},"data":[`, tail: `],${toJson(after).slice(1)}` };
}

/** What an operation returns; the body is JSON text. */
export interface Response {
  readonly status: number;
  readonly body: string | Buffer;
}

/** Thrown while a request is handled; the server turns it into the response. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly body: JsonRecord;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: JsonRecord, headers: Readonly<Record<string, string>> = {}) {
    super(`${status} ${JSON.stringify(body)}`);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

export const unauthenticated = (): Refusal => new Refusal(401, { message: 'Unauthenticated.' });

export const forbidden = (): Refusal => new Refusal(403, { message: 'This action is unauthorized.' });

export const notFound = (model: string, id: string | number): Refusal =>
  new Refusal(404, { message: `No query results for model [App\\Models\\${model}] ${id}` });

export const noSuchRoute = (path: string): Refusal =>
  new Refusal(404, { message: `The route ${path.replace(/^\//, '')} could not be found.` });

export const badRequest = (message: string): Refusal => new Refusal(400, { message });

/** A 422 because parameters break a rule, with what is wrong with each field. */
export function invalid(errors: Readonly<Record<string, readonly string[]>>): Refusal {
  const all = Object.values(errors).flat();
  const more = all.length - 1;
  const rest = more > 0 ? ` (and ${more} more error${more === 1 ? '' : 's'})` : '';
  return new Refusal(422, { message: `${all[0] ?? 'The given data was invalid.'}${rest}`, errors });
}

/** A refusal because a rule of the application forbids the request. */
export const refused = (status: number, errors: readonly string[]): Refusal =>
  new Refusal(status, { success: false, errors });

/** An error of the server itself, with a trace like those of a debug mode. */
export const serverError = (message = 'Server Error'): Refusal =>
  new Refusal(500, {
    message,
    exception: 'Illuminate\\Database\\QueryException',
    file: '/var/www/app/Http/Controllers/Api/V1/Controller.php',
    line: 117,
    trace: [{ file: '/var/www/vendor/framework/Routing/Router.php', line: 690, function: 'callAction' }],
  });
