/** The paginated envelope around a list: every field of docs/api.md, with the link rules of the API's family. */

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
  /** The request's other parameters, written as a query, or empty. */
  readonly query: string;
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
  const urlOf = (number: number): string => `${path}?${facts.query}page=${number}`;
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
