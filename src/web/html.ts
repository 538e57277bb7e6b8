/** Templates that escape every value, and the parts of pages. All markup of the console is made with them. */
import type { ColumnType } from '../data/column-type.ts';
import { maskedText } from '../data/personal.ts';
import { escapedHtml, type Html, type Part } from '../model/markup.ts';
import { bytesText, harmless, withoutCodes } from '../model/text.ts';
import { LockHeldError, type OperatorError, UsageError } from '../model/errors.ts';
import { ageText, minuteOf, parseInstant, type Timestamp, timestampOf } from '../model/time.ts';
import type { Cell } from '../data/reading-types.ts';
import type { ConsolePorts } from './route.ts';
import { consoleWords } from './words.ts';

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

/** A field for a time, in any way that commands take one. */
export function timeField(label: string, name: string, query: URLSearchParams): Html {
  return html`<label
    >${label} <input name="${name}" value="${query.get(name)}" placeholder="2026-03-11 or 7d" autocomplete="off"
  /></label>`;
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

/** The name of a column, and how to make a cell. Numbers are aligned to the right. `head` is shown in the place of the name. */
export type Column<Row> = readonly [
  name: string,
  cell: (row: Row) => Part,
  side?: 'number' | undefined,
  head?: Html | undefined,
];

/**
 * A table with a caption for screen readers; without rows, the text `empty`. On a phone each row of three or more cells becomes a
 * block, in which each cell has the name of its column.
 */
export function tableTag<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  empty: Part = 'There is nothing here yet.',
): Html {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const kind = columns.length > 2 ? html`class="many"` : null;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table ${kind}>
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map(([name, , side, head]) => html`<th scope="col" ${side && html`class="${side}"`}>${head ?? name}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${columns.map((column) => cellOf(column, row))}
            </tr> `,
        )}
      </tbody>
    </table>
  </div>`;
}

function cellOf<Row>([name, cell, side]: Column<Row>, row: Row): Html {
  return html`<td ${side && html`class="${side}"`} data-name="${harmless(name)}">${cell(row)}</td>`;
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

/**
 * A message without addresses of requests and codes of the system. Commands and flags in backquotes get their names in the console, or
 * say that they are of the command line.
 * @param here the batch whose page shows it
 */
export function prose(text: string, here?: string): Part {
  return withoutCodes(text)
    .split('`')
    .map((part, at, parts) => (at % 2 === 0 ? part : codeTag(part, (parts[at - 1] ?? '').trimEnd(), here)));
}

/** @param before the text before it, which shows whether it begins a sentence */
function codeTag(code: string, before: string, here: string | undefined): Part {
  const words = consoleWords(code, here);
  const isFirst = before === '' || before.endsWith('.');
  if (words !== undefined) return isFirst ? `${words.slice(0, 1).toUpperCase()}${words.slice(1)}` : words;
  return [html`<code>${code}</code>`, code.startsWith('admin-mirror ') ? ' on the command line' : null];
}

interface ProblemMore {
  /** For those who want to know more, folded. */
  readonly details?: readonly string[];
  /** The batch whose page shows it. */
  readonly here?: string | undefined;
}

/** A box that says what is wrong and what to do. */
export function problemTag(problem: string, advice?: string, { details = [], here }: ProblemMore = {}): Html {
  const next = advice === undefined ? null : html`<p class="lines">${prose(advice, here)}</p>`;
  return html`<div class="problem" role="alert">
    <strong>${prose(problem, here)}</strong>${next}
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
export function refusalTag(
  { message, advice }: OperatorError,
  { redact }: Pick<ConsolePorts, 'redact'>,
  here?: string,
): Html {
  return problemTag(redact(message), advice === undefined ? undefined : redact(advice), { here });
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
