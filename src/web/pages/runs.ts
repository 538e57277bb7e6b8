/** The list of runs, and the page that starts one and shows its cost first. */
import { openRuns, openWriter } from '../../mirror/open-status.ts';
import { openPlan, openVerifyPlan } from '../../mirror/open.ts';
import { actorText } from '../../model/actor.ts';
import { counted, grouped } from '../../model/text.ts';
import { FileError } from '../../model/errors.ts';
import { withReleases } from '../../model/releases.ts';
import { isResourceName, type ResourceName, resourceNames } from '../../model/resources.ts';
import { ownerWords } from '../../store/lock.ts';
import type { RunReport } from '../../store/mirror-types.ts';
import { isStartable, type NewConsoleRun, consoleRunOf, type Startable } from '../../worker/console-runs.ts';
import { openJobRuns } from '../../worker/open-status.ts';
import type { JobRun } from '../../worker/store/port.ts';
import {
  choiceTags,
  html,
  type Html,
  optionTag,
  selectTag,
  problemTag,
  prose,
  stateTag,
  tableTag,
  timeTag,
} from '../html.ts';
import { actorOf, type ConsolePorts, notFound, page, redirect, type Reply, type Visit } from '../route.ts';

/** How many runs the filter searches, and how many of its results are shown. */
const maxSearched = 500;
const maxShown = 50;

const startTexts: Readonly<Record<Startable, { readonly name: string; readonly what: string }>> = {
  sync: {
    name: 'Sync',
    what: 'Reads what is new, the last days again, and as many older records as the budget of requests allows.',
  },
  quick: { name: 'Quick sync', what: 'Reads only what may be new, and compares the counts.' },
  verify: {
    name: 'Verify',
    what: 'Counts the records of each window on the server, and compares the records wherever the counts differ.',
  },
  deep: { name: 'Deep verify', what: 'Compares every record with the server, field by field.' },
};

/** The outcome of a job, or of a run by hand. A comparison with exit code 6 ran well, but found differences. */
export function jobState({ outcome, exitCode }: Pick<JobRun, 'outcome' | 'exitCode'>): Html {
  return stateTag(outcome === null ? 'running' : exitCode === 6 ? 'different' : outcome);
}

/** A run as the list shows it: a sync, a job, a comparison, or what somebody started here. */
interface ListedRun extends Pick<JobRun, 'run' | 'command' | 'startedAt' | 'finishedAt' | 'problem'> {
  readonly outcome: string;
  readonly state: Html;
  readonly by: string;
  readonly requests: number | null;
}

function syncListed({ run, status, started_at, finished_at, actor, requests, resources }: RunReport): ListedRun {
  const problem = Object.values(resources).find((each) => each.problem !== null)?.problem ?? null;
  const times = { startedAt: started_at, finishedAt: finished_at };
  const by = actor === null ? '' : actorText(actor);
  return { run, command: 'sync', outcome: status, state: stateTag(status), ...times, by, requests, problem };
}

function jobListed(job: JobRun): ListedRun {
  return { ...job, outcome: job.outcome ?? 'running', state: jobState(job), by: whoBegan(job), requests: null };
}

/** All runs, the newest first. A sync that a job or a person started here is one run, with its requests. */
async function listedRuns(ports: ConsolePorts) {
  const { settings, clock } = ports;
  const { syncs, problem } = await syncsOrWhy(ports);
  const jobs = await withReleases((releases) => openJobRuns(settings, maxSearched, clock, releases));
  const byRun = new Map(syncs.map((sync) => [sync.run, syncListed(sync)]));
  for (const job of jobs) byRun.set(job.run, { ...jobListed(job), requests: byRun.get(job.run)?.requests ?? null });
  return { problem, runs: [...byRun.values()].sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1)) };
}

export async function runsPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { query, link } = visit;
  const [status, by] = [query.get('status') ?? '', (query.get('by') ?? '').trim()];
  const { runs, problem } = await listedRuns(ports);
  const found = runs.filter(
    (run) => (status === '' || run.outcome === status) && run.by.toLowerCase().includes(by.toLowerCase()),
  );
  const outcomes = [...new Set(runs.map(({ outcome }) => outcome))].sort();
  const body = html`${problem}
    <div class="fields">
      <form method="get" action="${link('/runs')}" class="fields">
        ${selectTag('Outcome', 'status', [optionTag('', status, 'all'), ...outcomes.map((state) => optionTag(state, status))])}
        <label>Run by <input name="by" value="${by}" /></label>
        <button class="quiet">Show</button>
      </form>
      ${startLinks(visit)}
    </div>
    ${tableTag<ListedRun>(
      'Runs, the newest first',
      [
        [
          'Run',
          ({ run, command }) =>
            html`<a href="${link(`/runs/${run}`)}" title="${run}">${command.replace(/^admin-mirror /, '')}</a>`,
        ],
        ['Outcome', ({ state }) => state],
        ['Began', ({ startedAt }) => timeTag(startedAt)],
        ['Ended', ({ finishedAt }) => timeTag(finishedAt)],
        ['By', (run) => run.by],
        ['Requests', ({ requests }) => (requests === null ? null : grouped(requests)), 'number'],
        ['Problem', (run) => (run.problem === null ? null : html`<span class="clip">${prose(run.problem)}</span>`)],
      ],
      found.slice(0, maxShown),
      status === '' && by === '' ? 'There are none yet.' : 'There is no such run.',
    )}
    ${found.length > maxShown ? html`<p class="soft">These are the newest ${maxShown} of ${grouped(found.length)}.</p>` : null}`;
  return page('Runs', body, { refresh: 30 });
}

/** Reads the syncs. If there is no mirror, or it cannot be read, returns the problem, so that the rest of the page is shown. */
async function syncsOrWhy({ settings }: ConsolePorts): Promise<{ syncs: readonly RunReport[]; problem: Html | null }> {
  try {
    const syncs = await withReleases((releases) => openRuns(settings, maxSearched, releases));
    return { syncs, problem: null };
  } catch (error) {
    if (error instanceof FileError) return { syncs: [], problem: problemTag(error.message, error.advice) };
    throw error;
  }
}

export function whoBegan({ actor, job, cause }: JobRun): string {
  if (actor !== undefined) return actorText(actor);
  return cause === 'by_hand' ? `job ${job}, by hand` : `job ${job}`;
}

/** Buttons for the runs that the caller may start; null if there are none. */
export function startLinks({ offers, link }: Visit): Html | null {
  if (!offers('POST', '/runs')) return null;
  return html`<p class="buttons">
    ${Object.entries(startTexts).map(
      ([kind, { name }]) =>
        html`<a class="button ${kind === 'sync' ? '' : 'quiet'}" href="${link('/runs/new', { what: kind })}"
          >${name}…</a
        > `,
    )}
  </p>`;
}

function requestIn(fields: URLSearchParams): { readonly what: Startable; readonly resources: readonly ResourceName[] } {
  const what = fields.get('what') ?? '';
  if (!isStartable(what)) throw notFound('there is no such kind of run');
  return { what, resources: fields.getAll('resource').filter(isResourceName) };
}

/** Shows a new run and its cost, without sending a request. */
export async function newRunPage({ query, link }: Visit, ports: ConsolePorts): Promise<Reply> {
  const { settings } = ports;
  const { what, resources } = requestIn(query.has('what') ? query : new URLSearchParams([...query, ['what', 'sync']]));
  const { name, what: explanation } = startTexts[what];
  const plan = await planOf(ports, what, resources.length === 0 ? resourceNames : resources);
  const writer = plan === null ? null : await withReleases((releases) => openWriter(settings, releases));
  const isSync = what === 'sync' || what === 'quick';
  const body = html`<p>${explanation}</p>
    ${writer === null || !isSync ? null : problemTag(`Another run must end first: ${ownerWords(writer)}`, 'Wait until it ends, or stop it. Only one run at a time can write the mirror.')}
    <form method="post" action="${link('/runs')}">
      <input type="hidden" name="what" value="${what}" />
      <fieldset>
        <legend>What to read; if you choose nothing, everything is read</legend>
        ${choiceTags('resource', resourceNames, resources)}
      </fieldset>
      <button class="quiet" formmethod="get" formaction="${link('/runs/new')}">Show the cost</button>
      <h2>What it costs</h2>
      ${plan === null ? html`<p>There is no mirror yet, so everything is read. It is not known how many requests that takes.</p>` : costTag(plan)}
      ${
        what === 'sync'
          ? html`<p class="soft">
              Reading old records again may take up to ${counted(settings.sync.requestsPerRun, 'request')} of these
              (<code>sync.requests_per_run</code>).
            </p>`
          : null
      }
      <button>Start: ${name}</button> <a class="button quiet" href="${link('/runs')}">Back</a>
    </form>`;
  return page(name, body);
}

interface Cost {
  readonly resource: string;
  readonly reason: string;
  readonly requests: number | null;
}

/** Estimates the cost; null if there is no mirror yet. Throws a FileError if the run needs a mirror. */
async function planOf(
  { settings }: ConsolePorts,
  what: Startable,
  resources: readonly ResourceName[],
): Promise<Cost[] | null> {
  try {
    if (what === 'verify' || what === 'deep') {
      const reason = what === 'deep' ? 'the pages of every record' : 'a count for each window';
      const requests = await withReleases((releases) =>
        openVerifyPlan(settings, { resources, deep: what === 'deep' }, releases),
      );
      return resources.map((resource) => {
        const known = requests[resource] ?? null;
        return { resource, reason: known === null ? 'never read: nothing to compare' : reason, requests: known };
      });
    }
    const { requestsPerRun } = settings.sync;
    const none = { only: null, allowDeletions: false, acceptNewServer: false, requestsPerRun };
    const request = { ...none, resources, mode: what === 'quick' ? 'quick' : 'default' } as const;
    const plan = await withReleases((releases) => openPlan(settings, request, releases));
    return Object.entries(plan.resources).flatMap(([resource, steps]) =>
      steps.map(({ reason, windows, requests }) => ({
        resource,
        reason: windows === null ? reason : `${reason} (${counted(windows, 'window')})`,
        requests,
      })),
    );
  } catch (error) {
    if (error instanceof FileError && (what === 'sync' || what === 'quick')) return null;
    throw error;
  }
}

function costTag(costs: readonly Cost[]): Html {
  const known = costs.reduce((sum, { requests }) => sum + (requests ?? 0), 0);
  return html`<p class="big">At least ${counted(known, 'request')}</p>
    ${tableTag<Cost>(
      'Requests by resource and reason',
      [
        ['Resource', ({ resource }) => resource],
        ['Why', ({ reason }) => reason],
        ['Requests', ({ requests }) => (requests === null ? 'not known' : grouped(requests)), 'number'],
      ],
      costs,
    )}
    <p class="soft">Whatever differs on the server is read too, which costs more.</p>`;
}

export async function startRun(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { what, resources } = requestIn(visit.form);
  return begin(visit, ports, consoleRunOf(what, resources));
}

/** Begins the run, and opens its page. */
export async function begin(visit: Visit, ports: ConsolePorts, run: NewConsoleRun): Promise<Reply> {
  return redirect(visit.link(`/runs/${await ports.consoleRuns.begin(run, actorOf(visit, ports))}`));
}
