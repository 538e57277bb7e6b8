/** One batch: its plan, its problems, the outcome of each row, and its files. */
import { countNameOf, countNames, intentStates, openStates, resultFiles } from '../../bulk/intent.ts';
import { type BatchReport, isDiscarded } from '../../bulk/report.ts';
import { receiptOf } from '../../bulk/receipt.ts';
import { manifestNow, resultChunks } from '../../bulk/results.ts';
import {
  balancesOf,
  notedRows,
  parameterWords,
  type ReviewRow,
  reviewTable,
  rowsInJournal,
  wrongTable,
} from '../../bulk/review.ts';
import type { Batch, HoldingRow, Intent } from '../../journal/port.ts';
import { amountWords } from '../../model/money.ts';
import { counted, grouped } from '../../model/text.ts';
import { type TableFormat, tableFormats } from '../../model/spreadsheet.ts';
import { anchor, buttonForm, html, type Html, type Part, stateTag, tableTag, prose, refusalTag } from '../html.ts';
import { type ConsolePorts, page, type Reply, type Visit, notFound } from '../route.ts';
import { amountIn, countsTag, headTag, reversalTag } from './batch-head.ts';
import { problemsTable } from './batch-checks.ts';
import { approvalTag, decideTag, discardTag } from './batch-acts.ts';
import { sendingTag } from './batch-progress.ts';
import { batchIn, reportNow, textChunks, userTag } from './batches.ts';
import { contentTypes } from '../../data/formats.ts';
import { tableWriter } from '../../data/export.ts';
import { openJournalForReading } from '../../journal/open.ts';
import { Releases } from '../../model/releases.ts';

const rowsAPage = 100;
/** How many problems, notes and open rows the page lists. The table of rows and the files have all of them. */
const maxListed = 50;

export async function batchPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { journal } = ports;
  const batch = await batchIn(visit, ports);
  const report = await reportNow(ports, batch);
  const people = await journal.people(batch.batch);
  const last = visit.refusal === null ? ports.sendings.lastProblem(batch.batch) : undefined;
  const body = html`${last === undefined ? null : refusalTag(last, ports, batch.batch)}
  ${headTag(report, batch, people, visit, ports)} ${await reversalTag(visit, ports, report)}
  ${sendingTag(visit, ports, report)} ${countsTag(report)} ${wrongTag(visit, report)}
  ${await lookTag(visit, ports, report)} ${await openTag(visit, ports, report)} ${holdingTag(visit, report)}
  ${filesTag(visit, report)} ${await rowsTag(visit, ports, report)} ${approvalTag(report)} ${undoTag(visit, report)}
  ${discardTag(visit, report)} ${await decideTag(visit, ports, batch, report)}`;
  return page(batch.title, body, report.state === 'applying' ? { refresh: 3 } : {});
}

function wrongTag({ link }: Visit, { batch, problems, counts }: BatchReport): Html {
  if (problems.length === 0) return html``;
  return html`<h2>What is wrong with the sheet</h2>
    ${problemsTable(problems.slice(0, maxListed))} ${moreTag(problems)}
    ${counts.invalid === 0 ? null : html`<p>Download the wrong rows, each with its problem. Correct them and upload them as a new batch: ${sheetLinks(link, batch, 'wrong')}</p>`}`;
}

function moreTag(all: readonly unknown[]): Part {
  return all.length > maxListed ? html`<p class="soft">… and ${grouped(all.length - maxListed)} more.</p>` : null;
}

/** What to know of the sheet, and the rows to check before the batch is sent. After that, nobody needs these. */
async function lookTag({ link }: Visit, ports: ConsolePorts, report: BatchReport): Promise<Html> {
  const { journal } = ports;
  const { batch, state } = report;
  const noted = state === 'planned' ? await notedRows(rowsInJournal(journal, { batch })) : [];
  // What the table says of a row is not said twice.
  const said = new Set(
    noted.flatMap(({ row, notes }) => notes.flatMap((each) => [`row ${row}: ${each}`, `row ${row} ${each}`])),
  );
  const isSaid = (text = '', at = 0): boolean =>
    said.has(text) || (text.endsWith(' more like these') && isSaid(report.warnings[at - 1], at - 1));
  const warnings = report.warnings.filter((text, at) => !isSaid(text, at));
  if (noted.length + warnings.length === 0) return html``;
  const amount = amountIn(ports, report);
  return html`<h2>What to look at</h2>
    ${
      warnings.length === 0
        ? null
        : html`<ul>
              ${warnings.slice(0, maxListed).map((text) => html`<li>${prose(text)}</li>`)}
            </ul>
            ${moreTag(warnings)}`
    }
    ${
      noted.length === 0
        ? null
        : html`${tableTag<ReviewRow>(
              'Rows that deserve a look, the largest changes first',
              [
                ['Row', ({ row }) => anchor(link(`/batches/${batch}/rows/${row}`), row), 'number'],
                ['User', ({ user_id: user, username }) => [user, ' ', username]],
                ['Before', ({ before }) => amount(before), 'number'],
                ['After', ({ after }) => amount(after), 'number'],
                ['Why', ({ notes }) => notes.join('; ')],
              ],
              noted.slice(0, maxListed),
            )}
            ${moreTag(noted)}
            <p>Download all rows to check them, these first: ${sheetLinks(link, batch, 'review')}</p>`
    }`;
}

function sheetLinks(link: Visit['link'], batch: string, name: 'wrong' | 'review'): Html[] {
  const at = (format: TableFormat): string => link(`/batches/${batch}/files/${name}.${format}`);
  return tableFormats.map((format) => html`<a class="button quiet" href="${at(format)}" download>as .${format}</a> `);
}

async function openTag(
  { link }: Visit,
  { journal }: ConsolePorts,
  { batch, counts, state }: BatchReport,
): Promise<Html> {
  if (counts.unknown === 0 || state === 'applying') return html``;
  const open = await firstOf(journal.intents(batch, openStates), maxListed);
  return html`<h2>Outcomes that nobody knows yet</h2>
    <p>
      These rows were sent, but it is not known whether they were done.
      <strong>Do not send them in any other way.</strong> “Go on” looks for each of them again. If a row stays open,
      look at the user on the server, and say on the page of the row what you saw.
    </p>
    ${tableTag<Intent>(
      'Rows whose outcome is open',
      [
        ['Row', ({ row }) => anchor(link(`/batches/${batch}/rows/${row}`), `row ${row}`)],
        ['User', ({ user, plannedUsername }) => [user ?? 'new', ' ', plannedUsername]],
        ['State', ({ state: own }) => stateTag(own)],
        ['Seen so far', ({ problem }) => (problem === null ? 'not looked at yet' : prose(problem))],
      ],
      open,
    )}`;
}

function holdingTag({ link }: Visit, { batch, holding, state }: BatchReport): Html {
  if (holding.length === 0 || state === 'applying') return html``;
  return html`<h2>Rows that hold others back</h2>
    <p>
      These rows were sent and not made. Later rows of the same user wait, so that all go out in the order of the sheet.
      Open each row, and say whether it is sent again or stays as it is. Then press “Go on”.
    </p>
    ${tableTag<HoldingRow>(
      'Rows that hold others back',
      [
        ['Row', ({ row }) => anchor(link(`/batches/${batch}/rows/${row}`), `row ${row}`)],
        ['User', ({ user }) => user],
        ['Rows that wait', ({ later }) => later, 'number'],
        ['Why it was not made', ({ problem }) => (problem === null ? null : prose(problem))],
      ],
      holding.slice(0, maxListed),
    )}
    ${moreTag(holding)}`;
}

async function firstOf<T>(all: AsyncIterable<T>, count: number): Promise<T[]> {
  const first: T[] = [];
  for await (const each of all) if (first.push(each) === count) break;
  return first;
}

async function rowsTag(visit: Visit, ports: ConsolePorts, report: BatchReport): Promise<Html> {
  const { journal, settings } = ports;
  const { batch, counts, rows, types } = report;
  const { link, query } = visit;
  const { currency } = settings.bulk;
  const amount = amountIn(ports, report);
  const show = countNames.find((name) => name === query.get('show'));
  const after = Number(query.get('after') ?? -1);
  const states = show === undefined ? undefined : intentStates.filter((state) => countNameOf(state) === show);
  const found = await firstOf(journal.intents(batch, states, Number.isSafeInteger(after) ? after : -1), rowsAPage + 1);
  const part = found.slice(0, rowsAPage);
  const next = found.length > part.length ? part.at(-1)?.row : undefined;
  const totals = after === -1 && show === undefined ? types : [];
  const here = `/batches/${batch}`;
  return html`<h2 id="rows">Rows</h2>
    ${totals.length === 0 ? null : html`<p>${totals.map(({ type, rows: count, amount: sum }) => `${type}: ${counted(count, 'row')}, ${amountWords(sum, currency)}`).join('; ')}</p>`}
    <p>
      Show
      <a href="${link(here)}#rows" ${show === undefined ? html`aria-current="true"` : null}>all ${grouped(rows)}</a
      >${countNames.map((name) => (counts[name] === 0 ? null : html`, <a href="${link(here, { show: name })}#rows" ${show === name ? html`aria-current="true"` : null}>${grouped(counts[name])} ${name}</a>`))}
    </p>
    ${tableTag<Intent>(
      'Rows of the batch',
      [
        ['Row', ({ row }) => anchor(link(`${here}/rows/${row}`), row), 'number'],
        ['State', ({ state }) => stateTag(state)],
        [
          'User',
          (intent) =>
            html`${userTag(visit, intent)} ${intent.plannedUsername}
              <div class="soft">${intent.plannedEmail}</div>`,
        ],
        ['What', ({ parameters }) => (parameters === null ? null : parameterWords(parameters, currency))],
        ['Before', (intent) => amount(balancesOf(intent).before), 'number'],
        ['After', (intent) => amount(balancesOf(intent).after), 'number'],
        ['Note', ({ notes, problem }) => prose([...notes, ...(problem === null ? [] : [problem])].join('; '))],
      ],
      part,
      'There are no such rows.',
    )}
    ${next === undefined ? null : html`<p><a class="button quiet" href="${link(here, { show: show ?? null, after: next })}#rows">Next rows</a></p>`}`;
}

function filesTag({ link, offers }: Visit, report: BatchReport): Html {
  const { batch, state, action, rows, counts } = report;
  if (state === 'planned') return html``;
  const at = (name: string): string => link(`/batches/${batch}/files/${name}`);
  const { applied, rejected, unknown } = counts;
  const sizes = { applied, rejected, unknown, unprocessed: rows - applied - rejected - unknown };
  const files = resultFiles.filter((name) => sizes[name] > 0);
  return html`<h2>Results</h2>
    <p>
      <a class="button quiet" href="${at('receipt.html')}" download>Receipt, to print and keep</a>
    </p>
    <p>Each row of the sheet is in exactly one of these files, with its state and what proves it:</p>
    <ul>
      ${files.map((name) => html`<li>${counted(sizes[name], 'row')}: ${tableFormats.map((format) => html`<a href="${at(`${name}.${format}`)}" download>${name}.${format}</a> `)}</li>`)}
      <li>people, times and counts: <a href="${at('manifest.json')}" download>manifest.json</a></li>
    </ul>
    ${
      action === 'balance' && !isDiscarded(report) && offers('GET', '/batches/compare')
        ? html`<p>
            <a class="button quiet" href="${link('/batches/compare', { batch })}">Compare it with the server…</a>
          </p>`
        : null
    }`;
}

function undoTag({ link, may }: Visit, { batch, action, counts, state, reversals }: BatchReport): Html {
  const left = counts.applied - reversals.reduce((sum, { rows }) => sum + rows, 0);
  const isPossible = may('maker') && left > 0 && state !== 'applying' && !irreversible.has(action);
  if (!isPossible) return html``;
  return html`<h2>Take it back</h2>
    <p>
      This plans a new batch that takes back every applied row, once. Nothing is sent before you have seen the plan.
    </p>
    ${buttonForm(link(`/batches/${batch}/undo`), 'Plan the reversal', 'quiet')}`;
}

/** Actions that no batch can take back. */
const irreversible: ReadonlySet<string> = new Set(['email', 'notify', 'create', 'delete']);

/**
 * A file of the batch as of now: its wrong rows or all rows to check, as a sheet; one of the result files; their manifest; or the
 * receipt. Throws a NotFoundError.
 */
export async function batchFile(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const { journal } = ports;
  const file = visit.params['file'] ?? '';
  const format = tableFormats.find((each) => file.endsWith(`.${each}`)) ?? 'csv';
  const writer = tableWriter(format, visit.signal, () => {});
  const [name = ''] = file.split('.');
  const result = resultFiles.find((each) => file === `${each}.${format}`);
  const reply = (chunks: AsyncIterable<Uint8Array>, type: string, as = file): Reply => ({
    kind: 'file',
    name: as,
    type,
    chunks,
  });
  const own = `${name}-${batch.batch}`;
  if (result !== undefined) return reply(resultChunks(journal, batch, result, writer), contentTypes[format]);
  switch (file) {
    case `wrong.${format}`:
      return reply(writer.chunks(wrongTable(journal, batch)), contentTypes[format], `${own}.${format}`);
    case `review.${format}`:
      return reply(writer.chunks(reviewTable(journal, batch)), contentTypes[format], `${own}.${format}`);
    case 'manifest.json': {
      const text = `${JSON.stringify(await manifestNow(ports, batch, writer), undefined, 2)}\n`;
      return reply(textChunks(text), 'application/json');
    }
    case 'receipt.html':
      return reply(receiptChunks(ports, batch), 'text/html; charset=utf-8', `${own}.html`);
    default:
      throw notFound('there is no such file');
  }
}

/** Uses a separate connection: the receipt is read in one transaction, which would block all other uses of the journal. */
async function* receiptChunks({ settings, clock }: ConsolePorts, batch: Batch): AsyncGenerator<Uint8Array> {
  const releases = new Releases();
  try {
    const journal = await openJournalForReading(settings, clock, releases);
    if (journal !== undefined) yield* receiptOf(journal, batch, { clock, currency: settings.bulk.currency });
  } finally {
    await releases.close();
  }
}
