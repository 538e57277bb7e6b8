/** The first page: freshness, problems and what to do about them, runs and jobs, and the batches that wait for the caller. */
import { type MirrorStatus, openRunDays } from '../../mirror/open-status.ts';
import { counted, grouped } from '../../model/text.ts';
import { FileError } from '../../model/errors.ts';
import { withReleases } from '../../model/releases.ts';
import { resourceNames } from '../../model/resources.ts';
import { dayMs, timestampOf } from '../../model/time.ts';
import type { JobStatus, ServerState, WorkerStatus } from '../../worker/open-status.ts';
import { type Problem, wordsOf } from '../../worker/problem-words.ts';
import { ageTag, anchor, html, type Html, problemTag, prose, stateTag, tableTag, timeTag } from '../html.ts';
import { daysUntil, lineOfCounts, nightsPicture, shownDays } from '../pictures.ts';
import { type ConsolePorts, page, type Reply, type Visit } from '../route.ts';
import { waitingBatches } from './batches.ts';
import { startLinks } from './runs.ts';

export async function homePage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { mirror, worker, problems } = await ports.status();
  const body =
    mirror instanceof FileError
      ? html`${problemTag(mirror.message, mirror.advice)} ${startLinks(visit)}`
      : await stateTags(mirror, { worker, problems }, visit, ports);
  const all = html`${await waitingBatches(visit, ports)} ${body} ${jobsTag(worker, visit)}
  ${serversTag(await ports.servers(), ports)}`;
  return page('Home', all, { refresh: mirror instanceof FileError ? 10 : 60 });
}

async function stateTags(
  mirror: MirrorStatus,
  { worker, problems }: { readonly worker: WorkerStatus; readonly problems: readonly Problem[] },
  visit: Visit,
  { settings, clock }: ConsolePorts,
): Promise<Html> {
  const now = clock.now();
  const since = timestampOf(now - shownDays * dayMs);
  const days = daysUntil(now, await withReleases((releases) => openRunDays(settings, since, releases)));
  return html`${problems.length === 0 ? goodTag(mirror) : problemTags(problems, visit)}
  ${freshnessTag(mirror, worker, days, now)} ${runsTag(mirror, worker, problems, days, visit)}`;
}

/** The servers of the config file, if there are several. Each one has its own console. */
function serversTag(servers: readonly ServerState[], { settings, clock }: ConsolePorts): Html {
  if (servers.length < 2) return html``;
  const isThis = ({ profile }: ServerState) => profile === (settings.profile ?? null);
  return html`<h2>Servers</h2>
    ${tableTag<ServerState>(
      'The servers of the config file, the worst first',
      [
        ['Server', (each) => `${each.profile ?? '(no profile)'}${isThis(each) ? ', this one' : ''}`],
        ['State', stateOfServer],
        ['Fresh as of', ({ fresh_as_of }) => ageTag(fresh_as_of, clock.now())],
        ['Worker', ({ has_worker }) => (has_worker ? 'runs' : 'none')],
      ],
      servers,
    )}`;
}

function stateOfServer({ check, problems, is_running }: ServerState): Html {
  const state = check === 0 ? stateTag('good', 'good') : stateTag(counted(problems.length, 'problem'), 'bad');
  return is_running ? html`${state} ${stateTag('a sync is running', 'wait')}` : state;
}

function goodTag({ runs: [last] }: MirrorStatus): Html {
  return html`<p class="note">
    ${stateTag('Nothing is wrong.', 'good')} The last run began ${timeTag(last?.started_at ?? null)}.
  </p>`;
}

/**
 * The problems, each with a command for the terminal, and with a link to the page that does the same. If several problems in a row have
 * the same link, it follows the last one.
 */
function problemTags(problems: readonly Problem[], visit: Visit): Html {
  const steps = problems.map((each) => stepTag(each, visit));
  const isRepeated = (at: number): boolean => String(steps[at]) === String(steps[at + 1]);
  return html`<h2>What is wrong</h2>
    ${problems.map((each, at) => html`${oneProblemTag(each)} ${isRepeated(at) ? null : steps[at]}`)}`;
}

function oneProblemTag(problem: Problem): Html {
  const { line, effect, next, details } = wordsOf(problem);
  return problemTag(line, [effect, next].filter((each) => each !== null).join('\n'), { details });
}

const ofJobs: readonly string[] = ['job_failed', 'key_refused', 'server_unreachable', 'worker_file'];

function stepTag({ code, facts }: Problem, { offers, link }: Visit): Html | null {
  if (ofJobs.includes(code)) return html`<p><a href="${link('/runs')}">See the runs of the jobs</a></p>`;
  if (code === 'batch_unknown' || code === 'batch_stopped') {
    const batch = 'batch' in facts ? facts.batch : '';
    return offers('GET', '/batches')
      ? html`<p><a class="button" href="${link(`/batches/${batch}`)}">Open the batch</a></p>`
      : null;
  }
  // No sync brings a journal back.
  if (code === 'journal' || !offers('POST', '/runs')) return null;
  return html`<p><a class="button" href="${link('/runs/new', { what: 'sync' })}">Sync…</a></p>`;
}

/** Each resource with its rows, how fresh they are, and how their number went; and one sentence on what that means. */
function freshnessTag(
  { resources, fresh_as_of: oldest }: MirrorStatus,
  { freshness }: WorkerStatus,
  days: ReturnType<typeof daysUntil>,
  now: number,
): Html {
  const parts = resourceNames.map((name) => {
    const { live, fresh_as_of } = resources[name];
    const isFresh = freshness.resources[name]?.is_fresh ?? fresh_as_of !== null;
    const state = fresh_as_of === null ? 'not complete yet' : isFresh ? 'fresh' : 'too old';
    return html`<li>
      <h3>${name}</h3>
      <div class="big">${grouped(live)}</div>
      ${lineOfCounts(
        name,
        days.map(({ ran }) => ran?.live[name]),
      )}
      <div>${stateTag(state, isFresh ? 'good' : 'bad')} <span class="soft">${ageTag(fresh_as_of, now)}</span></div>
    </li>`;
  });
  const open = resourceNames.filter((name) => resources[name].open_problems.length > 0);
  const meaning =
    oldest === null
      ? 'Some records may be missing.'
      : html`Everything created or changed up to ${timeTag(oldest)} is here. Later changes may not be.`;
  return html`<h2>How fresh</h2>
    <ul class="strip">
      ${parts}
    </ul>
    <p class="soft">${meaning} ${open.length === 0 ? null : `Parts of ${open.join(', ')} are not up to date.`}</p>`;
}

function runsTag(
  { runs, running }: MirrorStatus,
  { jobs }: WorkerStatus,
  problems: readonly Problem[],
  days: ReturnType<typeof daysUntil>,
  visit: Visit,
): Html {
  const { link } = visit;
  const next = jobs
    .filter(({ next_at }) => next_at !== null)
    .sort(byNext)
    .slice(0, 3);
  return html`<h2>Runs</h2>
    ${
      running === null
        ? null
        : html`<p>
            ${stateTag('running')} <a href="${link(`/runs/${running.run}`)}">${running.command}</a> since
            ${timeTag(running.acquiredAt)}, on ${running.host}.
          </p>`
    }
    <p>
      ${
        next.length === 0
          ? problems.some(({ code }) => code === 'shared_store')
            ? 'The next run is not known, because the shared store cannot be reached.'
            : 'No run is due: no worker is running, or it has no jobs.'
          : html`Next:
            ${next.map(({ job, next_at }, at) => html`${at === 0 ? null : '; '}${job}, ${timeTag(next_at)}`)}.`
      }
    </p>
    ${nightsPicture(days)}
    ${tableTag(
      'Last runs',
      [
        ['Run', ({ run }) => anchor(link(`/runs/${run}`), run)],
        ['Outcome', ({ status }) => stateTag(status)],
        ['Began', ({ started_at }) => timeTag(started_at)],
        ['Requests', ({ requests }) => grouped(requests), 'number'],
      ],
      runs,
      'There are no runs yet.',
    )}
    ${startLinks(visit)}`;
}

function byNext(a: JobStatus, b: JobStatus): number {
  return (a.next_at ?? '').localeCompare(b.next_at ?? '');
}

function jobsTag({ worker, jobs }: WorkerStatus, { link }: Visit): Html {
  if (worker === null && jobs.length === 0) return html``;
  const owner =
    worker === null
      ? problemTag('No worker is running.', '`admin-mirror schedule` runs the jobs of the config file.')
      : html`<p>The worker has been running on ${worker.host} since ${timeTag(worker.acquiredAt)}.</p>`;
  return html`<h2>Jobs</h2>
    ${owner}
    ${tableTag<JobStatus>(
      'Jobs of the worker',
      [
        ['Job', ({ job }) => job],
        ['Last', ({ last, running_since }) => lastOf(last, running_since, link)],
        ['Ended', ({ last }) => timeTag(last?.finished_at ?? null)],
        ['Next', ({ next_at }) => timeTag(next_at)],
        ['Problem', ({ last }) => prose(last?.problem ?? '')],
      ],
      jobs,
    )}`;
}

function lastOf(last: JobStatus['last'], runningSince: JobStatus['running_since'], link: Visit['link']): Html {
  if (runningSince !== null) return html`${stateTag('running')} since ${timeTag(runningSince)}`;
  if (last === null) return html`<span class="none">has not run yet</span>`;
  return anchor(link(`/runs/${last.run}`), stateTag(last.outcome ?? 'running'));
}
