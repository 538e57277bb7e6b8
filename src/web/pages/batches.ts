/** The list of batches, those that wait for the caller, and new batches from a sheet. */
import { actionNames, actionOf, actions } from '../../bulk/actions.ts';
import { type BatchReport, type BatchSummary, countWords, reportOf, stateWords, summaryOf } from '../../bulk/report.ts';
import { templateTable } from '../../bulk/select.ts';
import { tableWriter } from '../../data/export.ts';
import { contentTypes } from '../../data/formats.ts';
import { tableFormats } from '../../model/spreadsheet.ts';
import type { Batch, Intent } from '../../journal/port.ts';
import { amountWords } from '../../model/money.ts';
import { grouped } from '../../model/text.ts';
import { UsageError } from '../../model/errors.ts';
import { dayMs, parseInstant } from '../../model/time.ts';
import {
  anchor,
  html,
  type Html,
  optionTag,
  type Part,
  reasonField,
  selectTag,
  textField,
  stateTag,
  tableTag,
  timeTag,
} from '../html.ts';
import type { SheetChoices } from '../uploads.ts';
import { actorOf, type ConsolePorts, notFound, page, redirect, type Reply, type Upload, type Visit } from '../route.ts';

const batchesAPage = 50;

/** A batch of the list. `waits` says why it waits for the caller; null if it does not. */
interface ListedBatch {
  readonly batch: Batch;
  readonly summary: BatchSummary;
  readonly by: string;
  readonly waits: string | null;
}

/** The newest batches, or those that wait for the caller; older ones page by page. */
export async function batchesPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { link, query, offers } = visit;
  const all = await ports.journal.batches();
  const before = query.get('before');
  const rest = before === null ? all : all.slice(all.findIndex(({ batch }) => batch === before) + 1);
  const part = rest.slice(0, batchesAPage);
  const listed = await Promise.all(part.map((batch) => listedBatch(visit, ports, batch)));
  const waiting = listed.filter(({ waits }) => waits !== null);
  const isMine = query.get('show') === 'mine';
  const last = !isMine && rest.length > part.length ? part.at(-1) : undefined;
  const tab = (show: string | null, words: string, isHere: boolean): Html =>
    html`<a href="${link('/batches', { show })}" ${isHere ? html`aria-current="true"` : null}>${words}</a>`;
  const body = html`<p class="buttons">
      ${offers('POST', '/batches') ? html`<a class="button" href="${link('/batches/new')}">New batch</a>` : null}
      ${tab(null, 'All', !isMine)} ${tab('mine', `Waiting for you: ${waiting.length}`, isMine)}
      ${offers('GET', '/batches/compare') ? anchor(link('/batches/compare'), 'Compare with the server…') : null}
    </p>
    ${batchesTable(visit, ports, 'Batches, the newest first', isMine ? waiting : listed, isMine ? 'No batch waits for you.' : 'There are no batches yet.')}
    ${last === undefined ? null : html`<p><a class="button quiet" href="${link('/batches', { before: last.batch })}">Older batches</a></p>`}`;
  return page('Batches', body);
}

/** How many of them the first page lists. */
const shownWaiting = 5;

/** The batches that wait for the caller, for the first page; nothing for roles that do not work with batches. */
export async function waitingBatches(visit: Visit, ports: ConsolePorts): Promise<Html> {
  if (!visit.may('maker') && !visit.may('approver')) return html``;
  const newest = (await ports.journal.batches()).slice(0, batchesAPage);
  const open = newest.filter(({ state }) => state !== 'done');
  const listed = await Promise.all(open.map((batch) => listedBatch(visit, ports, batch)));
  const waiting = listed.filter(({ waits }) => waits !== null);
  if (waiting.length === 0) return html``;
  const all = anchor(visit.link('/batches', { show: 'mine' }), `All ${waiting.length} that wait for you`);
  return html`<h2>These batches wait for you</h2>
    ${batchesTable(visit, ports, 'Batches that wait for you', waiting.slice(0, shownWaiting), '')}
    ${waiting.length > shownWaiting ? html`<p>${all}</p>` : null}`;
}

async function listedBatch(visit: Visit, ports: ConsolePorts, batch: Batch): Promise<ListedBatch> {
  const summary = await summaryNow(ports, batch);
  const planned = await ports.journal.plannedBy(batch.batch);
  const by = planned.map(({ account, name }) => account ?? name).join(', ');
  const isMine = planned.some(({ account }) => account === visit.caller?.account.name);
  return { batch, summary, by, waits: waitsFor(visit, ports, summary, batch, isMine) };
}

export async function batchIn({ params }: Visit, { journal }: ConsolePorts): Promise<Batch> {
  const batch = await journal.batch(params['batch'] ?? '');
  if (batch === undefined) throw notFound('there is no such batch');
  return batch;
}

export async function reportNow(ports: ConsolePorts, batch: Batch): Promise<BatchReport> {
  return asNow(ports, await reportOf(ports.journal, batch));
}

export async function summaryNow(ports: ConsolePorts, batch: Batch): Promise<BatchSummary> {
  return asNow(ports, await summaryOf(ports.journal, batch));
}

/** Corrects the state: the journal may not know yet that this console has begun to send the batch. */
function asNow<T extends BatchSummary>({ sendings }: ConsolePorts, found: T): T {
  return sendings.running(found.batch) === undefined ? found : { ...found, state: 'applying' };
}

/** An older plan was forgotten, and waits for nobody. */
const plansWaitMs = 3 * dayMs;

/** Whether the caller may approve or deny it. The list has accounts with a password; the others confirm at the provider. */
export function mayDecide(
  { approvers }: Pick<NonNullable<BatchReport['approval']>, 'approvers'>,
  { caller, may }: Pick<Visit, 'caller' | 'may'>,
): boolean {
  if (caller === null || !may('approver')) return false;
  return approvers.includes(caller.account.name) || caller.account.passwordAt === null;
}

function waitsFor(
  visit: Visit,
  { clock }: ConsolePorts,
  { state, counts, approval }: BatchSummary,
  { createdAt }: Batch,
  isMine: boolean,
): string | null {
  if (state === 'done') return null;
  if (approval?.state === 'waiting' && mayDecide(approval, visit)) return 'to be approved';
  if (!visit.may('maker')) return null;
  if (state === 'stopped') return counts.unknown > 0 ? 'outcomes are unknown' : 'stopped, there is more to send';
  if (state !== 'planned' || !isMine || counts.planned === 0) return null;
  if (approval?.state === 'denied') return 'to be corrected';
  if (approval?.state === 'waiting') return null;
  if (approval?.state === 'approved') return 'to be sent';
  return clock.now() - (parseInstant(createdAt) ?? 0) < plansWaitMs ? 'to be checked and sent' : null;
}

function batchesTable(
  { link }: Visit,
  { settings }: ConsolePorts,
  caption: string,
  listed: readonly ListedBatch[],
  empty: string,
): Html {
  const { currency } = settings.bulk;
  return tableTag<ListedBatch>(
    caption,
    [
      [
        'Batch',
        ({ batch: { batch, title } }) => html`<a href="${link(`/batches/${batch}`)}" title="${batch}">${title}</a>`,
      ],
      [
        'State',
        ({ summary, waits }) => [
          batchState(summary),
          waits === null ? null : html` <span class="soft">${waits}</span>`,
        ],
      ],
      [
        'Net',
        ({ summary: { action, net } }) => (action === 'balance' ? amountWords(net, currency, true) : action),
        'number',
      ],
      ['Rows', ({ summary }) => countWords(summary)],
      ['Planned', ({ batch: { createdAt } }) => timeTag(createdAt)],
      ['By', ({ by }) => by],
    ],
    listed,
    empty,
  );
}

export function batchState(summary: BatchSummary): Html {
  const words = stateWords(summary);
  return stateTag(words, stateMarks[words] ?? 'bad');
}

/** All others are bad. */
const stateMarks: Readonly<Record<string, 'good' | 'wait' | 'plain'>> = {
  done: 'good',
  approved: 'good',
  sending: 'wait',
  'waits for approval': 'wait',
  planned: 'plain',
  'planned, needs approval': 'plain',
  reversed: 'plain',
  'partly reversed': 'plain',
  discarded: 'plain',
};

export function userTag({ link }: Visit, { user, subject }: Pick<Intent, 'user' | 'subject'>): Part {
  return user === null ? subject?.replace(/^new:/, 'new: ') : anchor(link(`/data/users/${user}`), user);
}

/** The form for a new sheet. The file comes last, because the server must read the other fields before it. */
export function newBatchPage({ link }: Visit, { settings }: ConsolePorts): Reply {
  const { maxRows } = settings.bulk;
  const rows = maxRows === undefined ? '' : ` and ${grouped(maxRows)} rows`;
  const body = html`<p>
      Choose what to do, fill in the template, and drop the sheet here. Nothing is sent before you have seen the plan.
    </p>
    <ul>
      ${actions.map(({ name, summary }) => html`<li><a href="${link(`/batches/templates/${name}.xlsx`)}">Template for ${name}</a> (<a href="${link(`/batches/templates/${name}.csv`)}" aria-label="Template for ${name} as .csv">.csv</a>): ${summary}</li>`)}
    </ul>
    <form method="post" action="${link('/batches')}" enctype="multipart/form-data" data-upload class="drop">
      <p>
        ${selectTag(
          'Action',
          'action',
          actionNames.map((name) => optionTag(name, null)),
        )}
      </p>
      ${textField('What to call it, such as Goodwill November. Left empty, it has the name of the sheet', 'title', html`maxlength="120"`)}
      <details>
        <summary>More</summary>
        ${textField('Name of the sheet, if the .xlsx file has several', 'sheet', html`maxlength="100"`)}
        ${reasonField('Reason for sending again what was sent before. Without one, it is refused. The reason stays on record', 'again')}
        <p>
          <label class="choice"
            ><input type="checkbox" name="force" value="yes" /> delete users even if they have orders or punishments, in
            rows with yes in the column force</label
          >
        </p>
      </details>
      <p>
        <label
          >Sheet: .csv, .tsv, .xlsx or .jsonl, at most 50 MB${rows}
          <input type="file" name="file" required accept=".csv,.tsv,.xlsx,.jsonl"
        /></label>
      </p>
      <button>Plan it</button>
      <progress hidden aria-label="Sent"></progress>
      <p role="status"></p>
    </form>`;
  return page('New batch', body);
}

export function templateFile({ params, signal }: Visit): Reply {
  const file = params['template'] ?? '';
  const format = tableFormats.find((each) => file.endsWith(`.${each}`));
  const name = file.slice(0, file.lastIndexOf('.'));
  if (format === undefined || !actionNames.includes(name)) throw notFound('there is no such template');
  const chunks = tableWriter(format, signal, () => {}).chunks(templateTable(actionOf(name)));
  return { kind: 'file', name: file, type: contentTypes[format], chunks };
}

export async function* textChunks(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

export async function uploadSheet(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { link } = visit;
  const actor = actorOf(visit, ports);
  for await (const upload of visit.uploads()) {
    if (upload.field !== 'file' || upload.name === '') continue;
    const planned = await ports.uploads.take(upload.bytes, upload.name, choicesOf(upload), actor, visit.signal);
    return redirect(link(typeof planned === 'string' ? `/batches/${planned}` : `/batches/uploads/${planned.id}`));
  }
  throw new UsageError('there is no file in the form', { advice: 'Choose a sheet, and send it again.' });
}

function choicesOf({ fields }: Upload): SheetChoices {
  const given = (field: string): string | null => fields[field]?.trim() || null;
  return {
    action: actionOf(fields['action'] ?? '').name,
    title: given('title'),
    sheet: given('sheet'),
    again: given('again'),
    allowForce: fields['force'] === 'yes',
  };
}
