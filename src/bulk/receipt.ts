/**
 * A receipt: a page about a batch for people to read, print and keep. It says what became of every row, who did it and what proves
 * it. It has no script and loads nothing, and is written row by row, so that its size does not matter. Section "The chain" of
 * docs/architecture.md.
 */
import { createHash } from 'node:crypto';
import { Big } from 'big.js';
import type { Batch, Intent, Journal, RowChange } from '../journal/port.ts';
import { escapedHtml as html, Html } from '../model/markup.ts';
import { moneyText } from '../model/money.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import { type CountName, countNameOf, countNames, type Counts } from './intent.ts';
import { factsOf, outcomeOf, recordOf, reportOf } from './report.ts';
import { actorText } from '../model/actor.ts';

export type ReceiptHead = Readonly<Awaited<ReturnType<typeof headOf>>>;

interface ReceiptOptions {
  readonly clock: Clock;
  /** Called with what the receipt says about the batch, before its first bytes. */
  readonly onHead?: (head: ReceiptHead) => void;
}

/** The bytes of the batch's receipt as of one moment. The journal does nothing else meanwhile. */
export function receiptOf(journal: Journal, { batch: name }: Pick<Batch, 'batch'>, { clock, onHead }: ReceiptOptions) {
  return inPieces(
    journal.atOneMoment(async function* (frozen) {
      const batch = await frozen.batch(name);
      if (batch === undefined) throw new Error(`there is no batch ${name} any more`);
      const head = await headOf(frozen, batch, clock);
      onHead?.(head);
      yield `<!doctype html>\n${pageHead(head)}`;
      for await (const intent of frozen.intents(name)) yield pageRow(intent);
      yield `${pageRowsEnd}</body></html>\n`;
    }),
  );
}

/** What a receipt says about the whole batch. */
async function headOf(journal: Journal, batch: Batch, clock: Clock) {
  const report = await reportOf(journal, batch);
  const { action, state, rows, counts, net, discrepancies, problems } = report;
  return {
    written_at: timestampOf(clock.now()),
    batch: batch.batch,
    action,
    plan_hash: batch.hash,
    again_reason: batch.againReason,
    state,
    /** Nothing is left to be sent, and no outcome is open. */
    settled: counts.planned + counts.blocked + counts.unknown === 0,
    rows,
    counts,
    net,
    outcomes: await outcomesOf(journal.changes(batch.batch), counts),
    discrepancies,
    problems,
    ...factsOf(batch),
    ...(await recordOf(journal, batch)),
    /** In order: what was done with the whole batch, and what people decided about rows. */
    steps: await journal.steps(batch.batch, 'decisions'),
  };
}

/** The changes of balances of all rows with one outcome: as made if they were applied, otherwise as planned. */
async function outcomesOf(changes: AsyncIterable<RowChange>, counts: Counts) {
  const zero = { net: new Big(0), gross: new Big(0) };
  const sums = new Map<CountName, typeof zero>();
  for await (const row of changes) {
    const change = outcomeOf(row);
    if (change === null) continue;
    const { net, gross } = sums.get(countNameOf(row.state)) ?? zero;
    sums.set(countNameOf(row.state), { net: net.plus(change), gross: gross.plus(change.abs()) });
  }
  return countNames.flatMap((outcome) => {
    const { net, gross } = sums.get(outcome) ?? zero;
    return counts[outcome] === 0
      ? []
      : [{ outcome, rows: counts[outcome], net: moneyText(net), gross: moneyText(gross) }];
  });
}

const pieceLength = 64 * 1024;

/** Joins the texts into larger pieces of bytes. */
async function* inPieces(texts: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  let piece = '';
  for await (const text of texts) {
    piece += text;
    if (piece.length < pieceLength) continue;
    yield Buffer.from(piece);
    piece = '';
  }
  yield Buffer.from(piece);
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

/** Not formatted or escaped, since the policy names the hash of these bytes. */
const styleTag = new Html(`<style>${style}</style>`);

// Nothing is loaded, whatever program opens the page. The data block is no script that could run.
const policy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`;

/** The names and values of the first table; a value of null is not shown. */
function pageFacts(head: ReceiptHead): readonly (readonly [string, string | Html | null])[] {
  const { action, file, state, rows, steps, head: chain } = head;
  const actors = (all: ReceiptHead['planned_by']): string => all.map(actorText).join(', ') || 'nobody';
  return [
    ['Action', action],
    ['Server', head.server],
    ['File', file === null ? null : file.name],
    ['SHA-256 of the file', typeof file?.sha256 === 'string' ? html`<code>${file.sha256}</code>` : null],
    ['Hash of the plan', html`<code>${head.plan_hash}</code>`],
    ['Takes back', head.undo_of],
    ['Why again', head.again_reason],
    ['Planned', `${head.created_at} by ${actors(head.planned_by)}`],
    ['Submitted by', head.submitted_by.length === 0 ? null : actors(head.submitted_by)],
    [steps.some(({ kind }) => kind === 'approved') ? 'Approved by' : 'Confirmed by', actors(head.approved_by)],
    ['Sent by', actors(head.sent_by)],
    ['Sending began', head.applied_at],
    ['Finished', head.finished_at],
    ['State', state],
    ['Rows', `${rows}`],
    ['Net as planned', head.net],
    ['Rows that differ', head.discrepancies === 0 ? null : `${head.discrepancies}`],
    ['Written', head.written_at],
    ['Head of the journal', chain === null ? null : html`step ${chain.step}, <code>${chain.hash}</code>`],
  ];
}

function pageHead(head: ReceiptHead): string {
  const { batch, steps, outcomes, problems } = head;
  const title = `Receipt for batch ${batch}`;
  const outcomeRows = outcomes.map(({ outcome, rows, net, gross }) => [outcome, rows, net, gross]);
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
        ${pageFacts(head).map(([name, value]) =>
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
      ${new Html(tableBegins(rowColumns, rowNumbers))}
   `;
  return `${String(markup)}\n`;
}

function openWords({ state, counts }: ReceiptHead): string {
  const open = (['planned', 'blocked', 'unknown'] as const).filter((name) => counts[name] > 0);
  return `This batch is not done (${state}): ${open.map((name) => `${counts[name]} ${name}`).join(', ')}. What became of these rows was not known when this was written.`;
}

const rowColumns = 'row user what planned before after state evidence record HTTP sent problem mark'.split(' ');
const rowNumbers = [0, 1, 3, 4, 5, 9];

function pageRow(intent: Intent): string {
  const { row, user, parameters, plannedBefore: from, plannedAfter: to, before, after, state, evidence } = intent;
  const planned = from === null && to === null ? null : `${from ?? '?'} → ${to ?? '?'}`;
  const cells = [row, user, whatOf(parameters), planned, before, after, state, evidence, intent.recordId];
  return String(line([...cells, intent.httpStatus, intent.sentAt, intent.problem, intent.token], rowNumbers));
}

const pageRowsEnd = '</tbody></table>';

/** Characters in the table. The results have the whole text. */
const longestWords = 200;

/** `type add, amount 5.00, description Refund`. */
function whatOf(parameters: Intent['parameters']): string {
  const words = Object.entries(parameters ?? {})
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`);
  const text = words.join(', ');
  return text.length > longestWords ? `${text.slice(0, longestWords)}…` : text;
}

type Cell = string | number | null;

/** @param numbers indexes of the columns that are aligned to the right */
function table(columns: readonly string[], numbers: readonly number[], rows: readonly (readonly Cell[])[]): Html {
  const lines = rows.map((cells) => line(cells, numbers));
  return new Html(`${tableBegins(columns, numbers)}${lines.join('')}${pageRowsEnd}`);
}

function tableBegins(columns: readonly string[], numbers: readonly number[]): string {
  const cells = columns.map((name, at) => html`<th scope="col" class="${sideOf(at, numbers)}">${name}</th>`);
  return `<table><thead><tr>${cells.join('')}</tr></thead><tbody>\n`;
}

function line(cells: readonly Cell[], numbers: readonly number[]): Html {
  return html`<tr>
    ${cells.map((cell, at) => html`<td class="${sideOf(at, numbers)}">${cell}</td>`)}
  </tr> `;
}

function sideOf(at: number, numbers: readonly number[]): string {
  return numbers.includes(at) ? 'n' : 't';
}
