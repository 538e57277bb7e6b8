/** What there is to do with a batch now, who has approved it, and how its sending goes. */
import { actionOf } from '../../bulk/actions.ts';
import { batchOf } from '../../bulk/claim.ts';
import { countNames, type Counts } from '../../bulk/intent.ts';
import { type BatchReport, consentQuestion } from '../../bulk/report.ts';
import type { Batch } from '../../journal/port.ts';
import { actorText } from '../../model/actor.ts';
import { counted, grouped } from '../../model/text.ts';
import { durationText } from '../../model/time.ts';
import { buttonForm, html, type Html, postForm, reasonField, textField, stateTag, timeTag } from '../html.ts';
import { type ConsolePorts, everySecond, type Reply, type Visit } from '../route.ts';
import { batchIn, reportNow } from './batches.ts';
import { proofTag } from './sign-in.ts';

/** What there is to do now, for whoever looks: the one thing that moves the batch on. */
export async function nextTag(visit: Visit, ports: ConsolePorts, batch: Batch, report: BatchReport): Promise<Html> {
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
        ${textField(`To ${doing}, type ${typed}`, 'typed', html`required`)} ${againTag()} <button>Send</button>
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
      ${postForm(at('resume'), html`${againTag()}<button>Go on</button>`)}`;
  }
  return html``;
}

function againTag(): Html {
  return html`<details>
    <summary>It was sent before</summary>
    ${reasonField('Why it shall be sent again; it stays on record', 'again')}
  </details>`;
}

function submitTag(at: (what: string) => string): Html {
  const word = reasonField('A word to whoever approves it', 'note');
  return postForm(at('submit'), html`${word} ${againTag()} <button>Submit for approval</button>`);
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
      ${reasonField('Why not', 'reason', true)}
      <p>${proof}</p>
      <button class="danger">Deny</button>
    </form>`;
}

export function approvalTag({ approval }: BatchReport): Html {
  if (approval === null || approval.state === 'not_needed') return html``;
  const { state, needed, missing, reasons, submitted, approvals, denied, approvers, until } = approval;
  const kinds = { approved: 'good', denied: 'bad', expired: 'bad' } as const;
  const words = state.replaceAll('_', ' ');
  // In the order in which it happened: what was denied may have been handed over again, and approved.
  const said = [
    ...(denied === null ? [] : [{ ...denied, what: 'Denied', more: `: ${denied.reason}` }]),
    ...(submitted === null ? [] : [{ ...submitted, what: 'Submitted', more: submitted.note && `: ${submitted.note}` }]),
    ...approvals.map((each) => ({
      ...each,
      what: 'Approved',
      more: each.problem && `, which does not count: ${each.problem}`,
    })),
  ].sort((one, other) => one.at.localeCompare(other.at));
  return html`<h2>Approval</h2>
    <p>
      ${stateTag(words, state in kinds ? kinds[state as keyof typeof kinds] : 'wait')}
      ${missing === 0 ? null : html` ${missing} of ${needed} missing; ${approvers.length === 0 ? 'nobody can give it now' : `${approvers.join(', ')} can approve it`}.`}
      ${until === null ? null : html` Good until ${timeTag(until)}.`}
    </p>
    <ul>
      ${reasons.map((reason) => html`<li>Needed because ${reason}.</li>`)}
      ${said.map(({ what, by, at, more }) => html`<li>${what} by ${actorText(by)}, ${timeTag(at)}${more}</li>`)}
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
          : buttonForm(link(`${at}/stop`), 'Stop after the rows under way', 'danger')
    }`;
}

/** How the sending goes, until it does not go any more. */
export async function batchEvents(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { journal, sendings } = ports;
  const { batch } = await batchIn(visit, ports);
  let first: { readonly done: number; readonly at: number } | undefined;
  const news = async () => {
    const report = await reportNow(ports, await batchOf(journal, batch));
    if (report.state !== 'applying') return null;
    const done = doneOf(report);
    const now = performance.now();
    first ??= { done, at: now };
    const rate = (done - first.done) / Math.max(1, now - first.at);
    const left = report.counts.planned + report.counts.blocked;
    const words =
      sendings.running(batch)?.waits ?? (rate > 0 && left > 0 ? `About ${durationText(left / rate)} left.` : '');
    return { ...countsText(report.counts), done, words };
  };
  return { kind: 'events', events: everySecond(visit.signal, news) };
}

function countsText(counts: Counts): Readonly<Record<string, string>> {
  return Object.fromEntries(countNames.map((name) => [name, grouped(counts[name])]));
}
