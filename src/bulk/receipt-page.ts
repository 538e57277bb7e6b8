/** A receipt as a page of one file for people and printers: no script, nothing from elsewhere, the data in a block of its own. */
import { createHash } from 'node:crypto';
import { html, type SafeHtml } from '@remix-run/html-template';
import { actorText } from '../model/actor.ts';
import { countNames } from './intent.ts';
import type { ReceiptHead, ReceiptRow } from './receipt.ts';

export const pageBegins = '<!doctype html>';
/** Lines on their own: nothing that is shown can be one of them, since it is escaped. */
export const dataBegins = '<script type="application/json" id="receipt">';
export const dataEnds = '</script>';

/** A line of the document as it stands in the page: nothing in it can end the block. */
export function inPage(line: string): string {
  return line.replaceAll('<', String.raw`\u003c`);
}

const sealParts = ['<script type="application/json" id="seal">"', '"</script></body></html>'] as const;

/** The last line of a page. */
export function sealLine(signature: string): string {
  return sealParts.join(signature);
}

const style = `
body { font: 10pt/1.4 system-ui, sans-serif; color: #111; background: #fff; margin: 2em auto; max-width: 75em; padding: 0 1em }
h1 { font-size: 16pt; margin: 0 0 .3em } h2 { font-size: 12pt; margin: 1.6em 0 .4em }
.open { border: 2px solid #111; padding: .5em .8em; font-weight: bold }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .2em .6em .2em 0; border-bottom: 1px solid #bbb; overflow-wrap: anywhere; unicode-bidi: isolate }
thead { display: table-header-group } tr { break-inside: avoid }
.facts th { width: 11em; font-weight: normal; color: #444 }
.n { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; white-space: nowrap }
code { font: 9pt/1.4 ui-monospace, monospace }
@page { size: A4 landscape; margin: 12mm }
@media print { body { margin: 0; padding: 0; max-width: none; font-size: 8pt } code { font-size: 7pt } }
`;

/** As it stands, since the policy names its hash. */
const styleTag = html.raw`${`<style>${style}</style>`}`;

// Nothing is loaded, whatever the page is opened with; the data block is no script that could run.
const policy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`;

export function pageHead(head: ReceiptHead): string {
  const { batch, action, file, state, rows, counts, steps, outcomes, head: chain, problems } = head;
  const title = `Receipt for batch ${batch}`;
  const actors = (all: ReceiptHead['planned_by']): string => all.map(actorText).join(', ') || 'nobody';
  const facts: readonly (readonly [string, string | SafeHtml | null])[] = [
    ['Action', action],
    ['Server', head.server],
    ['File', file === null ? null : file.name],
    ['SHA-256 of the file', typeof file?.sha256 === 'string' ? html`<code>${file.sha256}</code>` : null],
    ['Hash of the plan', html`<code>${head.plan_hash}</code>`],
    ['Takes back', head.undo_of],
    ['Why again', head.again_reason],
    ['Planned', `${head.created_at} by ${actors(head.planned_by)}`],
    ['Submitted by', head.submitted_by.length === 0 ? null : actors(head.submitted_by)],
    ['Approved by', actors(head.approved_by)],
    ['Sent by', actors(head.sent_by)],
    ['Sending began', head.applied_at],
    ['Finished', head.finished_at],
    ['State', state],
    ['Rows', `${rows}`],
    ['Net as planned', head.net],
    ['Rows that differ', head.discrepancies === 0 ? null : `${head.discrepancies}`],
    ['Written', head.written_at],
    ['Head of the journal', chain === null ? null : html`step ${chain.step}, <code>${chain.hash}</code>`],
    ['Signed with the key', html`<code>${head.key_id}</code>`],
  ];
  const outcomeRows = countNames.flatMap((name) => {
    const { net, gross } = outcomes[name];
    return counts[name] === 0 ? [] : [[name, counts[name], net, gross]];
  });
  const stepRows = steps.map(({ step, at, actor, kind, row, note }) => [step, at, actorText(actor), kind, row, note]);
  const problemRows = problems.map(({ row, column, problem }) => [row, column, problem]);
  const markup = html`<html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta http-equiv="Content-Security-Policy" content="${policy}" />
      <meta name="viewport" content="width=device-width" />
      <title>${title}</title>
      ${styleTag}
    </head>
    <body>
      <h1>${title}</h1>
      ${head.settled ? null : html`<p class="open">${openWords(head)}</p>`}
      <table class="facts">
        ${facts.map(([name, value]) =>
          value === null
            ? null
            : html`<tr>
                <th scope="row">${name}</th>
                <td>${value}</td>
              </tr> `,
        )}
      </table>
      <h2>Outcome</h2>
      ${table(['outcome', 'rows', 'net', 'gross'], [1, 2, 3], outcomeRows)}
      <h2>Who did what</h2>
      ${table(['step', 'time', 'who', 'what', 'row', 'note'], [0, 4], stepRows)}
      ${problems.length === 0 ? null : html`<h2>Problems</h2>`}
      ${problems.length === 0 ? null : table(['row', 'column', 'problem'], [0], problemRows)}
      <h2>Rows</h2>
      ${html.raw`${tableBegins(rowColumns, rowNumbers)}`}
   `;
  return `${String(markup)}\n`;
}

function openWords({ state, counts }: ReceiptHead): string {
  const open = (['planned', 'blocked', 'unknown'] as const).filter((name) => counts[name] > 0);
  return `This batch is not done (${state}): ${open.map((name) => `${counts[name]} ${name}`).join(', ')}. What became of these rows was not known when this was written.`;
}

const rowColumns = 'row user what planned before after state evidence record HTTP sent problem'.split(' ');
const rowNumbers = [0, 1, 3, 4, 5, 9];

export function pageRow(each: ReceiptRow): string {
  const { row, user, parameters, planned_before: from, planned_after: to, before, after, state, evidence } = each;
  const planned = from === null && to === null ? null : `${from ?? '?'} → ${to ?? '?'}`;
  const cells = [row, user, whatOf(parameters), planned, before, after, state, evidence, each.record_id];
  return String(line([...cells, each.http_status, each.sent_at, each.problem], rowNumbers));
}

export const pageRowsEnd = '</tbody></table>';

/** The whole text is in the data. */
const longestWords = 200;

/** `type add, amount 5.00, description Refund`. */
function whatOf(parameters: ReceiptRow['parameters']): string {
  const words = Object.entries(parameters ?? {})
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`);
  const text = words.join(', ');
  return text.length > longestWords ? `${text.slice(0, longestWords)}…` : text;
}

type Cell = string | number | null;

/** @param numbers places of the columns that stand to the right */
function table(columns: readonly string[], numbers: readonly number[], rows: readonly (readonly Cell[])[]): SafeHtml {
  const lines = rows.map((cells) => line(cells, numbers));
  return html.raw`${tableBegins(columns, numbers)}${lines}${pageRowsEnd}`;
}

function tableBegins(columns: readonly string[], numbers: readonly number[]): string {
  const cells = columns.map((name, at) => html`<th scope="col" class="${sideOf(at, numbers)}">${name}</th>`);
  return `<table><thead><tr>${cells.join('')}</tr></thead><tbody>\n`;
}

function line(cells: readonly Cell[], numbers: readonly number[]): SafeHtml {
  return html`<tr>
    ${cells.map((cell, at) => html`<td class="${sideOf(at, numbers)}">${cell}</td>`)}
  </tr> `;
}

function sideOf(at: number, numbers: readonly number[]): string {
  return numbers.includes(at) ? 'n' : 't';
}
