/** The worker's metrics in Prometheus's text format; docs/worker.md lists them. Counters start with the worker. */
import { parseInstant, secondMs } from '../model/time.ts';
import type { Facts } from './facts.ts';
import type { Problem } from './problem-words.ts';
import type { Channel } from './store/port.ts';
import type { WorkerEvent } from './worker.ts';

const families = {
  build_info: ['gauge', 'The version that runs; always 1.'],
  job_runs_total: ['counter', 'Runs of jobs that ended or were skipped, by outcome.'],
  job_running: ['gauge', 'Whether the job runs: 1, else 0.'],
  job_next_time_seconds: ['gauge', 'When the job begins next.'],
  job_last_end_time_seconds: ['gauge', 'When its last run ended.'],
  job_last_complete: ['gauge', 'Whether its last run was complete: 1, else 0.'],
  job_last_duration_seconds: ['gauge', 'How long its last run took.'],
  fresh: ['gauge', 'Whether the mirror is as fresh as it must be: 1, else 0.'],
  staleness_seconds: ['gauge', 'Age of what the mirror knows of the resource.'],
  records: ['gauge', 'Rows at the end of the last sync.'],
  server_records: ['gauge', 'Records that the server counted in the last sync.'],
  batch_rows_open: ['gauge', 'Rows of batches whose outcome is open, by state.'],
  problems: ['gauge', 'Problems that last, by code.'],
  alert_deliveries_total: ['counter', 'Attempts to deliver an alert, by result.'],
  file_readable: ['gauge', '1 if the file could be read just now or does not exist, else 0.'],
} as const satisfies Readonly<Record<string, readonly ['gauge' | 'counter', string]>>;

type Name = keyof typeof families;
type Labels = Readonly<Record<string, string>>;

/** One number. */
export interface Sample {
  readonly name: Name;
  readonly labels: Labels;
  readonly value: number;
}

/** The numbers of one worker. */
export class Metrics {
  readonly #version: string;
  /** Labels of every number. */
  readonly #common: Labels;
  /** By name and labels. */
  readonly #counters = new Map<string, Sample>();

  constructor(version: string, profile: string | null) {
    this.#version = version;
    this.#common = profile === null ? {} : { profile };
  }

  readonly onEvent = (event: WorkerEvent): void => {
    if (event.kind === 'run_ended')
      this.#count('job_runs_total', { job: event.run.job, outcome: String(event.run.outcome) });
    else if (event.kind === 'not_run') this.#count('job_runs_total', { job: event.job, outcome: event.outcome });
  };

  readonly onDelivery = (channel: Channel, isDelivered: boolean): void => {
    this.#count('alert_deliveries_total', { channel, result: isDelivered ? 'delivered' : 'failed' });
  };

  #count(name: Name, labels: Labels): void {
    const key = JSON.stringify([name, labels]);
    this.#counters.set(key, { name, labels, value: (this.#counters.get(key)?.value ?? 0) + 1 });
  }

  samples({ jobs, mirror, journal, freshness }: Facts, problems: readonly Problem[]): Sample[] {
    const samples: Sample[] = [...this.#counters.values()];
    const set = (name: Name, labels: Labels, value: number | null | undefined): void => {
      if (typeof value === 'number') samples.push({ name, labels, value });
    };
    set('build_info', { version: this.#version }, 1);
    for (const [file, isReadable] of [
      ['worker', jobs !== undefined],
      ['mirror', !('problem' in mirror)],
      ['journal', !('problem' in journal)],
    ] as const) {
      set('file_readable', { file }, Number(isReadable));
    }
    for (const { job: of, nextAt, runningSince, latest } of jobs ?? []) {
      const { name: job } = of;
      set('job_running', { job }, Number(runningSince !== null));
      set('job_next_time_seconds', { job }, nextAt === null ? null : nextAt / secondMs);
      const [start, end] = [parseInstant(latest?.startedAt), parseInstant(latest?.finishedAt)];
      if (start === undefined || end === undefined) continue;
      set('job_last_end_time_seconds', { job }, end / secondMs);
      set('job_last_complete', { job }, Number(latest?.outcome === 'complete'));
      set('job_last_duration_seconds', { job }, Math.max(0, end - start) / secondMs);
    }
    set('fresh', {}, Number(freshness.is_fresh));
    for (const [resource, each] of Object.entries(freshness.resources)) {
      set('staleness_seconds', { resource }, each.staleness_seconds);
    }
    for (const { resource, live, serverTotal } of 'found' in mirror ? mirror.found.resources : []) {
      set('records', { resource }, live);
      set('server_records', { resource }, serverTotal);
    }
    const open = 'found' in journal ? journal.found.open : [];
    for (const state of ['sending', 'acknowledged', 'unknown', 'needs_human'] as const) {
      const rows = open.reduce((sum, batch) => sum + batch.rows[state], 0);
      set('batch_rows_open', { state }, 'problem' in journal ? null : rows);
    }
    for (const [code, all] of Map.groupBy(problems, (each) => each.code)) set('problems', { code }, all.length);
    return samples.map((each) => ({ ...each, labels: { ...each.labels, ...this.#common } }));
  }
}

/** The text of the numbers; several workers of a process are told apart by a label. */
export function metricsText(samples: readonly Sample[]): string {
  const shown = Object.entries(families).map(([name, [kind, help]]) => {
    const lines = samples
      .filter((each) => each.name === name)
      .map(({ labels, value }) => `admin_mirror_${name}${labelsText(labels)} ${value}`);
    return [`# HELP admin_mirror_${name} ${help}`, `# TYPE admin_mirror_${name} ${kind}`, ...lines].join('\n');
  });
  return `${shown.join('\n')}\n`;
}

function labelsText(labels: Labels): string {
  const escaped = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  const members = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return members.length === 0 ? '' : `{${members.join(',')}}`;
}
