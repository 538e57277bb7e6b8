/** Templates that escape every value, the parts of pages, and the frame around all pages. All markup of the console is made with them. */
import type { ColumnType } from '../data/column-type.ts';
import { maskedText } from '../data/personal.ts';
import { escapedHtml, type Html, type Part } from '../model/markup.ts';
import { bytesText, harmless } from '../model/text.ts';
import { LockHeldError, type OperatorError, UsageError } from '../model/errors.ts';
import { ageText, minuteOf, parseInstant, type Timestamp, timestampOf } from '../model/time.ts';
import type { Environment } from '../settings/kinds.ts';
import type { Cell } from '../data/reading-types.ts';
import { type ConsolePorts, isAllowed, type Route, type Visit } from './route.ts';
import { consoleWords } from './words.ts';
import { hash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { readRegularFile } from '../model/files.ts';
import { version } from '../model/program.ts';

export type { Html, Part };

/** Makes markup. Escapes all other values, and makes visible text harmless: it cannot hide or reverse what is beside it. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  const isVisible = visibleParts(strings);
  return escapedHtml(strings, ...parts.map((part, at) => (isVisible[at] === true ? harmlessPart(part) : part)));
}

function harmlessPart(part: Part): Part {
  if (typeof part === 'string') return harmless(part);
  return Array.isArray(part) ? part.map((each: Part) => harmlessPart(each)) : part;
}

const visiblePartsOf = new WeakMap<TemplateStringsArray, readonly boolean[]>();

/** Finds the values of the template that are visible text, not inside a tag or a textarea. */
function visibleParts(strings: TemplateStringsArray): readonly boolean[] {
  const known = visiblePartsOf.get(strings);
  if (known !== undefined) return known;
  let text = '';
  const visible = strings.map((string) => {
    text += string;
    return text.lastIndexOf('<') <= text.lastIndexOf('>') && !/<textarea[^<>]*>$/.test(text);
  });
  visiblePartsOf.set(strings, visible);
  return visible;
}

export const nothing = html``;

/** A time in UTC; null is a dash. The script shows it in the reader's time zone, and in UTC on hover. */
export function timeTag(at: Timestamp | string | null): Html {
  if (at === null) return html`<span class="none">–</span>`;
  const instant = parseInstant(at);
  if (instant === undefined) return html`${at}`;
  return instantTag(instant, minuteOf(timestampOf(instant)));
}

function instantTag(instant: number, words: string, more: Part = null): Html {
  const iso = new Date(instant).toISOString();
  return html`<time datetime="${iso}" title="${iso.slice(0, 19).replace('T', ' ')} UTC" ${more}>${words}</time>`;
}

/** How long ago something was. The script keeps the age up to date. */
export function ageTag(at: Timestamp | string | null, now: number): Html {
  const instant = at === null ? undefined : parseInstant(at);
  if (instant === undefined) return html`<span class="none">never</span>`;
  return instantTag(instant, ageText(now - instant), html`data-age`);
}

export function anchor(href: string, text: Part): Html {
  return html`<a href="${href}">${text}</a>`;
}

export function postForm(action: string, fields: Part): Html {
  return html`<form method="post" action="${action}">${fields}</form>`;
}

/** A form that is one button. */
export function buttonForm(action: string, words: string, kind: 'quiet' | 'danger' | '' = ''): Html {
  return postForm(action, html`<button class="${kind}">${words}</button>`);
}

/** A text field of a form. The browser offers nothing that was typed before. */
export function textField(label: Part, name: string, more: Part = null): Html {
  return html`<p>
    <label>${label} <input name="${name}" autocomplete="off" ${more} /></label>
  </p>`;
}

/** A field for a reason that stays on record. @param required set if a reason is required, with the text of a refused form */
export function reasonField(label: string, name: string, required?: { readonly typed: string | null }): Html {
  const value = required === undefined ? null : html`required value="${required.typed}"`;
  return textField(label, name, html`maxlength="500" ${value}`);
}

export function selectTag(label: string, name: string, options: readonly Html[]): Html {
  return html`<label
    >${label}
    <select name="${name}">
      ${options}
    </select></label
  >`;
}

export function optionTag(value: string, chosen: string | null, words = value): Html {
  return html`<option value="${value}" ${value === chosen ? html`selected` : null}>${words}</option>`;
}

/** A list of names and values. Leaves out empty values. */
export function factsTag(facts: readonly (readonly [name: string, value: Part])[]): Html {
  return html`<dl>
    ${facts.map(([name, value]) =>
      value === null || value === ''
        ? null
        : html`<dt>${name}</dt>
            <dd>${value}</dd>`,
    )}
  </dl>`;
}

/** The heading of a column, and how to make a cell. Numbers are aligned to the right. */
export type Column<Row> = readonly [head: Part, cell: (row: Row) => Part, side?: 'number' | undefined];

/** A table with a caption for screen readers; without rows, the text `empty`. */
export function tableTag<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  empty: Part = 'There is nothing here yet.',
): Html {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map(([head, , side = 'text']) => html`<th scope="col" class="${side}">${head}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${columns.map(([, cell, side = 'text']) => html`<td class="${side}">${cell(row)}</td>`)}
            </tr> `,
        )}
      </tbody>
    </table>
  </div>`;
}

/** A checkbox for each value. @param meanings explanations; a value with one gets its own line */
export function choiceTags(
  field: string,
  values: readonly string[],
  chosen: readonly string[],
  meanings: Readonly<Record<string, string>> = {},
): Html[] {
  return values.map((value) => {
    const meaning = meanings[value];
    const id = `${field}-${value}`;
    const marks = [chosen.includes(value) ? html`checked` : null, meaning && html` aria-describedby="${id}"`];
    const box = html`<label class="choice"
      ><input type="checkbox" name="${field}" value="${value}" ${marks} /> ${value}</label
    >`;
    return meaning === undefined ? box : html`<div>${box} <span class="soft" id="${id}">${meaning}</span></div>`;
  });
}

/** What a request is called on the wire. */
const requestName = /\b(?:GET|POST|PUT|PATCH|DELETE) https?:\/\/[^\s,;]+/g;

/** What the system calls an error, behind its words: `(ECONNRESET)`. */
const systemCode = / \((?:E[A-Z]{3,}|UND_ERR_[A-Z_]+|ERR_[A-Z_]+)\)/g;

/** A message without addresses of requests and codes of the system. Commands and flags in backquotes get their names in the console, or say that they are of the command line. */
export function prose(text: string): Part {
  return text
    .replaceAll(requestName, 'the request')
    .replaceAll(systemCode, '')
    .split('`')
    .map((part, at, parts) => (at % 2 === 0 ? part : codeTag(part, (parts[at - 1] ?? '').trimEnd())));
}

/** @param before the text before it, which shows whether it begins a sentence */
function codeTag(code: string, before: string): Part {
  const words = consoleWords(code);
  const isFirst = before === '' || before.endsWith('.');
  if (words !== undefined) return isFirst ? `${words.slice(0, 1).toUpperCase()}${words.slice(1)}` : words;
  return [html`<code>${code}</code>`, code.startsWith('admin-mirror ') ? ' on the command line' : null];
}

/** A box that says what is wrong and what to do. */
/** @param details for those who want to know more, folded */
export function problemTag(problem: string, advice?: string, details: readonly string[] = []): Html {
  return html`<div class="problem" role="alert">
    <strong>${prose(problem)}</strong>${advice === undefined ? null : html`<p class="lines">${prose(advice)}</p>`}
    ${
      details.length === 0
        ? null
        : html`<details>
            <summary>Details</summary>
            <p class="lines">${details.join('\n')}</p>
          </details>`
    }
  </div>`;
}

/** The same for an error, without secrets. */
export function refusalTag({ message, advice }: OperatorError, { redact }: Pick<ConsolePorts, 'redact'>): Html {
  return problemTag(redact(message), advice === undefined ? undefined : redact(advice));
}

export function refusalStatus(error: OperatorError): number {
  if (error instanceof LockHeldError) return 409;
  return error instanceof UsageError ? 422 : 503;
}

const signs = { good: '✓', wait: '…', bad: '✗', plain: '·' } as const;
type Mark = keyof typeof signs;

/** The marks of the states of runs, comparisons, rows, approvals, accounts and workers. All other states are bad. */
const marks: Readonly<Record<string, Mark>> = {
  ...marked('good', 'complete', 'equal', 'applied', 'approved', 'active', 'works'),
  ...marked('wait', 'running', 'incomplete', 'blocked', 'sending', 'acknowledged', 'not_submitted', 'waiting', 'waits'),
  planned: 'plain',
};

function marked(mark: Mark, ...states: readonly string[]): Readonly<Record<string, Mark>> {
  return Object.fromEntries(states.map((state) => [state, mark]));
}

/** A state, or a text with the given mark. The sign beside it helps those who cannot see the colour. */
export function stateTag(state: string, own?: Mark): Html {
  const mark = own ?? marks[state] ?? 'bad';
  const words = state === 'needs_human' ? 'needs a person' : own === undefined ? state.replaceAll('_', ' ') : state;
  return html`<span class="state ${mark}"><span aria-hidden="true">${signs[mark]} </span>${words}</span>`;
}

/** How many characters of a cell a table shows. The page of the record shows all. */
const maxShown = 120;

/**
 * A cell of the mirror. It may hold any text, so it is isolated: it cannot change the text direction beside it.
 * @param isWhole whether to show long texts whole
 */
export function cellTag(cell: Cell, type: ColumnType | undefined, isWhole = false): Part {
  if (cell === null) return html`<span class="none">–</span>`;
  if (cell === maskedText) return html`<span class="none">masked</span>`;
  if (cell instanceof Uint8Array) return `(${bytesText(cell.length)})`;
  if (typeof cell === 'number') return numberText(cell, type);
  if (typeof cell === 'bigint') return String(cell);
  if (type === 'time' && parseInstant(cell) !== undefined) return timeTag(cell);
  return html`<bdi>${isWhole ? cell : cutText(cell)}</bdi>`;
}

/** Shows amounts to the cent, or with all digits if there are more. */
function numberText(value: number, type: ColumnType | undefined): string {
  const cents = value.toFixed(2);
  return type === 'decimal' && Number(cents) === value ? cents : String(value);
}

function cutText(text: string): string {
  const start = harmless(text.length > 4 * maxShown ? text.slice(0, 4 * maxShown) : text);
  return start.length <= maxShown ? start : `${start.slice(0, maxShown).toWellFormed()}…`;
}

/** The alignment of a column of this type. */
export function sideOf(type: ColumnType | undefined): 'number' | undefined {
  return type === 'integer' || type === 'decimal' || type === 'double' ? 'number' : undefined;
}

/** The main menu, in this order. A caller sees only the pages that their roles allow. */
const menu = [
  ['/', 'Home'],
  ['/runs', 'Runs'],
  ['/data', 'Data'],
  ['/reports', 'Reports'],
  ['/batches', 'Batches'],
  ['/audit', 'Audit'],
  ['/people', 'People'],
] as const;

export interface Frame {
  readonly title: string;
  readonly body: Html;
  readonly refresh?: number | undefined;
  /** The page opens this address by itself. */
  readonly onward?: string;
  readonly visit: Visit;
  readonly routes: readonly Route[];
  readonly assets: ReturnType<typeof loadAssets>;
  /** The profile and the address of the server. */
  readonly server: string;
  readonly environment: Environment | undefined;
  readonly isReadOnly: boolean;
}

/** The whole document. */
export function documentOf({
  title,
  body,
  refresh,
  onward,
  visit,
  routes,
  assets,
  server,
  environment,
  isReadOnly,
}: Frame): string {
  const { caller, link } = visit;
  const roles = caller?.account.roles ?? null;
  const entries = menu.filter(([path]) =>
    routes.some((route) => route.method === 'GET' && route.path === path && isAllowed(route.access, roles)),
  );
  const document = html`<html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>${title} · admin-mirror</title>
      <link rel="stylesheet" href="${link(assets.style.path)}" />
      <link rel="icon" href="${link(assets.icon.path)}" type="image/svg+xml" />
      <script type="module" src="${link(assets.script.path)}"></script>
      ${onward === undefined ? null : html`<meta http-equiv="refresh" content="0;url=${onward}" />`}
      ${refresh === undefined ? null : html`<noscript><meta http-equiv="refresh" content="${refresh}" /></noscript>`}
    </head>
    <body>
      <a class="skip" href="#main">Skip to the content</a>
      <header>
        <a class="brand" href="${link('/')}">admin-mirror</a>
        ${environment === undefined ? null : html`<strong class="environment ${environment.color ?? ''}">${environment.name}</strong>`}
        ${caller === null ? null : html`<nav aria-label="Main">${entries.map((entry) => navTag(entry, visit))}</nav>`}
        ${visit.offers('GET', '/find') ? findTag(visit) : null} ${caller === null ? null : whoTag(visit)}
      </header>
      <main id="main" tabindex="-1">
        <h1>${title}</h1>
        ${isReadOnly ? html`<p class="note">This console is read-only: it shows everything and changes nothing.</p>` : null}
        ${body}
      </main>
      <footer>${caller === null ? 'admin-mirror' : `${server} · admin-mirror ${version()}`}</footer>
    </body>
  </html>`;
  return `<!doctype html>\n${document.toString()}`;
}

function navTag([path, name]: (typeof menu)[number], { path: here, link }: Visit): Part {
  const isHere = path === '/' ? here === '/' : here === path || here.startsWith(`${path}/`);
  return html`<a href="${link(path)}" ${isHere ? html`aria-current="page"` : null}>${name}</a>`;
}

function findTag({ link, query, path }: Visit): Html {
  return html`<form class="find" role="search" method="get" action="${link('/find')}">
    <label
      ><span class="unseen">Find a person</span>
      <input
        type="search"
        name="q"
        value="${path === '/find' ? query.get('q') : null}"
        placeholder="Email, name or id of a person"
        autocomplete="off"
    /></label>
  </form>`;
}

function whoTag({ caller, link }: Visit): Part {
  return html`<form class="who" method="post" action="${link('/sign-out')}">
    <a href="${link('/me')}">${caller?.account.name}</a> <button class="quiet">Sign out</button>
  </form>`;
}

const types = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8', svg: 'image/svg+xml' } as const;

/** The path contains a hash of the content, so browsers may keep the file for ever. */
function asset(name: string, kind: keyof typeof types) {
  const { bytes } = readRegularFile(fileURLToPath(new URL(`./assets/${name}.${kind}`, import.meta.url)));
  return { path: `/assets/${name}-${hash('sha256', bytes).slice(0, 12)}.${kind}`, type: types[kind], bytes };
}

/** Reads the files beside this module. */
export function loadAssets() {
  return { style: asset('console', 'css'), script: asset('console', 'js'), icon: asset('icon', 'svg') };
}
