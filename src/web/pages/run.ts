/** One run: what it did and found, its progress, and the button that stops it. */
import { openRun } from '../../mirror/open-status.ts';
import { actorText } from '../../model/actor.ts';
import { counted, grouped } from '../../model/text.ts';
import { FileError } from '../../model/errors.ts';
import { withReleases } from '../../model/releases.ts';
import { parseInstant, roughLength, secondMs } from '../../model/time.ts';
import type { MirrorEvent, ResourceReport, RunDetail } from '../../store/mirror-types.ts';
import { openJobRun } from '../../worker/open-status.ts';
import type { JobRun } from '../../worker/store/port.ts';
import {
  anchor,
  buttonForm,
  factsTag,
  html,
  type Html,
  type Part,
  problemTag,
  prose,
  stateTag,
  tableTag,
  timeTag,
  nothing,
} from '../html.ts';
import { actorOf, type ConsolePorts, everySecond, notFound, page, redirect, type Reply, type Visit } from '../route.ts';
import { checkTag } from './batch-checks.ts';
import { jobState, whoBegan } from './runs.ts';
import { findingsOf, type ResourceVerdict, sinceWords, type VerifyReport } from '../../mirror/verify.ts';

export async function stopRun(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { run = '' } = visit.params;
  ports.consoleRuns.stop(run, actorOf(visit, ports));
  return redirect(visit.link(`/runs/${run}`));
}

interface Found {
  readonly job: JobRun | null;
  readonly sync: Awaited<ReturnType<typeof openRun>>;
}

/** Finds the run among the syncs and among the runs of jobs and people; it may be in both. Throws a NotFoundError. */
async function findRun({ settings, clock }: ConsolePorts, run: string): Promise<Found> {
  const job = (await withReleases((releases) => openJobRun(settings, run, clock, releases))) ?? null;
  let sync: Found['sync'] = null;
  try {
    sync = await withReleases((releases) => openRun(settings, run, clock, releases));
  } catch (error) {
    // The first sync may not have created the mirror yet.
    if (!(error instanceof FileError) || job === null) throw error;
  }
  if (job === null && sync === null) throw notFound('there is no such run');
  return { job, sync };
}

function isGoingOn({ job, sync }: Found, isOurs: boolean): boolean {
  if (job !== null) return job.outcome === null && (isOurs || sync?.owner !== null);
  return sync?.detail.status === 'running' && sync.owner !== null;
}

export async function runPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { run = '' } = visit.params;
  const found = await findRun(ports, run);
  const { job, sync } = found;
  const isOurs = ports.consoleRuns.isRunning(run);
  const goesOn = isGoingOn(found, isOurs);
  const body = html`${goesOn ? [progressTag(visit, ports, found, run), isOurs ? stopTag(visit, run) : elsewhereTag(found)] : null}
    ${job === null ? null : jobTag(job)} ${sync === null ? null : syncTag(sync.detail, goesOn, job)}
    ${job === null ? null : [verdictTag(job.report), checkTag(visit, job.report)]}
    <p>${anchor(visit.link('/runs'), 'All runs')}</p>`;
  return page(`Run ${run}`, body, goesOn ? { refresh: 5 } : {});
}

function stopTag({ link, offers }: Visit, run: string): Part {
  return offers('POST', '/runs/:run/stop') ? buttonForm(link(`/runs/${run}/stop`), 'Stop this run', 'danger') : null;
}

function elsewhereTag({ sync }: Found): Html {
  const owner = sync?.owner ?? null;
  return html`<p class="soft">
    This console did not start this run. Stop it where it
    runs${owner === null ? '' : `: process ${owner.pid} on ${owner.host}`}.
  </p>`;
}

function jobTag(job: JobRun): Html {
  const { outcome, problem, command, startedAt, finishedAt, exitCode } = job;
  const isLocked = outcome === 'locked';
  const advice = 'Wait until that run ends, or stop it. Then start this one again.';
  const why = isLocked ? problemTag(`Another run must end first: ${problem}`, advice) : problemTag(problem ?? '');
  const code = exitCode === null ? null : html`<span class="soft">exit code ${exitCode}</span>`;
  return html`${problem === null ? null : why}
  ${factsTag([
    ['Command', html`<code>${command}</code>`],
    ['By', whoBegan(job)],
    ['Began', timeTag(startedAt)],
    ['Ended', timeTag(finishedAt)],
    ['Outcome', html`${jobState(job)} ${code}`],
  ])}`;
}

/** @param job the run of the sync, whose page part already says who began it and how it ended */
function syncTag(detail: RunDetail, goesOn: boolean, job: JobRun | null): Html {
  const { status, started_at, finished_at, actor, requests, retries, answers, problem, resources, events } = detail;
  const isLost = status === 'running' && !goesOn;
  const isEnded = finished_at !== null;
  return html`${problem === null || problem === job?.problem ? null : problemTag(problem)}
    ${isLost ? problemTag('The process of this run died before it was finished.', 'The next sync continues where it stopped.') : null}
    <h2>The sync</h2>
    ${factsTag([
      ...(job === null
        ? ([
            ['Outcome', isLost ? stateTag('killed') : stateTag(status)],
            ['By', actor === null ? html`<span class="none">not recorded</span>` : actorText(actor)],
            ['Began', timeTag(started_at)],
            ['Ended', timeTag(finished_at)],
          ] as const)
        : []),
      ['Requests', isEnded ? `${grouped(requests)}, including ${counted(retries, 'retry', 'retries')}` : null],
      ['Responses', isEnded ? Object.entries(answers).map(([code, count]) => `${code}: ${grouped(count)} `) : null],
    ])}
    ${tableTag<[string, ResourceReport]>(
      'What it did for each resource',
      [
        ['Resource', ([name]) => name],
        ['Outcome', ([, each]) => stateTag(each.status)],
        ['Read', ([, each]) => grouped(each.received), 'number'],
        ['New', ([, each]) => grouped(each.inserted), 'number'],
        ['Changed', ([, each]) => grouped(each.updated), 'number'],
        ['Deleted', ([, each]) => grouped(each.deleted), 'number'],
        ['Requests', ([, each]) => grouped(each.requests), 'number'],
        ['Fresh as of', ([, each]) => timeTag(each.fresh_as_of)],
        ['Problem', ([, each]) => prose(each.problem ?? '')],
      ],
      Object.entries(resources),
    )}
    <h2>Events</h2>
    ${tableTag<MirrorEvent>(
      'Unexpected things that this run met for the first time',
      [
        ['When', ({ at }) => timeTag(at)],
        ['Resource', ({ resource }) => resource],
        ['What', ({ kind }) => kind.replaceAll('_', ' ')],
        ['Where', ({ subject }) => subject],
        ['Detail', ({ detail: words }) => words],
      ],
      events,
      'There was nothing unexpected.',
    )}`;
}

/** The progress of a run: the same texts in the page and in its events. */
function progressOf(ports: ConsolePorts, { sync, job }: Found, run: string) {
  const { settings } = ports;
  if (sync === null) return comparisonProgress(ports, job, run);
  const { records, expected, requests, expectedRequests, leftMs } = sync.progress;
  return {
    records:
      expected === null
        ? `${grouped(records)} records read`
        : `${grouped(records)} of ${grouped(expected)} records read`,
    requests:
      `${counted(requests, 'request')} sent` +
      (expectedRequests === null ? '' : `, of about ${grouped(Math.max(requests, expectedRequests))}`) +
      `; reading old records again may take up to ${grouped(settings.sync.requestsPerRun)}`,
    left: leftMs === null ? '' : leftText(leftMs),
    share: expected === null || expected === 0 ? null : Math.min(1, records / expected),
  };
}

/** The progress of a comparison, from its log: it writes nothing else that others could read. */
function comparisonProgress({ consoleRuns, clock }: ConsolePorts, job: JobRun | null, run: string) {
  const lines = consoleRuns.lastLines(run);
  const sum = (field: string) =>
    lines
      .filter(({ message }) => message === 'progress')
      .reduce((all, { fields }) => all + (typeof fields[field] === 'number' ? fields[field] : 0), 0);
  const [records, expected, windows, ofWindows] = [sum('records'), sum('expected'), sum('windows'), sum('of_windows')];
  const counts = [
    ...(ofWindows === 0 ? [] : [`${grouped(windows)} of ${counted(ofWindows, 'window')} counted`]),
    ...(expected === 0 ? [] : [`${grouped(records)} of ${counted(Math.max(records, expected), 'record')} compared`]),
  ];
  const last = lines.at(-1);
  const share = expected > 0 ? Math.min(1, records / expected) : ofWindows > 0 ? windows / ofWindows : null;
  const spentMs = clock.now() - (parseInstant(job?.startedAt ?? '') ?? clock.now());
  return {
    records: counts.length > 0 ? counts.join(', ') : (last?.message ?? 'Starting…'),
    requests: typeof last?.fields['resource'] === 'string' ? `Now: ${last.fields['resource']}` : '',
    left: share === null || share === 0 || share === 1 ? '' : leftText((spentMs * (1 - share)) / share),
    share,
  };
}

function leftText(ms: number): string {
  return `about ${roughLength(Math.max(secondMs, ms))} left`;
}

function progressTag({ link }: Visit, ports: ConsolePorts, found: Found, run: string): Html {
  const { records, requests, left, share } = progressOf(ports, found, run);
  return html`<section aria-label="Progress" data-events="${link(`/runs/${run}/events`)}">
    <p>${stateTag('running')} <span data-live="records">${records}</span></p>
    <progress
      aria-label="Records read"
      max="1"
      data-live="share"
      ${share === null ? null : html`value="${share}"`}
    ></progress>
    <p class="soft"><span data-live="requests">${requests}</span></p>
    <p class="soft"><span data-live="left">${left}</span></p>
  </section>`;
}

export async function runEvents({ params, signal }: Visit, ports: ConsolePorts): Promise<Reply> {
  const { run = '' } = params;
  // Before the response begins, so that an unknown run gets an error page.
  await findRun(ports, run);
  return {
    kind: 'events',
    events: everySecond(signal, async () => {
      const found = await findRun(ports, run);
      return isGoingOn(found, ports.consoleRuns.isRunning(run)) ? progressOf(ports, found, run) : null;
    }),
  };
}

/** How many ids and windows of each kind the page names. */
const maxNamed = 50;

/** The findings of a comparison; nothing for any other report. */
function verdictTag(report: unknown): Html {
  if (!isVerifyReport(report)) return nothing;
  const { status, requests, resources, deep } = report;
  return html`<h2>What was found</h2>
    <p>
      ${stateTag(status)}
      ${deep ? 'Every record was compared.' : 'The counts were compared, and the records wherever the counts differ.'}
      ${counted(requests, 'request')}.
    </p>
    ${
      status === 'equal'
        ? null
        : html`<p class="note">${sinceWords(report)} The next sync compares these windows again.</p>`
    }
    ${tableTag<[string, ResourceVerdict]>(
      'What was found, by resource',
      [
        ['Resource', ([name]) => name],
        ['Result', ([, { status: each }]) => stateTag(each)],
        ['In the mirror', ([, { live }]) => grouped(live), 'number'],
        ['On the server', ([, { server_total: total }]) => (total === null ? 'not counted' : grouped(total)), 'number'],
        ['Windows', ([, { windows }]) => grouped(windows), 'number'],
        ['Findings', ([, each]) => findingsOf(each, maxNamed).map((line) => html`<p>${line}</p>`)],
      ],
      Object.entries(resources),
    )}`;
}

function isVerifyReport(report: unknown): report is VerifyReport {
  return typeof report === 'object' && report !== null && 'deep' in report && 'resources' in report;
}
