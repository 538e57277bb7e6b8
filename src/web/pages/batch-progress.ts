/** How far a batch is while it is being sent. */
import { batchOf } from '../../bulk/claim.ts';
import { countNames, type Counts } from '../../bulk/intent.ts';
import { type BatchReport } from '../../bulk/report.ts';
import { actorText } from '../../model/actor.ts';
import { grouped } from '../../model/text.ts';
import { roughLength, secondMs } from '../../model/time.ts';
import { buttonForm, html, type Html } from '../html.ts';
import { type ConsolePorts, everySecond, type Reply, type Visit } from '../route.ts';
import { batchIn, summaryNow } from './batches.ts';

/** How many rows were sent or need no sending. */
function doneOf({ rows, counts }: Pick<BatchReport, 'rows' | 'counts'>): number {
  return rows - counts.planned - counts.blocked - counts.invalid;
}

export function sendingTag(visit: Visit, { sendings }: ConsolePorts, report: BatchReport): Html {
  if (report.state !== 'applying') return html``;
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
