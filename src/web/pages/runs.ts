/** What the syncs did: the list of runs, and one of them while it goes on and after. */
import { grouped } from '../../model/counted.ts';
import { actorText } from '../../model/actor.ts';
import { withReleases } from '../../model/releases.ts';
import { openMirrorStoreForReading } from '../../mirror/store/mirror-store.ts';
import type { ResourceReport, RunReport, RunStatus } from '../../store/mirror-types.ts';
import { html, type Html, stateTag, tableTag, timeTag } from '../html.ts';
import type { ConsolePorts } from '../ports.ts';
import { page, type Reply, type Visit } from '../route.ts';

const shownRuns = 200;

export function runState(status: RunStatus | ResourceReport['status']): Html {
  const kinds = { complete: 'good', running: 'wait' } as const;
  return stateTag(status, status in kinds ? kinds[status as keyof typeof kinds] : 'bad');
}

export async function runsPage({ query, link }: Visit, { settings }: ConsolePorts): Promise<Reply> {
  const wanted = query.get('status') ?? '';
  const runs = await withReleases((releases) =>
    releases.add(openMirrorStoreForReading(settings.store.mirror)).runs(shownRuns),
  );
  const shown = wanted === '' ? runs : runs.filter(({ status }) => status === wanted);
  const states = [...new Set(runs.map(({ status }) => status))].sort();
  const body = html`<form method="get" action="${link('/runs')}" class="fields">
      <label
        >Outcome
        <select name="status">
          <option value="">all</option>
          ${states.map((state) => html`<option ${state === wanted ? html`selected` : null}>${state}</option>`)}
        </select></label
      >
      <button>Show</button>
    </form>
    ${tableTag<RunReport>(
      `The last ${shownRuns} runs, the newest first`,
      [
        { head: 'Began', cell: ({ started_at }) => timeTag(started_at) },
        { head: 'Ended', cell: ({ finished_at }) => timeTag(finished_at) },
        { head: 'Run', cell: ({ run }) => html`<a href="${link(`/runs/${run}`)}">${run}</a>` },
        { head: 'By', cell: ({ actor }) => (actor === null ? null : actorText(actor)) },
        { head: 'Outcome', cell: ({ status }) => runState(status) },
        { head: 'Requests', cell: ({ requests }) => grouped(requests), isNumber: true },
      ],
      shown,
      'There is no such run.',
    )}`;
  return page('Runs', body, { refresh: 30 });
}
