/** The page of a row: everything that is known about it, and what a person can say of its outcome. */
import { isOpen } from '../../bulk/intent.ts';
import { evidenceWords, outcomeWords } from '../../bulk/report.ts';
import { resolveRow } from '../../bulk/resolve.ts';
import { reviewRow } from '../../bulk/review.ts';
import type { Batch, Intent } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';
import { counted } from '../../model/text.ts';
import { factsTag, html, type Html, prose, reasonField, stateTag, timeTag } from '../html.ts';
import { actorOf, type ConsolePorts, notFound, page, type Reply, type Visit } from '../route.ts';
import { afterwards } from './batch-acts.ts';
import { amountIn } from './batch-head.ts';
import { batchIn, userTag } from './batches.ts';

export async function rowPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const intent = await ports.journal.intent(batch.batch, Number(visit.params['row']));
  if (intent === undefined) throw notFound('there is no such row in the batch');
  const { state } = intent;
  const why = evidenceWords(intent);
  const { before, after } = reviewRow(intent);
  const { link } = visit;
  const amount = amountIn(ports, batch);
  const facts = factsTag([
    ['State', html`${stateTag(state)} · ${outcomeWords[state]}${why === null ? null : `: ${why}`}`],
    [
      'User',
      intent.user === null && intent.subject === null
        ? null
        : html`${userTag(visit, intent)} ${intent.plannedUsername} ${intent.plannedEmail}`,
    ],
    ['Before', amount(before)],
    ['After', amount(after)],
    ['Look at', intent.notes.length === 0 ? null : intent.notes.join('; ')],
    ['What is wrong', intent.problem === null ? null : prose(intent.problem)],
    ...batch.columns.map((name, at) => [`In the sheet: ${name}`, intent.cells[at] ?? null] as const),
  ]);
  const details = factsTag([
    ['Mark on the server', intent.token],
    ['Record on the server', intent.recordId],
    ['Sent', intent.sentAt === null ? null : timeTag(intent.sentAt)],
    ['Times sent', intent.attempts === 0 ? null : intent.attempts],
    ['Request body', intent.body === null ? null : html`<code>${intent.body}</code>`],
    ['HTTP status of the response', intent.httpStatus],
    ['Response', intent.answer === null ? null : html`<code>${intent.answer}</code>`],
  ]);
  const body = html`<p><a href="${link(`/batches/${batch.batch}`)}">${batch.title}</a></p>
    ${facts} ${await resolveTag(visit, ports, batch, intent)}
    ${
      intent.body === null
        ? null
        : html`<details>
            <summary>Request and response</summary>
            ${details}
          </details>`
    }`;
  return page(`Row ${intent.row} of ${batch.title}`, body);
}

async function resolveTag(visit: Visit, { journal }: ConsolePorts, { batch }: Batch, intent: Intent): Promise<Html> {
  const open = isOpen(intent.state);
  const isClosed = intent.state === 'rejected' || intent.state === 'not_applied';
  if (!visit.may('maker') || (!open && !isClosed) || (await journal.lockOwner(batch)) !== undefined) return html``;
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
            <li>
              Say here what you saw and how you know. It stays on record with your name. What was not done you can send
              again afterwards.
            </li>
          </ol>`
        : null
    }
    <form method="post" action="${visit.link(`/batches/${batch}/rows/${intent.row}/resolve`)}">
      ${reasonField('How you know', 'reason', { typed: visit.form.get('reason') })}
      <p class="buttons">
        ${
          open
            ? html`<button name="outcome" value="applied">It was done</button>
                <button class="quiet" name="outcome" value="not_applied">It was not done</button>`
            : html`<button name="outcome" value="resend">Send it again with “Go on”</button>`
        }
        ${held === undefined ? null : html`<button class="quiet" name="outcome" value="not_applied">Leave it undone: the later rows follow with “Go on”</button>`}
      </p>
    </form>`;
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
    ports.sendings.forgetProblem(batch.batch);
  });
}
