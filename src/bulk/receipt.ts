/**
 * A receipt: a page about a batch for people to read, print and keep. It says what became of every row, who did it and what proves
 * it. It has no script and loads nothing, and is written row by row, so that its size does not matter. Section "The chain" of
 * docs/architecture.md.
 */
import { createHash } from 'node:crypto';
import { Big } from 'big.js';
import type { Batch, Intent, Journal, RowView } from '../journal/port.ts';
import { escapedHtml as html, Html } from '../model/markup.ts';
import { amountWords, moneyText } from '../model/money.ts';
import { counted, withoutCodes } from '../model/text.ts';
import { type Clock, minuteOf, type Timestamp, timestampOf } from '../model/time.ts';
import { type CountName, countNameOf, countNames, type Counts } from './intent.ts';
import { evidenceWords, factsOf, outcomeOf, recordOf, reportOf } from './report.ts';
import { actorText } from '../model/actor.ts';

export type ReceiptHead = Readonly<Awaited<ReturnType<typeof headOf>>>;

interface ReceiptOptions {
  readonly clock: Clock;
  /** What the amounts are in; shown with each. */
  readonly currency: string | undefined;
  /** Called with what the receipt says about the batch, before its first bytes. */
  readonly onHead?: (head: ReceiptHead) => void;
}

/** The bytes of the batch's receipt as of one moment. The journal does nothing else meanwhile. */
export function receiptOf(
  journal: Journal,
  { batch: name }: Pick<Batch, 'batch'>,
  { clock, currency, onHead }: ReceiptOptions,
) {
  return inPieces(
    journal.atOneMoment(async function* (frozen) {
      const batch = await frozen.batch(name);
      if (batch === undefined) throw new Error(`there is no batch ${name} any more`);
      const head = await headOf(frozen, batch, clock);
      onHead?.(head);
      const money: Words = (amount) =>
        amount === null || head.action !== 'balance' ? amount : amountWords(amount, currency);
      yield `<!doctype html>\n${pageHead(head, money)}`;
      for await (const intent of frozen.intents(name)) yield pageRow(intent, money);
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
    title: batch.title,
    action,
    plan_hash: batch.hash,
    again_reason: batch.againReason,
    state,
    /** Nothing is left to be sent, and no outcome is open. */
    settled: counts.planned + counts.blocked + counts.unknown === 0,
    rows,
    counts,
    net,
    outcomes: await outcomesOf(journal.views(batch.batch), counts),
    discrepancies,
    problems,
    ...factsOf(batch),
    ...(await recordOf(journal, batch)),
    /** In order: what was done with the whole batch, and what people decided about rows. */
    steps: await journal.steps(batch.batch, 'decisions'),
  };
}

/** The changes of balances of all rows with one outcome: as made if they were applied, otherwise as planned. */
async function outcomesOf(rows: AsyncIterable<RowView>, counts: Counts) {
  const zero = { net: new Big(0), gross: new Big(0) };
  const sums = new Map<CountName, typeof zero>();
  for await (const row of rows) {
    const change = row.state === 'invalid' ? null : outcomeOf(row);
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
body { font: 10pt/1.45 system-ui, sans-serif; color: #111; background: #fff; margin: 2em auto; max-width: 75em; padding: 0 1em }
h1 { font-size: 18pt; margin: 0 0 .2em } h2 { font-size: 12pt; margin: 1.6em 0 .4em; break-after: avoid }
.sum { font-size: 13pt; margin: 0 0 1em }
.open { border: 2px solid #111; padding: .5em .8em; font-weight: bold }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: .25em .7em .25em 0; border-bottom: 1px solid #bbb; overflow-wrap: break-word; unicode-bidi: isolate }
thead { display: table-header-group } tr { break-inside: avoid }
.facts th { width: 12em; font-weight: normal; color: #444 }
.n { text-align: right; font-variant-numeric: tabular-nums }
.n, .w { white-space: nowrap } .n .s { white-space: normal }
.s { color: #444; font-size: 8pt; display: block }
code { font: 8pt/1.4 ui-monospace, monospace }
@page { size: A4; margin: 12mm }
@media print { body { margin: 0; padding: 0; max-width: none; font-size: 8.5pt } .s, code { font-size: 7pt } }
`;

/** Not formatted or escaped, since the policy names the hash of these bytes. */
const styleTag = new Html(`<style>${style}</style>`);

// Nothing is loaded, whatever program opens the page. The data block is no script that could run.
const policy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`;

/** An amount as people read it. For actions that move no money, the text as it is. */
type Words = <T extends string | null>(amount: T) => T | string;

/** The names and values of the first table; a value of null is not shown. */
function pageFacts(head: ReceiptHead): readonly (readonly [string, string | Html | null])[] {
  const { action, file, state, rows, steps, head: chain } = head;
  const actors = (all: ReceiptHead['planned_by']): string => all.map(actorText).join(', ') || 'nobody';
  const minute = (at: Timestamp | null): string | null => (at === null ? null : minuteOf(at));
  return [
    ['Planned', `${minuteOf(head.created_at)}, by ${actors(head.planned_by)}`],
    ['Submitted by', head.submitted_by.length === 0 ? null : actors(head.submitted_by)],
    [steps.some(({ kind }) => kind === 'approved') ? 'Approved by' : 'Confirmed by', actors(head.approved_by)],
    ['Sent by', actors(head.sent_by)],
    ['Sending began', minute(head.applied_at)],
    ['Finished', minute(head.finished_at)],
    ['State', state],
    ['Takes back', head.undo_of],
    ['Why again', head.again_reason],
    ['Rows that differ', head.discrepancies === 0 ? null : `${head.discrepancies}`],
    ['Action', action],
    ['Server', head.server],
    ['File', file === null ? null : file.name],
    ['SHA-256 of the file', typeof file?.sha256 === 'string' ? html`<code>${file.sha256}</code>` : null],
    ['Batch', html`${head.batch}, ${rows} rows, plan <code>${head.plan_hash}</code>`],
    ['Head of the journal', chain === null ? null : html`step ${chain.step}, <code>${chain.hash}</code>`],
    ['Written', minute(head.written_at)],
  ];
}

function pageHead(head: ReceiptHead, money: Words): string {
  const { steps, outcomes, problems } = head;
  const title = `Receipt: ${head.title}`;
  const outcomeRows = outcomes.map(({ outcome, rows, net, gross }) => [outcome, rows, money(net), money(gross)]);
  const stepRows = steps.map(({ step, at, actor, kind, row, note }) => {
    const what = `${stepWords[kind] ?? kind.replaceAll('_', ' ')}${row === null ? '' : ` row ${row}`}`;
    return [step, minuteOf(at), actorText(actor), what, note];
  });
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
      <p class="sum">${sumWords(head, money)}</p>
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
      ${table(outcomeColumns, outcomeRows)}
      <h2>Who did what</h2>
      ${table(stepColumns, stepRows)} ${problems.length === 0 ? null : html`<h2>Problems</h2>`}
      ${problems.length === 0 ? null : table(problemColumns, problemRows)}
      <h2>Rows</h2>
      ${new Html(tableBegins(rowColumns))}
   `;
  return `${String(markup)}\n`;
}

/** All other steps have their own names. */
const stepWords: Readonly<Record<string, string>> = {
  added: 'planned',
  consented: 'confirmed',
  claimed: 'sending began',
};

function openWords({ state, counts }: ReceiptHead): string {
  const open = (['planned', 'blocked', 'unknown'] as const).filter((name) => counts[name] > 0);
  return `This batch is not done (${state}): ${open.map((name) => `${counts[name]} ${name}`).join(', ')}. What became of these rows was not known when this was written.`;
}

/** `9 rows applied, net 126.00 EUR`. */
function sumWords({ outcomes, action }: ReceiptHead, money: Words): string {
  const words = outcomes.map(({ outcome, rows, net }) => {
    return `${counted(rows, 'row')} ${outcome}${action === 'balance' ? `, net ${money(net)}` : ''}`;
  });
  return words.join('; ') || 'No rows';
}

/** Each with its class: `n` is aligned to the right, `w` keeps its words on one line. */
type Columns = Readonly<Record<string, 'n' | 'w' | 't'>>;

const outcomeColumns: Columns = { Outcome: 't', Rows: 'n', Net: 'n', 'Moved up and down': 'n' };
const stepColumns: Columns = { Step: 'n', When: 'w', Who: 't', What: 'w', Note: 't' };
const problemColumns: Columns = { Row: 'n', Column: 't', Problem: 't' };
const rowColumns: Columns = { Row: 'n', User: 't', What: 't', Before: 'n', After: 'n', Outcome: 't', Sent: 't' };

function pageRow(intent: Intent, money: Words): string {
  const { row, user, parameters, plannedBefore: from, plannedAfter: to, before, after, state } = intent;
  const { plannedUsername, plannedEmail, recordId, httpStatus, token, problem, sentAt } = intent;
  const small = (...parts: readonly (string | null)[]): Html =>
    html`${parts.map((part) => (part === null ? null : html`<span class="s">${part}</span>`))}`;
  const plannedAs = (amount: string | null, made: string | null): Html =>
    small(amount === null || amount === made ? null : `planned ${money(amount)}`);
  const who = html`${user} ${plannedUsername}${small(plannedEmail)}`;
  const what = html`${whatOf(parameters, money)}${small(problem === null ? null : withoutCodes(problem))}`;
  const record = recordId === null ? null : `record ${recordId}`;
  const status = httpStatus === null ? null : `HTTP ${httpStatus}`;
  const marks = [token, record, status].filter((each) => each !== null).join(' · ');
  const outcome = html`${state.replaceAll('_', ' ')}${small(evidenceWords(intent), marks === '' ? null : marks)}`;
  const sent = sentAt === null ? null : minuteOf(sentAt);
  const balances = [html`${money(before)}${plannedAs(from, before)}`, html`${money(after)}${plannedAs(to, after)}`];
  return String(line(rowColumns, [row, who, what, ...balances, outcome, sent]));
}

const pageRowsEnd = '</tbody></table>';

/** Characters in the table. The results have the whole text. */
const longestWords = 200;

/** `add 5.00 EUR, Refund` for a balance, otherwise each with its name. */
function whatOf(parameters: Intent['parameters'], money: Words): string {
  const words = Object.entries(parameters ?? {})
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value);
      return name === 'type' || name === 'description' ? text : name === 'amount' ? money(text) : `${name} ${text}`;
    });
  const text = words.join(', ');
  return text.length > longestWords ? `${text.slice(0, longestWords)}…` : text;
}

type Cell = string | number | Html | null;

function table(columns: Columns, rows: readonly (readonly Cell[])[]): Html {
  return new Html(`${tableBegins(columns)}${rows.map((cells) => line(columns, cells)).join('')}${pageRowsEnd}`);
}

function tableBegins(columns: Columns): string {
  const cells = Object.entries(columns).map(([name, side]) => html`<th scope="col" class="${side}">${name}</th>`);
  return `<table><thead><tr>${cells.join('')}</tr></thead><tbody>\n`;
}

function line(columns: Columns, cells: readonly Cell[]): Html {
  const sides = Object.values(columns);
  return html`<tr>
    ${cells.map((cell, at) => html`<td class="${sides[at] ?? 't'}">${cell}</td>`)}
  </tr> `;
}
