/** Watches the worker while it works: its health, its metrics, its alerts, and the ping after each complete sync. */
import type { SecretAddress } from '../model/secret.ts';
import { OperatorError, stackOf } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import type { Log } from '../model/log.ts';
import { type Clock, secondMs, type Sleep } from '../model/time.ts';
import { Alerts, type Sender } from './alerts.ts';
import { type ChannelPorts, type ChannelSettings, channelsOf, ping } from './channels.ts';
import { Metrics, type Sample } from './metrics.ts';
import { type Facts, filesNow, jobsNow } from './facts.ts';
import type { HealthStore } from './store/health.ts';
import type { Alert } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';
import type { WorkerEvent, WorkerState } from './worker.ts';

export interface WatchSettings extends ChannelSettings {
  readonly maxStalenessMs: number;
  readonly ping: SecretAddress | undefined;
}

export interface WatchPorts extends Omit<ChannelPorts, 'userAgent'>, Sender {
  readonly jobs: readonly Job[];
  readonly state: () => WorkerState;
  readonly store: Pick<WorkerStore, 'scheduler' | 'saveAlerts' | 'progress' | 'runs'>;
  readonly health: HealthStore;
  readonly clock: Clock;
  readonly sleep: Sleep;
  readonly log: Log;
}

/** The longest pause between two checks. No event says that a mirror became too old, or that another process changed the files. */
const restMs = 30 * secondMs;

/** How long a delivery may still take when the worker ends, which must end within ten seconds. */
const graceMs = 3 * secondMs;

/** A watch over the worker. It does nothing before `run`, or before it is asked. */
export class Watch {
  readonly #ports: WatchPorts;
  readonly #settings: WatchSettings;
  readonly #alerts: Alerts;
  readonly #metrics: Metrics;
  readonly #startedAt: number;
  readonly #userAgent: string;
  readonly #pings = new Set<Promise<void>>();
  /** Cuts deliveries and pings short. */
  readonly #cut = new AbortController();
  #wake = new AbortController();

  constructor(ports: WatchPorts, settings: WatchSettings, known: readonly Alert[]) {
    this.#ports = ports;
    this.#settings = settings;
    this.#startedAt = ports.clock.now();
    this.#userAgent = `admin-mirror/${ports.version}`;
    this.#metrics = new Metrics(ports.version, ports.profile);
    const channels = channelsOf(settings, { ...ports, userAgent: this.#userAgent });
    this.#alerts = new Alerts({ ...ports, sender: ports, channels, onDelivery: this.#metrics.onDelivery }, known);
  }

  /** Whether the mirror is fresh enough. */
  async health() {
    const { freshness } = await this.facts();
    return { isGood: freshness.is_fresh, status: freshness.is_fresh ? 'ok' : 'stale', ...freshness };
  }

  /** Whether the worker can work. */
  async readiness() {
    const problem = await this.#notReady();
    return { isGood: problem === null, status: problem === null ? 'ready' : 'not ready', problem };
  }

  async metrics(): Promise<readonly Sample[]> {
    return this.#metrics.samples(await this.facts(), this.#alerts.open());
  }

  onEvent(event: WorkerEvent): void {
    this.#metrics.onEvent(event);
    const { ping: address, network = {} } = this.#settings;
    if (event.kind === 'run_ended' && event.run.outcome === 'complete' && event.job?.run === 'sync' && address) {
      const ports = { ...this.#ports, network, userAgent: this.#userAgent, signal: this.#cut.signal };
      const sent = ping(address, ports).finally(() => this.#pings.delete(sent));
      this.#pings.add(sent);
    }
    // Checks later: the worker is in the middle of its round.
    this.#wake.abort();
  }

  /** Checks the files, and tells of what is wrong. */
  async check(): Promise<void> {
    await this.#alerts.check(await this.facts(), this.#cut.signal);
  }

  /**
   * Checks again and again until the signal is aborted. Until the worker has started, another one may own the mirror. At the end it
   * waits a moment for deliveries; the next worker sends the rest.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { sleep, log } = this.#ports;
    let patience: NodeJS.Timeout | undefined;
    // AbortSignal.any would leave garbage behind at a signal that lives for months.
    const onStop = () => {
      this.#wake.abort();
      patience = setTimeout(() => this.#cut.abort(), graceMs);
    };
    signal.addEventListener('abort', onStop, { once: true });
    while (!signal.aborted) {
      // A bug here must not end all alerts, so the next check tries again.
      await this.check().catch((error: unknown) => log.error({}, `the alerts could not be checked: ${stackOf(error)}`));
      await sleep(Math.min(restMs, this.#alerts.nextTryMs()), this.#wake.signal);
      // Replaced only after the pause, so that an event during the check cuts the pause short.
      this.#wake = new AbortController();
    }
    signal.removeEventListener('abort', onStop);
    clearTimeout(patience);
    this.#cut.abort();
    await this.settled();
  }

  /** Resolves when no ping is under way. */
  async settled(): Promise<void> {
    await Promise.all(this.#pings);
  }

  async facts(): Promise<Facts> {
    const { health, clock, state } = this.#ports;
    const { maxStalenessMs } = this.#settings;
    const files = await filesNow(health, { startedAt: this.#startedAt, now: clock.now(), maxStalenessMs });
    return { ...files, jobs: await this.#jobs(), trouble: state().trouble };
  }

  /** Returns undefined if the worker cannot read its file. */
  async #jobs(): Promise<Facts['jobs']> {
    const { store, jobs, clock } = this.#ports;
    try {
      return await jobsNow(store, jobs, clock.now());
    } catch (error) {
      if (error instanceof OperatorError) return undefined;
      throw error;
    }
  }

  async #notReady(): Promise<string | null> {
    const { store, state, health } = this.#ports;
    const { trouble, isStopping } = state();
    // The worker begins nothing that it cannot record.
    if (trouble !== null) return trouble;
    if (isStopping) return 'the worker is stopping';
    try {
      const owner = await store.scheduler();
      if (owner?.pid !== process.pid) return 'the worker does not hold the lock of the schedule';
    } catch (error) {
      if (error instanceof OperatorError) return error.message;
      throw error;
    }
    const mirror = await health.mirror();
    return 'problem' in mirror ? mirror.problem : null;
  }
}
