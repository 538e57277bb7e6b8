/** Pages are made of templates that escape every value they are given; nothing else in this room makes markup. */
import { html as template, type SafeHtml } from '@remix-run/html-template';
import { counted } from '../model/counted.ts';
import { parseInstant, type Timestamp } from '../model/time.ts';

export type Html = SafeHtml;

/** What may stand in a template. A truth value may not: it would be printed as a word. */
export type Part = Html | string | number | null | undefined | readonly Part[];

/** Markup; every value that is not markup itself is escaped. */
export const html = template as (strings: TemplateStringsArray, ...parts: Part[]) => Html;

export const nothing = html``;

/** A moment in UTC; a script shows it in the reader's zone, with UTC on hover. Null is a dash. */
export function timeTag(at: Timestamp | string | null): Html {
  if (at === null) return html`<span class="none">–</span>`;
  const instant = parseInstant(at);
  if (instant === undefined) return html`${at}`;
  const iso = new Date(instant).toISOString();
  return html`<time datetime="${iso}" title="${iso.slice(0, 19).replace('T', ' ')} UTC"
    >${iso.slice(0, 16).replace('T', ' ')} UTC</time
  >`;
}

/** How long ago something was, as a time that ages on the screen where scripts run. */
export function ageTag(at: Timestamp | string | null, now: number): Html {
  const instant = at === null ? undefined : parseInstant(at);
  if (instant === undefined) return html`<span class="none">never</span>`;
  const iso = new Date(instant).toISOString();
  return html`<time datetime="${iso}" title="${iso.slice(0, 19).replace('T', ' ')} UTC" data-age
    >${ageWords(now - instant)}</time
  >`;
}

const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const;

/** `3 hours ago`; the largest unit alone, which is what one look is for. */
function ageWords(ms: number): string {
  for (const [unit, size] of units) {
    const count = Math.floor(Math.abs(ms) / size);
    if (count >= 1) return `${counted(count, unit)} ${ms < 0 ? 'ahead' : 'ago'}`;
  }
  return 'just now';
}

export interface Column<Row> {
  readonly head: Part;
  readonly cell: (row: Row) => Part;
  /** Numbers stand to the right. */
  readonly isNumber?: true;
}

/** A table with a caption for whoever does not see it; `empty` stands in its place where there is no row. */
export function tableTag<Row>(
  caption: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  empty: Part = 'There is nothing here yet.',
): Html {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const side = ({ isNumber }: Column<Row>) => (isNumber === true ? 'number' : 'text');
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map((column) => html`<th scope="col" class="${side(column)}">${column.head}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${columns.map((column) => html`<td class="${side(column)}">${column.cell(row)}</td>`)}
            </tr> `,
        )}
      </tbody>
    </table>
  </div>`;
}

/** A box to tick for each value. */
export function choiceTags(field: string, values: readonly string[], chosen: readonly string[]): Html[] {
  return values.map(
    (value) =>
      html`<label class="choice"
        ><input type="checkbox" name="${field}" value="${value}" ${chosen.includes(value) ? html`checked` : null} />
        ${value}</label
      >`,
  );
}

/** What a page says of something that is wrong, and what to do about it. */
export function problemTag(problem: string, advice?: string): Html {
  return html`<div class="problem" role="alert">
    <strong>${problem}</strong>${advice === undefined ? null : html`<p class="lines">${advice}</p>`}
  </div>`;
}

/** A word for a state, with a sign beside it: colour alone tells nothing to those who do not see it. */
export function stateTag(state: string, kind: 'good' | 'wait' | 'bad' | 'plain'): Html {
  const signs = { good: '✓', wait: '…', bad: '✗', plain: '·' } as const;
  return html`<span class="state ${kind}"><span aria-hidden="true">${signs[kind]} </span>${state}</span>`;
}
