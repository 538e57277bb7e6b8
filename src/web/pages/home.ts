/** The first page: how fresh everything is, what is wrong and what to do, what runs, and which batches wait for the reader. */
import { openStatus } from '../../mirror/open-status.ts';
import type { MirrorStatus } from '../../mirror/status.ts';
import { counted, grouped } from '../../model/counted.ts';
import { FileError } from '../../model/errors.ts';
import { withReleases } from '../../model/releases.ts';
import { resourceNames } from '../../model/resources.ts';
import { type JobStatus, openWorkerStatus, type WorkerStatus } from '../../worker/open-status.ts';
import { type StatusProblem, statusProblems } from '../../worker/status-problems.ts';
import { ageTag, html, type Html, problemTag, stateTag, tableTag, timeTag } from '../html.ts';
import type { ConsolePorts } from '../ports.ts';
import { page, type Reply, type Visit } from '../route.ts';
import { runState } from './runs.ts';

export async function homePage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { settings, clock } = ports;
  const worker = await withReleases((releases) => openWorkerStatus(settings, clock, releases));
  const mirror = await statusOrWhy(ports);
  if (mirror instanceof FileError) {
    return page('Home', problemTag(mirror.message, mirror.advice));
  }
  const problems = statusProblems(mirror, worker);
  const body = html`${problems.length === 0 ? goodTag(mirror) : problemTags(problems)}
  ${freshnessTag(mirror, worker, ports)} ${runsTag(mirror, visit)} ${jobsTag(worker)}`;
  return page('Home', body, { refresh: 60 });
}

async function statusOrWhy({ settings }: ConsolePorts): Promise<MirrorStatus | FileError> {
  try {
    return await withReleases((releases) => openStatus(settings, releases));
  } catch (error) {
    if (error instanceof FileError) return error;
    throw error;
  }
}

function goodTag({ runs: [last] }: MirrorStatus): Html {
  return html`<p class="note">
    ${stateTag('Nothing is wrong.', 'good')} The last run began ${timeTag(last?.started_at ?? null)}.
  </p>`;
}

function problemTags(problems: readonly StatusProblem[]): Html {
  return html`<h2>What is wrong</h2>
    ${problems.map(({ problem, next }) => problemTag(problem, next))}`;
}

/** A card a resource; the bound in words, since a time alone says little. */
function freshnessTag({ resources }: MirrorStatus, { freshness }: WorkerStatus, { clock }: ConsolePorts): Html {
  return html`<h2>How fresh</h2>
    <ul class="cards">
      ${resourceNames.map((name) => {
        const { live, fresh_as_of, open_problems } = resources[name];
        const isFresh = freshness.resources[name]?.is_fresh ?? fresh_as_of !== null;
        const state = fresh_as_of === null ? 'not read whole yet' : isFresh ? 'fresh enough' : 'too old';
        const open = open_problems.length;
        return html`<li class="card">
          <h3>${name}</h3>
          <div class="big">${grouped(live)}</div>
          <div>${stateTag(state, isFresh ? 'good' : 'bad')} ${ageTag(fresh_as_of, clock.now())}</div>
          <p class="soft">
            ${
              fresh_as_of === null
                ? 'Some records may be missing.'
                : html`Everything created or changed up to ${timeTag(fresh_as_of)} is here. Later changes may not be.`
            }
            ${open === 0 ? null : html`${counted(open, 'window')} not settled.`}
          </p>
        </li>`;
      })}
    </ul>`;
}

function runsTag({ runs, running }: MirrorStatus, { link }: Visit): Html {
  const now =
    running === null ? null : html`<p>A sync is running since ${timeTag(running.acquiredAt)}, on ${running.host}.</p>`;
  return html`<h2>Last runs</h2>
    ${now}
    ${tableTag(
      'Last runs',
      [
        { head: 'Began', cell: ({ started_at }) => timeTag(started_at) },
        { head: 'Run', cell: ({ run }) => html`<a href="${link(`/runs/${run}`)}">${run}</a>` },
        { head: 'Outcome', cell: ({ status }) => runState(status) },
        { head: 'Requests', cell: ({ requests }) => grouped(requests), isNumber: true },
      ],
      runs,
      'Nothing was read yet.',
    )}`;
}

function jobsTag({ worker, jobs }: WorkerStatus): Html {
  if (worker === null && jobs.length === 0) return html``;
  const owner =
    worker === null
      ? problemTag('No worker runs.', 'The jobs of the config file are run by `admin-mirror schedule`.')
      : html`<p>The worker runs on ${worker.host} since ${timeTag(worker.acquiredAt)}.</p>`;
  return html`<h2>Jobs</h2>
    ${owner}
    ${tableTag<JobStatus>(
      'Jobs of the worker',
      [
        { head: 'Job', cell: ({ job }) => job },
        { head: 'Last', cell: ({ last, running_since }) => lastOf(last, running_since) },
        { head: 'Ended', cell: ({ last }) => timeTag(last?.finished_at ?? null) },
        { head: 'Next', cell: ({ next_at }) => timeTag(next_at) },
        { head: 'Problem', cell: ({ last }) => last?.problem ?? null },
      ],
      jobs,
    )}`;
}

function lastOf(last: JobStatus['last'], runningSince: JobStatus['running_since']): Html {
  if (runningSince !== null) return html`${stateTag('running', 'wait')} since ${timeTag(runningSince)}`;
  if (last === null) return html`<span class="none">has not run yet</span>`;
  return stateTag(last.outcome ?? 'running', last.outcome === 'complete' ? 'good' : 'bad');
}
