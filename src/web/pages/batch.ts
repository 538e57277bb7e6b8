/** One batch: its plan, what is wrong with it, what became of each row, and its files. */
import { countNameOf, countNames, intentStates, openStates, resultFiles } from '../../bulk/intent.ts';
import { type BatchReport, discrepancyWords, isDiscarded, totalWords } from '../../bulk/report.ts';
import { receiptFormats, receiptOf } from '../../bulk/receipt.ts';
import { manifestText, resultChunks } from '../../bulk/results.ts';
import { balancesOf, notedRows, parameterWords, type ReviewRow, reviewTable, wrongTable } from '../../bulk/review.ts';
import type { Batch, BatchPeople, Intent } from '../../journal/port.ts';
import { type Actor, actorText } from '../../model/actor.ts';
import { counted, grouped } from '../../model/text.ts';
import { tableFormats, type TableFormat } from '../../model/table.ts';
import {
  anchor,
  buttonForm,
  factsTag,
  html,
  type Html,
  type Part,
  stateTag,
  tableTag,
  timeTag,
  inBrowser,
  prose,
  refusalTag,
} from '../html.ts';
import { type ConsolePorts, page, type Reply, type Visit, notFound } from '../route.ts';
import { problemsTable } from './batch-checks.ts';
import { approvalTag, discardTag, nextTag } from './batch-acts.ts';
import { batchIn, batchState, reportNow, textChunks, userTag } from './batches.ts';
import { contentTypes } from '../../data/formats.ts';
import { tableWriter } from '../../data/export.ts';
import { openJournalForReading } from '../../journal/open.ts';
import { openSigningKey } from '../../journal/signing-key.ts';
import { Releases } from '../../model/releases.ts';

const rowsAPage = 100;
/** Problems, notes and open rows that are listed one by one; all of them are in the table and in the files. */
const mostListed = 50;

export async function batchPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { journal } = ports;
  const batch = await batchIn(visit, ports);
  const report = await reportNow(ports, batch);
  const people = await journal.people(batch.batch);
  const last = visit.refusal === null ? ports.sendings.lastProblem(batch.batch) : undefined;
  const body = html`${last === undefined ? null : refusalTag(last, ports)} ${headTag(report, batch, people, visit)}
  ${await nextTag(visit, ports, batch, report)} ${discardTag(visit, report)} ${approvalTag(report)}
  ${wrongTag(visit, report)} ${await lookTag(visit, ports, report)} ${await openTag(visit, ports, report)}
  ${await rowsTag(visit, ports, report)} ${filesTag(visit, report)} ${undoTag(visit, report)}`;
  return page(`Batch ${batch.batch}`, body, report.state === 'applying' ? { refresh: 3 } : {});
}

function headTag(report: BatchReport, batch: Batch, people: BatchPeople, { link }: Visit): Html {
  const { file, action, net, gross, users, counts } = report;
  const wasSent = batch.appliedAt !== null;
  const part = (who: readonly Actor[]): string | null => (who.length === 0 ? null : who.map(actorText).join(', '));
  const facts = factsTag([
    ['State', batchState(report)],
    ['Action', action],
    ['Sheet', file],
    ['Takes back', batch.undoOf === null ? null : anchor(link(`/batches/${batch.undoOf}`), batch.undoOf)],
    ['Planned net', totalWords(net, gross, users)],
    ['Applied net', wasSent ? totalWords(report.applied_net, report.applied_gross, report.applied_users) : null],
    ['Differs', discrepancyWords(report)],
    ['Planned by', html`${part(people.planned)}, ${timeTag(batch.createdAt)}`],
    ['Submitted by', part(people.submitted)],
    ['Approved by', part(people.approved)],
    ['Confirmed by', part(people.confirmed)],
    ['Sent by', part(people.sent)],
    ['Discarded by', part(people.discarded)],
    ['Sent again because', batch.againReason],
    ['Fingerprint of the plan', html`<code>${report.hash}</code>`],
  ]);
  return html`${facts}
    <ul class="cards">
      ${countNames.map((name) =>
        counts[name] === 0 && report.state !== 'applying'
          ? null
          : html`<li class="card" ${counts[name] === 0 ? html`hidden` : null}>
              <h2>${name === 'unknown' && report.state === 'applying' ? 'under way or unknown' : name}</h2>
              <div class="big" data-live="${name}">${grouped(counts[name])}</div>
            </li>`,
      )}
    </ul>`;
}

function wrongTag({ link }: Visit, { batch, problems, warnings, counts }: BatchReport): Html {
  return html`${
    problems.length === 0
      ? null
      : html`<h2>What is wrong with the sheet</h2>
          ${problemsTable(problems.slice(0, mostListed))} ${moreTag(problems)}
          ${counts.invalid === 0 ? null : html`<p>The wrong rows back, each with its problem; correct them and send them here again: ${sheetLinks(link, batch, 'wrong')}</p>`}`
  }
  ${
    warnings.length === 0
      ? null
      : html`<h2>Worth knowing</h2>
          <ul>
            ${warnings.slice(0, mostListed).map((text) => html`<li>${prose(inBrowser(text))}</li>`)}
          </ul>
          ${moreTag(warnings)}`
  }`;
}

function moreTag(all: readonly unknown[]): Part {
  return all.length > mostListed ? html`<p class="soft">… and ${grouped(all.length - mostListed)} more.</p>` : null;
}

/** What deserves a look before it goes out: nobody reads this after. */
async function lookTag({ link }: Visit, { journal }: ConsolePorts, { batch, state }: BatchReport): Promise<Html> {
  const noted = state === 'planned' ? await notedRows(journal, batch) : [];
  if (noted.length === 0) return html``;
  return html`<h2>Look at these rows</h2>
    ${tableTag<ReviewRow>(
      'Rows that deserve a look, the largest changes first',
      [
        ['Row', ({ row }) => anchor(link(`/batches/${batch}/rows/${row}`), row), 'number'],
        ['User', ({ user_id: user, username }) => [user, ' ', username]],
        ['Before', ({ before }) => before, 'number'],
        ['After', ({ after }) => after, 'number'],
        ['Why', ({ notes }) => notes.join('; ')],
      ],
      noted.slice(0, mostListed),
    )}
    ${moreTag(noted)}
    <p>Every row to look through, these on top: ${sheetLinks(link, batch, 'review')}</p>`;
}

function sheetLinks(link: Visit['link'], batch: string, name: 'wrong' | 'review'): Html[] {
  const at = (format: TableFormat): string => link(`/batches/${batch}/sheets/${name}.${format}`);
  return tableFormats.map((format) => html`<a class="button quiet" href="${at(format)}" download>as .${format}</a> `);
}

async function openTag(
  { link }: Visit,
  { journal }: ConsolePorts,
  { batch, counts, state }: BatchReport,
): Promise<Html> {
  if (counts.unknown === 0 || state === 'applying') return html``;
  const open = await taken(journal.intents(batch, openStates), mostListed);
  return html`<h2>Outcomes that nobody knows yet</h2>
    <p>
      These rows were sent, and it is not known whether they were done.
      <strong>Do not send them by other means.</strong> “Go on” looks for each of them again. Where that does not settle
      a row, look at the user on the server and say on the page of the row what you saw.
    </p>
    ${tableTag<Intent>(
      'Rows whose outcome is open',
      [
        ['Row', ({ row }) => anchor(link(`/batches/${batch}/rows/${row}`), `row ${row}`)],
        ['User', ({ user, plannedUsername }) => [user ?? 'new', ' ', plannedUsername]],
        ['State', ({ state: own }) => stateTag(own)],
        ['Seen so far', ({ problem }) => (problem === null ? 'not looked at yet' : prose(inBrowser(problem)))],
      ],
      open,
    )}`;
}

async function taken<T>(all: AsyncIterable<T>, most: number): Promise<T[]> {
  const some: T[] = [];
  for await (const each of all) if (some.push(each) === most) break;
  return some;
}

async function rowsTag(
  visit: Visit,
  { journal }: ConsolePorts,
  { batch, action, counts, rows, types }: BatchReport,
): Promise<Html> {
  // They are in the mirror, and not in the journal.
  if (action === 'deletions') return html``;
  const { link, query } = visit;
  const show = countNames.find((name) => name === query.get('show'));
  const after = Number(query.get('after') ?? -1);
  const states = show === undefined ? undefined : intentStates.filter((state) => countNameOf(state) === show);
  const found = await taken(journal.intents(batch, states, Number.isSafeInteger(after) ? after : -1), rowsAPage + 1);
  const part = found.slice(0, rowsAPage);
  const next = found.length > part.length ? part.at(-1)?.row : undefined;
  const totals = after === -1 && show === undefined ? types : [];
  const here = `/batches/${batch}`;
  return html`<h2 id="rows">Rows</h2>
    ${totals.length === 0 ? null : html`<p>${totals.map(({ type, rows: count, amount }) => `${type}: ${counted(count, 'row')}, ${amount}`).join('; ')}</p>`}
    <p>
      Show
      <a href="${link(here)}#rows" ${show === undefined ? html`aria-current="true"` : null}>all ${grouped(rows)}</a
      >${countNames.map((name) => (counts[name] === 0 ? null : html`, <a href="${link(here, { show: name })}#rows" ${show === name ? html`aria-current="true"` : null}>${grouped(counts[name])} ${name}</a>`))}
    </p>
    ${tableTag<Intent>(
      'Rows of the batch',
      [
        ['Row', ({ row }) => anchor(link(`${here}/rows/${row}`), row), 'number'],
        [
          'State',
          ({ state, evidence }) => [
            stateTag(state),
            evidence === null ? null : html` <span class="soft">by ${evidence}</span>`,
          ],
        ],
        ['User', (intent) => userTag(visit, intent)],
        [
          'Name',
          ({ plannedUsername, plannedEmail }) => html`${plannedUsername} <span class="soft">${plannedEmail}</span>`,
        ],
        ['What', ({ parameters }) => (parameters === null ? null : parameterWords(parameters))],
        ['Before', (intent) => balancesOf(intent).before, 'number'],
        ['After', (intent) => balancesOf(intent).after, 'number'],
        [
          'Note',
          ({ notes, problem }) => prose(inBrowser([...notes, ...(problem === null ? [] : [problem])].join('; '))),
        ],
      ],
      part,
      'There is no such row.',
    )}
    ${next === undefined ? null : html`<p><a class="button quiet" href="${link(here, { show: show ?? null, after: next })}#rows">Next rows</a></p>`}`;
}

function filesTag({ link, offers }: Visit, report: BatchReport): Html {
  const { batch, state, action } = report;
  if (state === 'planned') return html``;
  const at = (name: string): string => link(`/batches/${batch}/results/${name}`);
  return html`<h2>Results</h2>
    <p>
      Every row of the sheet is in exactly one of these files, in its own columns, with its state and what proves it.
    </p>
    <ul>
      ${resultFiles.map((name) => html`<li>${name}: ${tableFormats.map((format) => html`<a href="${at(`${name}.${format}`)}" download>${name}.${format}</a> `)}</li>`)}
      <li>
        who, when, counts and fingerprints of the .csv files:
        <a href="${at('manifest.json')}" download>manifest.json</a>
      </li>
      <li>
        the signed receipt:
        ${receiptFormats.map((format) => html`<a href="${link(`/batches/${batch}/receipts/receipt.${format}`)}" download>receipt.${format}</a> `)}
      </li>
    </ul>
    ${
      action === 'balance' && !isDiscarded(report) && offers('GET', '/batches/compare')
        ? html`<p>
            <a class="button quiet" href="${link('/batches/compare', { batch })}">Compare it with the server…</a>
          </p>`
        : null
    }`;
}

function undoTag({ link, may }: Visit, { batch, action, counts, state }: BatchReport): Html {
  const isPossible = may('maker') && counts.applied > 0 && state !== 'applying' && !onceDone.has(action);
  if (!isPossible) return html``;
  return html`<h2>Take it back</h2>
    <p>
      Plans a batch of its own that takes back every row that was applied, once. Nothing is sent before you have seen
      it.
    </p>
    ${buttonForm(link(`/batches/${batch}/undo`), 'Plan the way back', 'quiet')}`;
}

/** What nobody can take back by a batch. */
const onceDone: ReadonlySet<string> = new Set(['email', 'notify', 'create', 'delete', 'deletions']);

/** `wrong.csv`: the format after the name. */
function formatOf(name: string, file: string): TableFormat {
  const format = tableFormats.find((each) => file === `${name}.${each}`);
  if (format === undefined) throw notFound('there is no such file');
  return format;
}

function writerOf(format: TableFormat, { signal }: Visit) {
  return tableWriter(format, signal, () => {});
}

/** The rows that are wrong, or all of them to look through. */
export async function sheetFile(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const file = visit.params['sheet'] ?? '';
  const name = file.startsWith('wrong.') ? 'wrong' : 'review';
  const format = formatOf(name, file);
  const table = name === 'wrong' ? wrongTable(ports.journal, batch) : reviewTable(ports.journal, batch);
  const chunks = writerOf(format, visit).chunks(table);
  return { kind: 'file', name: `${name}-${batch.batch}.${format}`, type: contentTypes[format], chunks };
}

/** One of the files of results, as it is now. */
export async function resultsFile(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const file = visit.params['result'] ?? '';
  if (file === 'manifest.json') {
    const text = await manifestText(ports, batch, writerOf('csv', visit));
    return { kind: 'file', name: file, type: 'application/json', chunks: textChunks(text) };
  }
  const name = resultFiles.find((each) => file.startsWith(`${each}.`));
  if (name === undefined) throw notFound('there is no such file');
  const format = formatOf(name, file);
  const chunks = resultChunks(ports.journal, batch, name, writerOf(format, visit));
  return { kind: 'file', name: file, type: contentTypes[format], chunks };
}

/** The receipt, signed with the key beside the journal, which is made where there is none. */
export async function receiptFile(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const { settings, clock } = ports;
  const format = receiptFormats.find((each) => visit.params['receipt'] === `receipt.${each}`);
  if (format === undefined) throw notFound('there is no such file');
  const { key } = openSigningKey(settings.store.journal);
  async function* chunks(): AsyncGenerator<Uint8Array> {
    const releases = new Releases();
    try {
      // One of its own: a journal does nothing else while it is read at one moment.
      const journal = await openJournalForReading(settings, clock, releases);
      if (journal !== undefined) yield* receiptOf(journal, batch, { format: format ?? 'json', key, clock });
    } finally {
      await releases.close();
    }
  }
  const type = format === 'json' ? 'application/json' : 'text/html; charset=utf-8';
  return { kind: 'file', name: `receipt-${batch.batch}.${format}`, type, chunks: chunks() };
}
