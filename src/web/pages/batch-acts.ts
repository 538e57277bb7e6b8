/** What people do with a batch: submit, approve, deny, send, discard, take back. */
import { actionOf } from '../../bulk/actions.ts';
import { type BatchReport, consentQuestion } from '../../bulk/report.ts';
import { actorText } from '../../model/actor.ts';
import { counted } from '../../model/text.ts';
import { html, type Html, type Part, postForm, reasonField, textField, stateTag, timeTag } from '../html.ts';
import { type ConsolePorts, type Reply, type Visit, actorOf, redirect } from '../route.ts';
import { batchIn, mayDecide } from './batches.ts';
import { proofTag, provenAccount } from './sign-in.ts';
import { approvalSteps, approveBatch, denyBatch, submitBatch } from '../../bulk/approval.ts';
import { discardBatch } from '../../bulk/resolve.ts';
import type { Batch } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';

/** Says who must do what next with the batch, in a sentence. */
export function nextWords(visit: Visit, { state, counts, approval, rows, holding }: BatchReport): string | null {
  const left = counts.planned + counts.blocked;
  const isMaker = visit.may('maker');
  if (state === 'applying') return null;
  if (state === 'stopped' || counts.unknown > 0) {
    if (!isMaker) return 'Next: a maker continues it.';
    const first = holding.length === 0 ? '' : 'decide about the rows that hold others back, then ';
    return `Next: ${first}press “Go on” at the end of this page.`;
  }
  if (state === 'done') return counts.applied === rows ? 'Nothing is left to do.' : null;
  if (left === 0) return 'None of its rows can be sent. Next: correct the sheet, and upload it as a new batch.';
  if (approval !== null && approval.missing > 0) {
    if (approval.state !== 'waiting') {
      return isMaker
        ? 'Next: check the rows, then ask for approval at the end of this page.'
        : 'Next: a maker submits it.';
    }
    if (mayDecide(approval, visit)) return 'Next: check the rows, then approve or deny it at the end of this page.';
    if (approval.approvers.length > 0) return `Next: ${approval.approvers.join(' or ')} approves or denies it.`;
    return 'Nobody can approve it now. Next: an admin adds an approver on the page People.';
  }
  return isMaker ? 'Next: check the rows, then send it at the end of this page.' : 'Next: a maker sends it.';
}

/** The next step of the batch, as a form if the caller may take it: the last thing on the page. */
export async function decideTag(
  visit: Visit,
  ports: ConsolePorts,
  batch: Batch,
  { state, counts, approval, holding }: BatchReport,
): Promise<Html> {
  const at = (what: string): string => visit.link(`/batches/${batch.batch}/${what}`);
  const left = counts.planned + counts.blocked;
  const isMaker = visit.may('maker');
  const of = (title: string, content: Part): Html =>
    html`<section class="decide">
      <h2>${title}</h2>
      ${content}
    </section>`;
  if (state === 'applying') return html``;
  if (state !== 'done' && left > 0 && approval !== null && approval.missing > 0) {
    if (approval.state === 'waiting') {
      const form = mayDecide(approval, visit) ? decisionTag(visit, ports, batch, approval.hash) : null;
      return form === null ? html`` : of('Approve it or deny it', form);
    }
    if (!isMaker) return html``;
    return of(
      approval.state === 'denied' ? 'It was denied' : 'Another person must approve it',
      html`${approval.state === 'denied' ? html`<p>The reason is above. Correct the sheet and upload it as a new batch, or submit this one again.</p>` : null}
      ${submitTag(at, batch)}`,
    );
  }
  if (!isMaker) return html``;
  if (state === 'planned' && left > 0) {
    const { currency } = ports.settings.bulk;
    const action = actionOf(batch.action);
    const { doing, typed } = await consentQuestion(ports.journal, batch, action, batch.server.address, currency);
    return of(
      'Send it',
      html`${counts.invalid === 0 ? null : html`<p class="note">${counted(counts.invalid, 'row is', 'rows are')} wrong and will be left out. You can instead correct the sheet and plan it again.</p>`}
        <form method="post" action="${at('send')}">
          ${textField(`To ${doing}, type ${typed}`, 'typed', html`required`)} ${againTag(batch)} <button>Send</button>
        </form>`,
    );
  }
  if (state === 'stopped' || counts.unknown > 0) {
    const { sending = 0 } = await ports.journal.counts(batch.batch);
    return of(
      state === 'stopped' ? 'It stopped before its end' : 'Some outcomes are open',
      html`${sending === 0 ? null : html`<p class="note">The process that sent it ended while ${counted(sending, 'row was', 'rows were')} under way: it was killed, or its machine stopped.</p>`}
        <p>
          “Go on” looks at every open row on the server
          first${left === 0 ? '; there is nothing else left to send' : `, then sends what is left: ${counted(left, 'row')}`}.
          No row is sent twice.
        </p>
        ${holding.length === 0 ? null : html`<p class="note">First decide about ${counted(holding.length, 'row')} that ${holding.length === 1 ? 'holds' : 'hold'} others back: they are listed above.</p>`}
        ${postForm(at('resume'), html`${againTag(batch)}<button>Go on</button>`)}`,
    );
  }
  return html``;
}

/** Nobody is asked for a reason that was given with the plan. */
function againTag({ againReason, undoOf }: Pick<Batch, 'againReason' | 'undoOf'>): Part {
  if (againReason !== null || undoOf !== null) return null;
  return html`<details>
    <summary>It was sent before</summary>
    ${reasonField('Reason for sending it again, which stays on record', 'again')}
  </details>`;
}

function submitTag(at: (what: string) => string, batch: Batch): Html {
  const note = reasonField('Note to the approver', 'note');
  return postForm(at('submit'), html`${note} ${againTag(batch)} <button>Submit for approval</button>`);
}

/** One form for both, so that there is one field for the password. */
function decisionTag(visit: Visit, ports: ConsolePorts, { batch }: Batch, hash: string): Html {
  const at = (what: string): string => visit.link(`/batches/${batch}/${what}`);
  return html`<form method="post" action="${at('approve')}">
    <input type="hidden" name="hash" value="${hash}" />
    ${textField('Why not, if you deny it', 'reason', html`maxlength="500" value="${visit.form.get('reason')}"`)}
    <p>${proofTag(visit, ports, `/batches/${batch}`)}</p>
    <div class="buttons">
      <button>Approve</button>
      <button class="danger quiet" formaction="${at('deny')}">Deny</button>
    </div>
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

/** Does the work, and opens the page of the batch, or of the batch whose name `work` returns. */
export async function afterwards(
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
  // Whoever has typed why not has pressed the wrong button, or Enter.
  if ((visit.form.get('reason')?.trim() ?? '') !== '') {
    throw new UsageError('you gave a reason to deny the batch; nothing was approved', {
      advice: 'Press “Deny”, or empty the reason to approve it.',
    });
  }
  return afterwards(visit, ports, (batch) =>
    approveBatch(approvePorts(visit, ports), batch, visit.form.get('hash') ?? ''),
  );
}

export function deny(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return afterwards(visit, ports, (batch) =>
    denyBatch(approvePorts(visit, ports), batch, visit.form.get('reason') ?? ''),
  );
}

export function discard(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const journal = ports.journal.by(actorOf(visit, ports));
  return afterwards(visit, ports, async (batch) => {
    await discardBatch(journal, batch, visit.form.get('why') ?? '');
    ports.sendings.forgetProblem(batch.batch);
  });
}

export function undo(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const actor = actorOf(visit, ports);
  return afterwards(visit, ports, async ({ batch }) => {
    const call = { path: ['bulk', 'undo'], operands: [batch], options: {} };
    const planned = await ports.planning.plan(call, actor, visit.signal);
    return 'batch' in planned ? planned.batch : undefined;
  });
}
