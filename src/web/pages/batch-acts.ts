/** What people do with a batch - hand it over, approve or deny it, send it, take it back - and one row, which a person may settle. */
import { actionOf } from '../../bulk/actions.ts';
import { approveBatch, denyBatch, submitBatch } from '../../bulk/approval.ts';
import { openStates } from '../../bulk/intent.ts';
import { reviewRow } from '../../bulk/review.ts';
import { resolveRow } from '../../bulk/settle.ts';
import type { Batch, Intent, IntentState } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';
import { factsTag, html, type Html, reasonField, timeTag, inBrowser } from '../html.ts';
import { actorOf, type ConsolePorts, notFound, page, redirect, type Reply, type Visit } from '../route.ts';
import { intentTag, userTag } from './batch.ts';
import { batchIn } from './batches.ts';
import { provenAccount } from './sign-in.ts';

/** Does it, and shows the batch, or another one that came of it. */
async function doing(
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
  return doing(visit, ports, (batch) =>
    ports.sendings.send(batch, actionOf(batch.action), visit.form.get('typed') ?? '', againIn(visit), actor),
  );
}

export function goOn(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const actor = actorOf(visit, ports);
  return doing(visit, ports, (batch) => ports.sendings.resume(batch, actionOf(batch.action), againIn(visit), actor));
}

export function stopSending(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return doing(visit, ports, async ({ batch }) => ports.sendings.stop(batch));
}

export function submit(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const journal = ports.journal.by(actorOf(visit, ports));
  return doing(visit, ports, (batch) =>
    submitBatch(journal, batch, { note: visit.form.get('note'), again: againIn(visit) }),
  );
}

/** Approving and denying take the password, or the word of the provider, once more: a screen that was left open says nothing of who sits at it. */
function approvePorts(visit: Visit, ports: ConsolePorts) {
  const { journal, actor } = ports;
  return { journal, actor, signIn: () => provenAccount(visit, ports) };
}

export function approve(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return doing(visit, ports, (batch) => approveBatch(approvePorts(visit, ports), batch, visit.form.get('hash') ?? ''));
}

export function deny(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return doing(visit, ports, (batch) => denyBatch(approvePorts(visit, ports), batch, visit.form.get('reason') ?? ''));
}

export function resolve(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const journal = ports.journal.by(actorOf(visit, ports));
  const said = visit.form.get('outcome') ?? '';
  const row = Number(visit.params['row']);
  return doing(visit, ports, async (batch) => {
    if (said !== 'applied' && said !== 'not_applied' && said !== 'resend') throw new UsageError('say what happened');
    const outcome = said === 'applied' ? said : 'not_applied';
    const reason = visit.form.get('reason') ?? '';
    await resolveRow(journal, batch, { row, outcome, resend: said === 'resend', reason });
  });
}

export function undo(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const actor = actorOf(visit, ports);
  return doing(visit, ports, async ({ batch, rows }) => {
    const planned = await ports.planning.plan({ kind: 'undo', batch, rows }, actor, visit.signal);
    return 'batch' in planned ? planned.batch : undefined;
  });
}

/** One row, with all that is known of it, and what a person can do about it. */
export async function rowPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const intent = await ports.journal.intent(batch.batch, Number(visit.params['row']));
  if (intent === undefined) throw notFound('there is no such row in the batch');
  const { state, evidence } = intent;
  const { before, after } = reviewRow(intent);
  const { link } = visit;
  const facts = factsTag([
    ['State', html`${intentTag(state)}${evidence === null ? null : `, by ${evidenceWords[evidence]}`}`],
    ['User', html`${userTag(visit, intent)} ${intent.plannedUsername} ${intent.plannedEmail}`],
    ['Before', before],
    ['After', after],
    ['Look at', intent.notes.length === 0 ? null : intent.notes.join('; ')],
    ['What is wrong', intent.problem === null ? null : inBrowser(intent.problem)],
    ['Mark on the server', intent.token],
    ['Record on the server', intent.recordId],
    ['Sent', intent.sentAt === null ? null : timeTag(intent.sentAt)],
    ['Times sent', intent.attempts === 0 ? null : intent.attempts],
    ['Body', intent.body === null ? null : html`<code>${intent.body}</code>`],
    ['Status of the response', intent.httpStatus],
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
  answer: 'the word of the server alone',
  person: 'the word of a person',
} as const;

async function resolveTag(visit: Visit, { journal }: ConsolePorts, { batch }: Batch, intent: Intent): Promise<Html> {
  const isOpen = (openStates as readonly IntentState[]).includes(intent.state);
  const isClosed = intent.state === 'rejected' || intent.state === 'not_applied';
  if (!visit.may('maker') || (!isOpen && !isClosed) || (await journal.lockOwner(batch)) !== undefined) return html``;
  const resend = html`<button name="outcome" value="resend">It was not done: send it again with “Go on”</button>`;
  return html`<h2>${isOpen ? 'What you can do' : 'Send it again'}</h2>
    ${
      isOpen
        ? html`<ol>
            <li>Wait ten minutes, and let “Go on” on the page of the batch look again.</li>
            <li>
              If it is still open, look at user ${intent.user} on the server:
              ${intent.token === null ? 'is the change there?' : html`is the mark <code>${intent.token}</code> there, how often, and does the balance fit?`}
            </li>
            <li>Say here what you saw and how you know. It stays on record with your name.</li>
          </ol>`
        : null
    }
    <form method="post" action="${visit.link(`/batches/${batch}/rows/${intent.row}/resolve`)}">
      ${reasonField('How you know', 'reason', true)}
      <p>
        ${
          isOpen
            ? html`<button name="outcome" value="applied">It was done</button>
                <button class="quiet" name="outcome" value="not_applied">It was not done: close the row</button>`
            : null
        }
        ${resend}
      </p>
    </form>`;
}
