/** One batch: its plan, who has to do what with it, how its sending goes, and what became of each row. */
import { setTimeout as wait } from 'node:timers/promises';
import { actionOf } from '../../bulk/actions.ts';
import { batchOf } from '../../bulk/claim.ts';
import { countNameOf, countNames, type Counts, intentStates, openStates } from '../../bulk/intent.ts';
import {
  type BatchRecord,
  type BatchReport,
  consentQuestion,
  recordOf,
  totalWords,
  typeTotals,
} from '../../bulk/report.ts';
import { receiptFormats } from '../../bulk/receipt.ts';
import { resultFiles } from '../../bulk/results.ts';
import { notedRows, parameterWords, reviewRow, type ReviewRow } from '../../bulk/review.ts';
import type { Batch, Intent, IntentState } from '../../journal/port.ts';
import { actorText } from '../../model/actor.ts';
import { counted, grouped } from '../../model/counted.ts';
import { LockHeldError, type OperatorError, UsageError } from '../../model/errors.ts';
import { tableFormats } from '../../model/table.ts';
import { durationText, secondMs } from '../../model/time.ts';
import { inBrowser } from '../browser-words.ts';
import { html, type Html, type Part, stateTag, tableTag, timeTag } from '../html.ts';
import type { ConsolePorts } from '../ports.ts';
import { proofTag } from './sign-in-oidc.ts';
import { notFound, page, type Reply, type Visit } from '../route.ts';
import { batchState, refusalTag, reportNow } from './batches.ts';

const rowsAPage = 100;
/** Problems, notes and open rows that are listed one by one; all of them are in the table and in the files. */
const mostListed = 50;

export async function batchIn({ params }: Visit, { journal }: ConsolePorts): Promise<Batch> {
  const batch = await journal.batch(params['batch'] ?? '');
  if (batch === undefined) throw notFound('there is no such batch');
  return batch;
}

export async function batchPage(
  visit: Visit,
  ports: ConsolePorts,
  problem: OperatorError | null = null,
): Promise<Reply> {
  const { journal } = ports;
  const batch = await batchIn(visit, ports);
  const report = await reportNow(ports, batch);
  const record = await recordOf(journal, batch);
  const last = ports.sendings.lastProblem(batch.batch);
  const body = html`${problem === null ? null : refusalTag(problem)}
  ${last === undefined || problem !== null ? null : refusalTag(last)} ${factsTag(report, batch, record, visit)}
  ${await nextTag(visit, ports, batch, report)} ${approvalTag(report)} ${wrongTag(visit, report)}
  ${await lookTag(visit, ports, report)} ${await openTag(visit, ports, report)} ${await rowsTag(visit, ports, report)}
  ${filesTag(visit, report)} ${undoTag(visit, report)}`;
  // What was refused stands under the address of its form, where there is no page to be loaded again.
  const isMoving = report.state === 'applying' && problem === null;
  return page(`Batch ${batch.batch}`, body, { status: statusOf(problem), ...(isMoving && { refresh: 3 }) });
}

export function statusOf(problem: OperatorError | null): number {
  if (problem === null) return 200;
  if (problem instanceof LockHeldError) return 409;
  return problem instanceof UsageError ? 422 : 503;
}

function factsTag(report: BatchReport, batch: Batch, record: BatchRecord, { link }: Visit): Html {
  const { file, action, net, gross, users, counts, discrepancies } = report;
  const wasSent = report.state !== 'planned';
  const part = (who: BatchRecord['planned_by']): string | null =>
    who.length === 0 ? null : who.map(actorText).join(', ');
  const facts: readonly (readonly [string, Part])[] = [
    ['State', batchState(report)],
    ['Action', action],
    ['Sheet', file],
    [
      'Takes back',
      batch.undoOf === null ? null : html`<a href="${link(`/batches/${batch.undoOf}`)}">${batch.undoOf}</a>`,
    ],
    ['Planned net', totalWords(net, gross, users)],
    ['Applied net', wasSent ? totalWords(report.applied_net, report.applied_gross, report.applied_users) : null],
    [
      'Differs',
      discrepancies === 0
        ? null
        : `${counted(discrepancies, 'row')} whose balance shows something else, or made twice: look at these users on the server before you send more`,
    ],
    ['Planned by', html`${part(record.planned_by)}, ${timeTag(batch.createdAt)}`],
    ['Submitted by', part(record.submitted_by)],
    ['Approved by', part(record.approved_by)],
    ['Sent by', part(record.sent_by)],
    ['Sent again because', batch.againReason],
    ['Fingerprint of the plan', html`<code>${report.hash}</code>`],
  ];
  return html`<dl>
      ${facts.map(([name, value]) =>
        value === null
          ? null
          : html`<dt>${name}</dt>
              <dd>${value}</dd>`,
      )}
    </dl>
    <ul class="cards">
      ${countNames.map((name) =>
        counts[name] === 0 && report.state !== 'applying'
          ? null
          : html`<li class="card" ${counts[name] === 0 ? html`hidden` : null}>
              <h2>${name}</h2>
              <div class="big" data-live="${name}">${grouped(counts[name])}</div>
            </li>`,
      )}
    </ul>`;
}

/** What there is to do now, for whoever looks: the one thing that moves the batch on. */
async function nextTag(visit: Visit, ports: ConsolePorts, batch: Batch, report: BatchReport): Promise<Html> {
  const { may, link } = visit;
  const { state, counts, approval } = report;
  if (state === 'applying') return sendingTag(visit, ports, report);
  const at = (what: string): string => link(`/batches/${batch.batch}/${what}`);
  const left = counts.planned + counts.blocked;
  const isMaker = may('maker');
  const waits = approval !== null && approval.missing > 0;
  if (waits && approval.state === 'waiting') {
    return html`<h2>It waits for approval</h2>
      ${may('approver') ? decisionTag(visit, ports, batch.batch, approval.hash) : null}`;
  }
  if (left > 0 && waits) {
    return html`<h2>Another person must approve it</h2>
      ${isMaker ? submitTag(at) : null}`;
  }
  if (!isMaker) return html``;
  if (state === 'planned') {
    if (left === 0)
      return html`<p class="note">Nothing of it can be sent. Correct the sheet and send it here again.</p>`;
    const { doing, typed } = await consentQuestion(ports.journal, batch, actionOf(batch.action), batch.server.address);
    return html`<h2>Send it</h2>
      ${counts.invalid === 0 ? null : html`<p class="note">${counted(counts.invalid, 'row is', 'rows are')} wrong and will be left out. You can correct the sheet instead and plan it again.</p>`}
      <form method="post" action="${at('send')}">
        <p>
          <label>To ${doing}, type ${typed} <input name="typed" required autocomplete="off" /></label>
        </p>
        ${againTag()} <button>Send</button>
      </form>`;
  }
  if (state === 'stopped' || counts.unknown > 0) {
    const { sending = 0 } = await ports.journal.counts(batch.batch);
    return html`<h2>${state === 'stopped' ? 'It stopped before its end' : 'It goes on'}</h2>
      ${sending === 0 ? null : html`<p class="note">What sent it has ended in the midst of ${counted(sending, 'row')}: it was killed, or its machine stopped.</p>`}
      <p>
        “Go on” looks at every open row on the server
        first${left === 0 ? '; there is nothing else left to send' : `, then sends what is left: ${counted(left, 'row')}`}.
        No row is sent twice.
      </p>
      <form method="post" action="${at('resume')}">${againTag()}<button>Go on</button></form>`;
  }
  return html``;
}

function againTag(): Html {
  return html`<details>
    <summary>It was sent before</summary>
    <p>
      <label
        >Why it shall be sent again; it stays on record <input name="again" maxlength="500" autocomplete="off"
      /></label>
    </p>
  </details>`;
}

function submitTag(at: (what: string) => string): Html {
  return html`<form method="post" action="${at('submit')}">
    <p>
      <label>A word to whoever approves it <input name="note" maxlength="500" autocomplete="off" /></label>
    </p>
    ${againTag()} <button>Submit for approval</button>
  </form>`;
}

function decisionTag(visit: Visit, ports: ConsolePorts, batch: string, hash: string): Html {
  const at = (what: string): string => visit.link(`/batches/${batch}/${what}`);
  const proof = proofTag(visit, ports, `/batches/${batch}`);
  return html`<form method="post" action="${at('approve')}">
      <input type="hidden" name="hash" value="${hash}" />
      <p>Look at every row below first.</p>
      <p>${proof}</p>
      <button>Approve</button>
    </form>
    <form method="post" action="${at('deny')}">
      <p>
        <label>Why not <input name="reason" required maxlength="500" autocomplete="off" /></label>
      </p>
      <p>${proof}</p>
      <button class="danger">Deny</button>
    </form>`;
}

function approvalTag({ approval }: BatchReport): Html {
  if (approval === null || approval.state === 'not_needed') return html``;
  const { state, needed, missing, reasons, submitted, approvals, denied, approvers, until } = approval;
  const kinds = { approved: 'good', denied: 'bad', expired: 'bad' } as const;
  const words = state.replaceAll('_', ' ');
  // In the order in which it happened: what was denied may have been handed over again, and approved.
  const said = [
    ...(denied === null
      ? []
      : [{ at: denied.at, words: html`Denied by ${actorText(denied.by)}, ${timeTag(denied.at)}: ${denied.reason}` }]),
    ...(submitted === null
      ? []
      : [
          {
            at: submitted.at,
            words: html`Submitted by ${actorText(submitted.by)},
            ${timeTag(submitted.at)}${submitted.note === null ? null : `: ${submitted.note}`}`,
          },
        ]),
    ...approvals.map(({ by, at, problem }) => ({
      at,
      words: html`Approved by ${actorText(by)},
      ${timeTag(at)}${problem === null ? null : `, which does not count: ${problem}`}`,
    })),
  ];
  return html`<h2>Approval</h2>
    <p>
      ${stateTag(words, state in kinds ? kinds[state as keyof typeof kinds] : 'wait')}
      ${missing === 0 ? null : html` ${missing} of ${needed} missing; ${approvers.length === 0 ? 'nobody can give it now' : `${approvers.join(', ')} can approve it`}.`}
      ${until === null ? null : html` Good until ${timeTag(until)}.`}
    </p>
    <ul>
      ${reasons.map((reason) => html`<li>Needed because ${reason}.</li>`)}
      ${said.sort((one, other) => one.at.localeCompare(other.at)).map(({ words: line }) => html`<li>${line}</li>`)}
    </ul>`;
}

/** The rows that are behind it, of all. */
function doneOf({ rows, counts }: Pick<BatchReport, 'rows' | 'counts'>): number {
  return rows - counts.planned - counts.blocked - counts.invalid;
}

function sendingTag(visit: Visit, { sendings }: ConsolePorts, report: BatchReport): Html {
  const { link, may } = visit;
  const here = sendings.running(report.batch);
  const at = `/batches/${report.batch}`;
  return html`<h2>It is being sent</h2>
    <div data-events="${link(`${at}/events`)}">
      <p>
        <progress
          aria-label="Rows done"
          max="${report.rows - report.counts.invalid}"
          value="${doneOf(report)}"
          data-live="done"
        ></progress>
      </p>
      <p role="status">
        <span data-live="done">${doneOf(report)}</span> of ${grouped(report.rows - report.counts.invalid)} rows.
        <span data-live="words">${here?.waits ?? null}</span>
      </p>
    </div>
    <p>
      You can close this page: it goes on.
      ${here === undefined ? 'Another process sends it.' : `Begun by ${actorText(here.actor)}.`}
    </p>
    ${
      here === undefined || !may('maker')
        ? null
        : here.isStopping
          ? html`<p class="note">What is under way is being finished.</p>`
          : html`<form method="post" action="${link(`${at}/stop`)}">
              <button class="danger">Stop after the rows under way</button>
            </form>`
    }`;
}

/** How the sending goes, until it does not go any more. */
export async function batchEvents(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { journal, sendings } = ports;
  const { batch } = await batchIn(visit, ports);
  async function* events(): AsyncGenerator<Readonly<Record<string, unknown>>> {
    let first: { readonly done: number; readonly at: number } | undefined;
    let shown = '';
    while (!visit.signal.aborted) {
      const report = await reportNow(ports, await batchOf(journal, batch));
      if (report.state !== 'applying') {
        yield { done: true };
        return;
      }
      const done = doneOf(report);
      const now = performance.now();
      first ??= { done, at: now };
      const rate = (done - first.done) / Math.max(1, now - first.at);
      const left = report.counts.planned + report.counts.blocked;
      const words =
        sendings.running(batch)?.waits ?? (rate > 0 && left > 0 ? `About ${durationText(left / rate)} left.` : '');
      const event = { ...countsText(report.counts), done, words };
      if (JSON.stringify(event) !== shown) yield event;
      shown = JSON.stringify(event);
      await wait(secondMs, undefined, { signal: visit.signal }).catch(() => {});
    }
  }
  return { kind: 'events', events: events() };
}

function countsText(counts: Counts): Readonly<Record<string, string>> {
  return Object.fromEntries(countNames.map((name) => [name, grouped(counts[name])]));
}

function wrongTag({ link }: Visit, { batch, problems, warnings, counts }: BatchReport): Html {
  const files = tableFormats.map(
    (format) =>
      html`<a class="button quiet" href="${link(`/batches/${batch}/sheets/wrong.${format}`)}" download
        >as .${format}</a
      > `,
  );
  return html`${
    problems.length === 0
      ? null
      : html`<h2>What is wrong with the sheet</h2>
          ${problemsTable(problems)} ${moreTag(problems)}
          ${counts.invalid === 0 ? null : html`<p>The wrong rows back, each with its problem; correct them and send them here again: ${files}</p>`}`
  }
  ${
    warnings.length === 0
      ? null
      : html`<h2>Worth knowing</h2>
          <ul>
            ${warnings.slice(0, mostListed).map((text) => html`<li>${inBrowser(text)}</li>`)}
          </ul>
          ${moreTag(warnings)}`
  }`;
}

function problemsTable(problems: BatchReport['problems']): Html {
  return tableTag(
    'What is wrong with which cell',
    [
      { head: 'Row', cell: ({ row }) => row, isNumber: true },
      { head: 'Column', cell: ({ column }) => column },
      { head: 'What is wrong, and how to put it right', cell: ({ problem }) => inBrowser(problem) },
    ],
    problems.slice(0, mostListed),
  );
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
        {
          head: 'Row',
          cell: ({ row }) => html`<a href="${link(`/batches/${batch}/rows/${row}`)}">${row}</a>`,
          isNumber: true,
        },
        { head: 'User', cell: ({ user_id: user, username }) => [user, ' ', username] },
        { head: 'Before', cell: ({ before }) => before, isNumber: true },
        { head: 'After', cell: ({ after }) => after, isNumber: true },
        { head: 'Why', cell: ({ notes }) => notes.join('; ') },
      ],
      noted.slice(0, mostListed),
    )}
    ${moreTag(noted)}
    <p>
      Every row to look through, these on top:
      ${tableFormats.map((format) => html`<a class="button quiet" href="${link(`/batches/${batch}/sheets/review.${format}`)}" download>as .${format}</a> `)}
    </p>`;
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
        { head: 'Row', cell: ({ row }) => html`<a href="${link(`/batches/${batch}/rows/${row}`)}">row ${row}</a>` },
        { head: 'User', cell: ({ user, plannedUsername }) => [user ?? 'new', ' ', plannedUsername] },
        { head: 'State', cell: ({ state: own }) => intentTag(own) },
        { head: 'Seen so far', cell: ({ problem }) => (problem === null ? 'not looked at yet' : inBrowser(problem)) },
      ],
      open,
    )}`;
}

async function taken<T>(all: AsyncIterable<T>, most: number): Promise<T[]> {
  const some: T[] = [];
  for await (const each of all) if (some.push(each) === most) break;
  return some;
}

export function intentTag(state: IntentState): Html {
  const kinds = { applied: 'good', planned: 'plain', blocked: 'wait', sending: 'wait', acknowledged: 'wait' } as const;
  const words = { needs_human: 'needs a person', not_applied: 'not applied' } as const;
  const kind = state in kinds ? kinds[state as keyof typeof kinds] : 'bad';
  return stateTag(state in words ? words[state as keyof typeof words] : state, kind);
}

async function rowsTag(visit: Visit, { journal }: ConsolePorts, { batch, counts, rows }: BatchReport): Promise<Html> {
  const { link, query } = visit;
  const show = countNames.find((name) => name === query.get('show'));
  const after = Number(query.get('after') ?? -1);
  const states = show === undefined ? undefined : intentStates.filter((state) => countNameOf(state) === show);
  const found = await taken(journal.intents(batch, states, Number.isSafeInteger(after) ? after : -1), rowsAPage + 1);
  const part = found.slice(0, rowsAPage);
  const next = found.length > part.length ? part.at(-1)?.row : undefined;
  const totals = after === -1 && show === undefined ? await typeTotals(journal.parameters(batch)) : [];
  const here = `/batches/${batch}`;
  return html`<h2 id="rows">Rows</h2>
    ${totals.length === 0 ? null : html`<p>${totals.map(({ type, rows: count, amount }) => `${type}: ${counted(count, 'row')}, ${amount}`).join('; ')}</p>`}
    <p>
      Show
      <a href="${link(here)}#rows" ${show === undefined ? html`aria-current="true"` : null}>all ${grouped(rows)}</a>
      ${countNames.map((name) => (counts[name] === 0 ? null : html`, <a href="${link(here, { show: name })}#rows" ${show === name ? html`aria-current="true"` : null}>${grouped(counts[name])} ${name}</a>`))}
    </p>
    ${tableTag<Intent>(
      'Rows of the batch',
      [
        { head: 'Row', cell: ({ row }) => html`<a href="${link(`${here}/rows/${row}`)}">${row}</a>`, isNumber: true },
        { head: 'User', cell: (intent) => userTag(visit, intent) },
        {
          head: 'Name',
          cell: ({ plannedUsername, plannedEmail }) =>
            html`${plannedUsername} <span class="soft">${plannedEmail}</span>`,
        },
        { head: 'What', cell: ({ parameters }) => (parameters === null ? null : parameterWords(parameters)) },
        { head: 'Before', cell: (intent) => reviewRow(intent).before, isNumber: true },
        { head: 'After', cell: (intent) => reviewRow(intent).after, isNumber: true },
        {
          head: 'State',
          cell: ({ state, evidence }) => [
            intentTag(state),
            evidence === null ? null : html` <span class="soft">by ${evidence}</span>`,
          ],
        },
        {
          head: 'Note',
          cell: ({ notes, problem }) => inBrowser([...notes, ...(problem === null ? [] : [problem])].join('; ')),
        },
      ],
      part,
      'There is no such row.',
    )}
    ${next === undefined ? null : html`<p><a class="button quiet" href="${link(here, { show: show ?? null, after: next })}#rows">Next rows</a></p>`}`;
}

export function userTag({ link }: Visit, { user, subject }: Pick<Intent, 'user' | 'subject'>): Part {
  return user === null
    ? subject?.replace(/^new:/, 'new: ')
    : html`<a href="${link(`/data/users/${user}`)}">${user}</a>`;
}

function filesTag({ link, offers }: Visit, { batch, state, action }: BatchReport): Html {
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
      action === 'balance' && offers('GET', '/batches/compare')
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
    <form method="post" action="${link(`/batches/${batch}/undo`)}">
      <button class="quiet">Plan the way back</button>
    </form>`;
}

/** What nobody can take back by a batch. */
const onceDone: ReadonlySet<string> = new Set(['email', 'notify', 'create', 'delete', 'deletions']);
