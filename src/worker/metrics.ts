/** The worker's metrics for Prometheus; docs/worker.md lists them. Counters start with the worker; gauges are set at each request. */
import { parseInstant, secondMs } from '../model/time.ts';
import type { RunReport } from '../store/mirror-types.ts';
import type { Delivery } from './alerts.ts';
import { Family, type ShownFamily } from './metric-families.ts';
import type { Facts, Freshness } from './problems.ts';
import type { JournalHealth, Check, MirrorHealth } from './store/health.ts';
import type { Alert, JobRun } from './store/port.ts';
import type { WorkerEvent, WorkerView } from './worker.ts';

interface Snapshot extends Pick<Facts, 'mirror' | 'journal' | 'freshness'> {
  /** undefined if the worker's file could not be read. */
  readonly view: WorkerView | undefined;
  readonly alerts: readonly Alert[];
}

const prefix = 'admin_mirror_';

export type Metrics = ReturnType<typeof openMetrics>;

/** @param profile the label of each metric if the process has several workers */
export function openMetrics(version: string, profile?: string) {
  const families: ShownFamily[] = [];
  const common = profile === undefined ? {} : { profile };
  const family = <L extends string>(kind: Family['kind'], name: string, help: string, labelNames: readonly L[]) => {
    const made = new Family({ name: prefix + name, kind, help }, common, labelNames);
    families.push(made);
    return made;
  };
  const gauge: MakeGauge = (name, help, labelNames = []) => family('gauge', name, help, labelNames);
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[]) =>
    family('counter', name, help, labelNames);

  gauge('build_info', 'The version that runs; always 1.', ['version']).set({ version }, 1);
  const runs = counter('job_runs_total', 'Runs of jobs that ended or were skipped, by outcome.', ['job', 'outcome']);
  const requests = counter('requests_total', 'Requests of the sync jobs by HTTP status; none: no complete response.', [
    'status',
  ]);
  const retries = counter('retries_total', 'Requests of the sync jobs that were retries.', []);
  const records = counter('records_total', 'Records that the sync jobs received, and what changed.', [
    'resource',
    'change',
  ]);
  const deliveries = counter('alert_deliveries_total', 'Attempts to deliver an alert, by result.', [
    'channel',
    'result',
  ]);
  const ofJobs = jobGauges(gauge);
  const ofMirror = mirrorGauges(gauge);
  const ofJournal = journalGauges(gauge);
  const alertsOpen = gauge('alerts_open', 'Problems that were reported and are not over, by kind.', ['kind']);
  const readable = gauge('file_readable', '1 if the file could be read just now or does not exist, else 0.', ['file']);

  function onRunEnd(run: JobRun): void {
    runs.add({ job: run.job, outcome: run.outcome ?? 'unknown' });
    const report = syncReportOf(run);
    if (report === undefined) return;
    retries.add({}, report.retries);
    let responded = 0;
    for (const [status, count] of Object.entries(report.answers)) {
      requests.add({ status }, count);
      responded += count;
    }
    requests.add({ status: 'none' }, Math.max(0, report.requests - responded));
    for (const [resource, { received, inserted, updated, deleted, unchanged }] of Object.entries(report.resources)) {
      for (const [change, count] of Object.entries({ received, inserted, updated, deleted, unchanged })) {
        records.add({ resource, change }, count);
      }
    }
  }

  return {
    onEvent: (event: WorkerEvent) => {
      if (event.kind === 'run_ended') onRunEnd(event.run);
      else if (event.kind === 'not_run') runs.add({ job: event.job, outcome: event.outcome });
    },
    onDelivery: ({ channel, result }: Delivery) => deliveries.add({ channel, result }),
    /** Sets all gauges from the snapshot. */
    set: ({ view, mirror, journal, freshness, alerts }: Snapshot) => {
      readable.set({ file: 'worker' }, Number(view !== undefined));
      readable.set({ file: 'mirror' }, Number(!('problem' in mirror)));
      readable.set({ file: 'journal' }, Number(!('problem' in journal)));
      ofJobs(view);
      ofMirror(mirror, freshness);
      ofJournal(journal);
      alertsOpen.clear();
      for (const { kind } of alerts) alertsOpen.add({ kind });
      return families;
    },
  };
}

type MakeGauge = <L extends string = never>(name: string, help: string, labelNames?: readonly L[]) => Family<L>;

function jobGauges(gauge: MakeGauge): (view: WorkerView | undefined) => void {
  const startedAt = gauge('worker_start_time_seconds', 'When the worker was started.');
  const running = gauge('job_running', 'Whether the job runs: 1, else 0.', ['job']);
  const next = gauge('job_next_time_seconds', 'When the job begins next.', ['job']);
  const lastEnd = gauge('job_last_end_time_seconds', 'When its last run ended.', ['job']);
  const lastComplete = gauge('job_last_complete', 'Whether its last run was complete: 1, else 0.', ['job']);
  const duration = gauge('job_last_duration_seconds', 'How long its last run took.', ['job']);
  const lateness = gauge('job_last_lateness_seconds', 'How much later than its time its last run began.', ['job']);
  const all = [running, next, lastEnd, lastComplete, duration, lateness];
  return (view) => {
    for (const each of all) each.clear();
    if (view === undefined) return;
    startedAt.set({}, view.startedAt / secondMs);
    for (const { job, nextAt, running: run, latest } of view.jobs) {
      const label = { job: job.name };
      running.set(label, Number(run !== null));
      if (nextAt !== null) next.set(label, nextAt / secondMs);
      const end = parseInstant(latest?.finishedAt);
      if (latest === undefined || end === undefined) continue;
      lastEnd.set(label, end / secondMs);
      lastComplete.set(label, Number(latest.outcome === 'complete'));
      duration.set(label, Math.max(0, end - (parseInstant(latest.startedAt) ?? end)) / secondMs);
      const { occurrence, startedAt } = latest;
      const late = occurrence === null ? null : (parseInstant(startedAt) ?? 0) - occurrence;
      if (late !== null) lateness.set(label, Math.max(0, late) / secondMs);
    }
  };
}

function mirrorGauges(gauge: MakeGauge): (mirror: Check<MirrorHealth>, freshness: Freshness) => void {
  const fresh = gauge('fresh', 'Whether the mirror is as fresh as it must be: 1, else 0.');
  const limit = gauge('max_staleness_seconds', 'How old the mirror may be.');
  const stale = gauge('staleness_seconds', 'Age of what the mirror knows of the resource.', ['resource']);
  const live = gauge('records', 'Rows at the end of the last sync.', ['resource']);
  const total = gauge('server_records', 'Records that the server counted in the last sync.', ['resource']);
  const windows = gauge('windows', 'Windows of creation time by state.', ['resource', 'state']);
  const heldBack = gauge(
    'windows_held_back',
    'Windows whose removals were refused, because too many rows would go at once.',
    ['resource'],
  );
  const all = [stale, live, total, windows, heldBack];
  return (mirror, freshness) => {
    for (const each of all) each.clear();
    fresh.set({}, Number(freshness.is_fresh));
    limit.set({}, freshness.max_staleness_seconds);
    for (const [resource, each] of Object.entries(freshness.resources)) stale.set({ resource }, each.staleness_seconds);
    for (const each of 'found' in mirror ? mirror.found.resources : []) {
      const { resource } = each;
      if (each.live !== null) live.set({ resource }, each.live);
      if (each.serverTotal !== null) total.set({ resource }, each.serverTotal);
      for (const [state, count] of Object.entries(each.windows)) windows.set({ resource, state }, count);
      heldBack.set({ resource }, each.heldBack);
    }
  };
}

const emptyJournal: JournalHealth = { batches: { planned: 0, applying: 0, stopped: 0, done: 0 }, open: [], head: null };

function journalGauges(gauge: MakeGauge): (journal: Check<JournalHealth>) => void {
  const batches = gauge('batches', 'Batches by state.', ['state']);
  const rows = gauge('batch_rows_open', 'Rows whose outcome is open, by state.', ['state']);
  return (journal) => {
    batches.clear();
    rows.clear();
    if ('problem' in journal) return;
    const { batches: counts, open } = 'found' in journal ? journal.found : emptyJournal;
    for (const [state, count] of Object.entries(counts)) batches.set({ state }, count);
    for (const state of ['sending', 'acknowledged', 'unknown', 'needs_human'] as const) {
      rows.set(
        { state },
        open.reduce((sum, batch) => sum + batch.rows[state], 0),
      );
    }
  };
}

function syncReportOf({ report }: JobRun): RunReport | undefined {
  const isSync = typeof report === 'object' && report !== null && 'answers' in report && 'retries' in report;
  return isSync ? (report as RunReport) : undefined;
}
