/** One row of a batch: all that is known of it, and what a person can do about it. */
import { openStates } from '../../bulk/intent.ts';
import { reviewRow } from '../../bulk/review.ts';
import type { Batch, Intent, IntentState } from '../../journal/port.ts';
import type { OperatorError } from '../../model/errors.ts';
import { inBrowser } from '../browser-words.ts';
import { factsTag, html, type Html, timeTag } from '../html.ts';
import { type ConsolePorts, notFound, page, type Reply, type Visit } from '../route.ts';
import { refusalTag } from './batches.ts';
import { intentTag, statusOf, userTag } from './batch.ts';
import { batchIn } from './batches.ts';

/** One row, with all that is known of it, and what a person can do about it. */
export async function rowPage(visit: Visit, ports: ConsolePorts, problem: OperatorError | null = null): Promise<Reply> {
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
  const body = html`${problem === null ? null : refusalTag(problem)}
    <p><a href="${link(`/batches/${batch.batch}`)}">Batch ${batch.batch}</a></p>
    ${facts} ${await resolveTag(visit, ports, batch, intent)}`;
  return page(`Row ${intent.row}`, body, { status: statusOf(problem) });
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
      <p>
        <label>How you know <input name="reason" required maxlength="500" autocomplete="off" /></label>
      </p>
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
