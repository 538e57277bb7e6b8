/** What people do with a batch (submit, approve, deny, send, discard, take back), its progress, and the page of a row. */
import { actionOf } from '../../bulk/actions.ts';
import { batchOf } from '../../bulk/claim.ts';
import { countNames, type Counts, isOpen } from '../../bulk/intent.ts';
import { type BatchReport, consentQuestion } from '../../bulk/report.ts';
import { actorText } from '../../model/actor.ts';
import { counted, grouped } from '../../model/text.ts';
import { roughLength, secondMs } from '../../model/time.ts';
import {
  buttonForm,
  html,
  type Html,
  postForm,
  reasonField,
  textField,
  stateTag,
  timeTag,
  factsTag,
  prose,
} from '../html.ts';
import { type ConsolePorts, everySecond, type Reply, type Visit, actorOf, notFound, page, redirect } from '../route.ts';
import { batchIn, summaryNow, userTag } from './batches.ts';
import { proofTag, provenAccount } from './sign-in.ts';
import { approvalSteps, approveBatch, denyBatch, submitBatch } from '../../bulk/approval.ts';
import { reviewRow } from '../../bulk/review.ts';
import { discardBatch, resolveRow } from '../../bulk/resolve.ts';
import type { Batch, Intent } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';

/** The next step of the batch, as a form if the caller may take it. */
export async function nextTag(visit: Visit, ports: ConsolePorts, batch: Batch, report: BatchReport): Promise<Html> {
  const { may, link } = visit;
  const { state, counts, approval, holding } = report;
  if (state === 'applying') return sendingTag(visit, ports, report);
  const at = (what: string): string => link(`/batches/${batch.batch}/${what}`);
  const left = counts.planned + counts.blocked;
  const isMaker = may('maker');
  const waits = state !== 'done' && approval !== null && approval.missing > 0;
  if (waits && approval.state === 'waiting') {
    return html`<h2>It waits for approval</h2>
      ${may('approver') ? decisionTag(visit, ports, batch, approval.hash) : null}`;
  }
  if (left > 0 && waits) {
    const isDenied = approval.state === 'denied';
    return html`<h2>${isDenied ? 'It was denied' : 'Another person must approve it'}</h2>
      ${isDenied && isMaker ? html`<p>The reason is below. Correct the sheet and upload it as a new batch, or submit this one again.</p>` : null}
      ${isMaker ? submitTag(at) : null}`;
  }
  if (!isMaker) return html``;
  if (state === 'planned') {
    if (left === 0) {
      return html`<p class="note">None of its rows can be sent. Correct the sheet and upload it as a new batch.</p>`;
    }
    const { doing, typed } = await consentQuestion(ports.journal, batch, actionOf(batch.action), batch.server.address);
    return html`<h2>Send it</h2>
      ${counts.invalid === 0 ? null : html`<p class="note">${counted(counts.invalid, 'row is', 'rows are')} wrong and will be left out. You can instead correct the sheet and plan it again.</p>`}
      <form method="post" action="${at('send')}">
        ${textField(`To ${doing}, type ${typed}`, 'typed', html`required`)} ${againTag()} <button>Send</button>
      </form>`;
  }
  if (state === 'stopped' || counts.unknown > 0) {
    const { sending = 0 } = await ports.journal.counts(batch.batch);
    return html`<h2>${state === 'stopped' ? 'It stopped before its end' : 'Some outcomes are open'}</h2>
      ${sending === 0 ? null : html`<p class="note">The process that sent it ended while ${counted(sending, 'row was', 'rows were')} under way: it was killed, or its machine stopped.</p>`}
      <p>
        “Go on” looks at every open row on the server
        first${left === 0 ? '; there is nothing else left to send' : `, then sends what is left: ${counted(left, 'row')}`}.
        No row is sent twice.
      </p>
      ${holding.length === 0 ? null : html`<p class="note">First decide about ${counted(holding.length, 'row')} that ${holding.length === 1 ? 'holds' : 'hold'} others back: they are listed below.</p>`}
      ${postForm(at('resume'), html`${againTag()}<button>Go on</button>`)}`;
  }
  return html``;
}

function againTag(): Html {
  return html`<details>
    <summary>It was sent before</summary>
    ${reasonField('Reason for sending it again, which stays on record', 'again')}
  </details>`;
}

function submitTag(at: (what: string) => string): Html {
  const note = reasonField('Note to the approver', 'note');
  return postForm(at('submit'), html`${note} ${againTag()} <button>Submit for approval</button>`);
}

function decisionTag(visit: Visit, ports: ConsolePorts, { batch }: Batch, hash: string): Html {
  const at = (what: string): string => visit.link(`/batches/${batch}/${what}`);
  const proof = proofTag(visit, ports, `/batches/${batch}`);
  return html`<form method="post" action="${at('approve')}">
      <input type="hidden" name="hash" value="${hash}" />
      <p>First look at every row below.</p>
      <p>${proof}</p>
      <button>Approve</button>
    </form>
    <form method="post" action="${at('deny')}">
      ${reasonField('Why not', 'reason', { typed: visit.form.get('reason') })}
      <p>${proof}</p>
      <button class="danger">Deny</button>
    </form>`;
}

export function approvalTag({ approval, state: of }: BatchReport): Html {
  if (approval === null || approval.state === 'not_needed') return html``;
  const { state, needed, missing, reasons, approvers, until } = approval;
  const isDone = of === 'done';
  // Not shown for a batch that is done: it needs no approval any more.
  const current = html`<p>
    ${stateTag(state)}
    ${missing === 0 ? null : html` ${missing} of ${needed} missing; ${approvers.length === 0 ? 'nobody can give it now' : `${approvers.join(', ')} can approve it`}.`}
    ${until === null ? null : html` Good until ${timeTag(until)}.`}
  </p>`;
  return html`<h2>Approval</h2>
    ${isDone && missing > 0 ? null : current}
    <ul>
      ${reasons.map((reason) => html`<li>Needed because ${reason}.</li>`)}
      ${approvalSteps(approval, isDone).map(({ what, by, at, more }) => html`<li>${what} by ${actorText(by)}, ${timeTag(at)}${more}</li>`)}
    </ul>`;
}

/** The form that discards a plan, or the rest of a stopped batch. */
export function discardTag({ link, may, form }: Visit, { batch, state, counts }: BatchReport): Html {
  const left = counts.planned + counts.blocked;
  const isPossible = state === 'planned' || (state === 'stopped' && left > 0);
  if (!may('maker') || !isPossible) return html``;
  const what = state === 'planned' ? 'this plan' : 'what is left';
  return html`<details>
    <summary>Discard ${what}</summary>
    <p>
      ${state === 'planned' ? 'None of its rows will be sent.' : `${counted(left, 'row')} will not be sent. What was sent stays as it is.`}
      The batch stays on record with your reason. You cannot undo this, but you can plan the sheet again.
    </p>
    ${postForm(link(`/batches/${batch}/discard`), html`${reasonField('Why', 'why', { typed: form.get('why') })} <button class="danger">Discard ${what}</button>`)}
  </details>`;
}

/** How many rows were sent or need no sending. */
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
        <span data-live="rows">${grouped(doneOf(report))}</span> of ${grouped(report.rows - report.counts.invalid)}
        rows.
        <span data-live="words">${here?.waits ?? null}</span>
      </p>
    </div>
    <p>
      You can close this page: sending continues.
      ${here === undefined ? 'Another process is sending it.' : `Started by ${actorText(here.actor)}.`}
    </p>
    ${
      here === undefined || !may('maker')
        ? null
        : here.isStopping
          ? html`<p class="note">It is stopping: the rows under way are being finished.</p>`
          : buttonForm(link(`${at}/stop`), 'Stop after the rows under way', 'danger')
    }`;
}

/** The progress of the sending, until it ends. */
export async function batchEvents(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { journal, sendings } = ports;
  const { batch } = await batchIn(visit, ports);
  let first: { readonly done: number; readonly at: number } | undefined;
  const read = async () => {
    const summary = await summaryNow(ports, await batchOf(journal, batch));
    if (summary.state !== 'applying') return null;
    const done = doneOf(summary);
    const now = performance.now();
    first ??= { done, at: now };
    const rate = (done - first.done) / Math.max(1, now - first.at);
    const left = summary.counts.planned + summary.counts.blocked;
    const words =
      sendings.running(batch)?.waits ??
      (rate > 0 && left > 0 ? `About ${roughLength(Math.max(secondMs, left / rate))} left.` : '');
    return { ...countsText(summary.counts), done, rows: grouped(done), words };
  };
  return { kind: 'events', events: everySecond(visit.signal, read) };
}

function countsText(counts: Counts): Readonly<Record<string, string>> {
  return Object.fromEntries(countNames.map((name) => [name, grouped(counts[name])]));
}

/** Does the work, and opens the page of the batch, or of the batch whose name `work` returns. */
async function afterwards(
  visit: Visit,
  ports: ConsolePorts,
  work: (batch: Batch) => Promise<string | undefined | void>,
): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const to = (await work(batch)) ?? batch.batch;
  return redirect(visit.link(`/batches/${to}`));
}

function againIn({ form }: Visit): { readonly reason: string | null } {
  const reason = form.get('again')?.trim() ?? '';
  return { reason: reason === '' ? null : reason };
}

export function sendPlanned(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const actor = actorOf(visit, ports);
  return afterwards(visit, ports, (batch) =>
    ports.sendings.send(batch, actionOf(batch.action), visit.form.get('typed') ?? '', againIn(visit), actor),
  );
}

export function goOn(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const actor = actorOf(visit, ports);
  return afterwards(visit, ports, (batch) =>
    ports.sendings.resume(batch, actionOf(batch.action), againIn(visit), actor),
  );
}

export function stopSending(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return afterwards(visit, ports, async ({ batch }) => ports.sendings.stop(batch));
}

export function submit(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const journal = ports.journal.by(actorOf(visit, ports));
  return afterwards(visit, ports, (batch) =>
    submitBatch(journal, batch, { note: visit.form.get('note'), again: againIn(visit) }),
  );
}

/** Approving and denying need the password or the provider again: another person may be sitting at an open screen. */
function approvePorts(visit: Visit, ports: ConsolePorts) {
  const { journal, actor } = ports;
  return { journal, actor, signIn: () => provenAccount(visit, ports) };
}

export function approve(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return afterwards(visit, ports, (batch) =>
    approveBatch(approvePorts(visit, ports), batch, visit.form.get('hash') ?? ''),
  );
}

export function deny(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return afterwards(visit, ports, (batch) =>
    denyBatch(approvePorts(visit, ports), batch, visit.form.get('reason') ?? ''),
  );
}

export function resolve(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const journal = ports.journal.by(actorOf(visit, ports));
  const answer = visit.form.get('outcome') ?? '';
  const row = Number(visit.params['row']);
  return afterwards(visit, ports, async (batch) => {
    if (answer !== 'applied' && answer !== 'not_applied' && answer !== 'resend') {
      throw new UsageError('say what happened');
    }
    const outcome = answer === 'applied' ? answer : 'not_applied';
    const reason = visit.form.get('reason') ?? '';
    await resolveRow(journal, batch, { row, outcome, resend: answer === 'resend', reason });
  });
}

export function discard(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const journal = ports.journal.by(actorOf(visit, ports));
  return afterwards(visit, ports, (batch) => discardBatch(journal, batch, visit.form.get('why') ?? ''));
}

export function undo(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const actor = actorOf(visit, ports);
  return afterwards(visit, ports, async ({ batch }) => {
    const call = { path: ['bulk', 'undo'], operands: [batch], options: {} };
    const planned = await ports.planning.plan(call, actor, visit.signal);
    return 'batch' in planned ? planned.batch : undefined;
  });
}

/** One row: everything that is known about it, and what a person can do. */
export async function rowPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const intent = await ports.journal.intent(batch.batch, Number(visit.params['row']));
  if (intent === undefined) throw notFound('there is no such row in the batch');
  const { state, evidence } = intent;
  const { before, after } = reviewRow(intent);
  const { link } = visit;
  const facts = factsTag([
    ['State', html`${stateTag(state)}${evidence === null ? null : `, by ${evidenceWords[evidence]}`}`],
    ['User', html`${userTag(visit, intent)} ${intent.plannedUsername} ${intent.plannedEmail}`],
    ['Before', before],
    ['After', after],
    ['Look at', intent.notes.length === 0 ? null : intent.notes.join('; ')],
    ['What is wrong', intent.problem === null ? null : prose(intent.problem)],
    ['Mark on the server', intent.token],
    ['Record on the server', intent.recordId],
    ['Sent', intent.sentAt === null ? null : timeTag(intent.sentAt)],
    ['Times sent', intent.attempts === 0 ? null : intent.attempts],
    ['Request body', intent.body === null ? null : html`<code>${intent.body}</code>`],
    ['HTTP status of the response', intent.httpStatus],
    ['Response', intent.answer === null ? null : html`<code>${intent.answer}</code>`],
    ...batch.columns.map((name, at) => [`In the sheet: ${name}`, intent.cells[at] ?? null] as const),
  ]);
  const body = html`<p><a href="${link(`/batches/${batch.batch}`)}">Batch ${batch.batch}</a></p>
    ${facts} ${await resolveTag(visit, ports, batch, intent)}`;
  return page(`Row ${intent.row}`, body);
}

const evidenceWords = {
  token: 'its mark, found on the server',
  record: 'a record on the server',
  balance: 'the balance',
  answer: 'the response of the server alone',
  person: 'the statement of a person',
} as const;

async function resolveTag(visit: Visit, { journal }: ConsolePorts, { batch }: Batch, intent: Intent): Promise<Html> {
  const open = isOpen(intent.state);
  const isClosed = intent.state === 'rejected' || intent.state === 'not_applied';
  if (!visit.may('maker') || (!open && !isClosed) || (await journal.lockOwner(batch)) !== undefined) return html``;
  const resend = html`<button name="outcome" value="resend">It was not done: send it again with “Go on”</button>`;
  const held = (await journal.holding(batch)).find(({ row }) => row === intent.row);
  return html`<h2>${open ? 'What you can do' : held === undefined ? 'Send it again' : 'Send it again, or close it'}</h2>
    ${held === undefined ? null : html`<p>It was sent and not made. ${counted(held.later, 'later row')} of this user ${held.later === 1 ? 'waits' : 'wait'} until you decide.</p>`}
    ${
      open
        ? html`<ol>
            <li>Wait ten minutes. Then press “Go on” on the page of the batch, which looks again.</li>
            <li>
              If it is still open, look at user ${intent.user} on the server:
              ${intent.token === null ? 'is the change there?' : html`is the mark <code>${intent.token}</code> there, how often, and does the balance fit?`}
            </li>
            <li>Say here what you saw and how you know. It stays on record with your name.</li>
          </ol>`
        : null
    }
    <form method="post" action="${visit.link(`/batches/${batch}/rows/${intent.row}/resolve`)}">
      ${reasonField('How you know', 'reason', { typed: visit.form.get('reason') })}
      <p>
        ${
          open
            ? html`<button name="outcome" value="applied">It was done</button>
                <button class="quiet" name="outcome" value="not_applied">It was not done: close the row</button>`
            : null
        }
        ${resend}
        ${held === undefined ? null : html`<button class="quiet" name="outcome" value="not_applied">Leave it undone: the later rows follow with “Go on”</button>`}
      </p>
    </form>`;
}
