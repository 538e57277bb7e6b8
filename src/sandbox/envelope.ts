/** What responses are made of: JSON, the paginated envelope around a list with every field of docs/api.md, and refusals in their shapes. */

export type JsonRecord = Record<string, unknown>;

const escaped = /[/\u007f-\uffff]/g;

function escape(character: string): string {
  return character === '/' ? '\\/' : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The value as JSON text of ASCII characters. */
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
  /** Whether the records stand in an object, under numbers. */
  readonly asObject?: boolean;
}

/** Page numbers shown on each side of the current one. */
const eachSide = 3;

function span(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => from + at);
}

/** The numbers that are linked, with null where pages are left out. */
function shownPages(page: number, lastPage: number): (number | null)[] {
  const all = eachSide * 2 + 8;
  if (lastPage < all) return span(1, lastPage);
  const near = eachSide + 4;
  if (page <= near) return [...span(1, near + eachSide), null, lastPage - 1, lastPage];
  if (page > lastPage - near) return [1, 2, null, ...span(lastPage - (near + eachSide - 1), lastPage)];
  return [1, 2, null, ...span(page - eachSide, page + eachSide), null, lastPage - 1, lastPage];
}

/** What stands before and after the records of a page. */
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
  const [open, close] = facts.asObject === true ? ['{', '}'] : ['[', ']'];
  return { head: `{"status":true,"current_page":${page},"data":${open}`, tail: `${close},${toJson(after).slice(1)}` };
}

/** What a handler returns; the body is JSON already. */
export interface Response {
  readonly status: number;
  readonly body: string | Buffer;
}

/** Thrown by whatever handles a request; the server turns it into the response. */
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

/** A parameter breaks a rule: each field with what is wrong with it. */
export function invalid(errors: Readonly<Record<string, readonly string[]>>): Refusal {
  const all = Object.values(errors).flat();
  const more = all.length - 1;
  const rest = more > 0 ? ` (and ${more} more error${more === 1 ? '' : 's'})` : '';
  return new Refusal(422, { message: `${all[0] ?? 'The given data was invalid.'}${rest}`, errors });
}

/** A rule of the application forbids it. */
export const refused = (status: number, errors: readonly string[]): Refusal =>
  new Refusal(status, { success: false, errors });

/** An error of the server itself, with the kind of trace that a debug mode shows. */
export const serverError = (message = 'Server Error'): Refusal =>
  new Refusal(500, {
    message,
    exception: 'Illuminate\\Database\\QueryException',
    file: '/var/www/app/Http/Controllers/Api/V1/Controller.php',
    line: 117,
    trace: [{ file: '/var/www/vendor/framework/Routing/Router.php', line: 690, function: 'callAction' }],
  });
