/** The top of the page of a batch: what it is, how much, in what state, and what comes next. */
import { actionOf } from '../../bulk/actions.ts';
import { countNames } from '../../bulk/intent.ts';
import { type BatchReport, discrepancyWords, totalWords } from '../../bulk/report.ts';
import type { Batch, BatchPeople } from '../../journal/port.ts';
import { type Actor, actorText } from '../../model/actor.ts';
import { amountWords } from '../../model/money.ts';
import { counted, grouped } from '../../model/text.ts';
import { anchor, factsTag, html, type Html, timeTag } from '../html.ts';
import type { ConsolePorts, Visit } from '../route.ts';
import { typedFile } from './balance.ts';
import { nextWords } from './batch-acts.ts';
import { batchState } from './batches.ts';

/** What it is and how much, to how many; in what state; who did it; what comes next. The rest is folded. */
export function headTag(
  report: BatchReport,
  batch: Batch,
  people: BatchPeople,
  visit: Visit,
  ports: ConsolePorts,
): Html {
  const { action, rows, counts, net, gross, users } = report;
  const { currency } = ports.settings.bulk;
  const wasSent = batch.appliedAt !== null;
  const names = (actors: readonly Actor[]): string => actors.map(({ account, name }) => account ?? name).join(', ');
  const all = (actors: readonly Actor[]): string | null =>
    actors.length === 0 ? null : actors.map(actorText).join(', ');
  const did = Object.entries(people).flatMap(([what, actors]) =>
    actors.length === 0 || what === 'planned' || what === 'confirmed' ? [] : ` · ${what} by ${names(actors)}`,
  );
  const planned = totalWords(net, gross, users, currency);
  const applied = totalWords(report.applied_net, report.applied_gross, report.applied_users, currency);
  const isPart = wasSent && applied !== planned;
  const wrong = counts.invalid === 0 ? '' : `, ${grouped(counts.invalid)} of them wrong`;
  const what = isMoney(report)
    ? html`<span class="big">${amountWords(wasSent ? report.applied_net : net, currency, true)}</span> for
        ${counted(wasSent ? report.applied_users : users, 'user')}${isPart ? html` <span class="soft">of ${planned} planned</span>` : null}`
    : html`<span class="big">${action}</span> for ${counted(users, 'user')}`;
  const differs = discrepancyWords(report);
  return html`<p class="lead">${what} &ensp;${batchState(report)}</p>
    ${differs === null ? null : html`<p class="problem">${differs}</p>`}
    <p>${nextWords(visit, report)}</p>
    <p class="soft">
      ${counted(rows, 'row')}${batch.file === null || batch.file === typedFile ? null : ` from ${batch.file}`}${wrong} ·
      planned by ${names(people.planned)}, ${timeTag(batch.createdAt)}${did}
    </p>
    <details>
      <summary>Batch <code>${batch.batch}</code></summary>
      ${factsTag([
        ['Action', action],
        ['Planned net', planned],
        ['Applied net', wasSent ? applied : null],
        ['Planned by', all(people.planned)],
        ['Submitted by', all(people.submitted)],
        ['Approved by', all(people.approved)],
        ['Confirmed by', all(people.confirmed)],
        ['Sent by', all(people.sent)],
        ['Discarded by', all(people.discarded)],
        ['Sent again because', batch.againReason],
        ['Fingerprint of the plan', html`<code>${report.hash}</code>`],
      ])}
    </details>`;
}

/** Shows an amount of the batch. For actions that move no money, the text as it is. */
export function amountIn({ settings }: Pick<ConsolePorts, 'settings'>, batch: Pick<BatchReport, 'action'>) {
  return (text: string | null): string | null =>
    text === null || !isMoney(batch) ? text : amountWords(text, settings.bulk.currency);
}

/** Whether the rows change balances. Those of other actions have texts in the place of amounts. */
function isMoney({ action }: Pick<BatchReport, 'action'>): boolean {
  return actionOf(action).typed === 'net';
}

/** What this batch takes back, and what takes it back. */
export async function reversalTag({ link }: Visit, { journal }: ConsolePorts, report: BatchReport): Promise<Html> {
  const titled = async (name: string): Promise<Html> =>
    anchor(link(`/batches/${name}`), (await journal.batch(name))?.title ?? name);
  const by = await Promise.all(
    report.reversals.map(async ({ batch, rows, applied }) => {
      const how = applied === rows ? counted(rows, 'row') : `${grouped(applied)} of ${counted(rows, 'row')} sent`;
      return html`<li>${await titled(batch)}: ${how}</li>`;
    }),
  );
  return html`${report.undo_of === null ? null : html`<p class="note">It takes back ${await titled(report.undo_of)}.</p>`}
  ${
    by.length === 0
      ? null
      : html`<div class="note">
          It is taken back by
          <ul>
            ${by}
          </ul>
        </div>`
  }`;
}

/** How many rows are in which state, once it was sent. The script keeps the numbers up to date. */
export function countsTag({ state, counts }: BatchReport): Html {
  if (state === 'planned') return html``;
  const isLive = state === 'applying';
  return html`<ul class="cards small">
    ${countNames.map((name) =>
      counts[name] === 0 && !isLive
        ? null
        : html`<li class="card" ${counts[name] === 0 ? html`hidden` : null}>
            <h2>${name === 'unknown' && isLive ? 'under way or unknown' : name}</h2>
            <div class="big" data-live="${name}">${grouped(counts[name])}</div>
          </li>`,
    )}
  </ul>`;
}
