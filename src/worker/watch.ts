/** Watches the worker while it works: its health pages, its metrics, its alerts, and the ping after each complete sync. */
import type { SecretAddress } from '../model/secret.ts';
import { OperatorError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import type { Clock } from '../model/time.ts';
import { Alerts, type Sender } from './alerts.ts';
import { type ChannelPorts, type ChannelSettings, channelsOf, ping } from './channels.ts';
import { jsonResponse, type Pages } from './health-server.ts';
import { Metrics, metricsText, metricsType, type Sample } from './metrics.ts';
import type { Facts } from './problems.ts';
import type { Sleep } from './sleep.ts';
import { freshnessOf, type HealthStore } from './store/health.ts';
import type { Alert } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';
import type { WorkerEvent, WorkerView } from './worker.ts';

/** Settings that may change while it watches. */
export interface WatchSettings extends ChannelSettings {
  readonly maxStalenessMs: number;
  readonly ping: SecretAddress | undefined;
}

export interface WatchPorts extends Omit<ChannelPorts, 'userAgent'>, Sender {
  readonly view: () => Promise<WorkerView>;
  readonly store: Pick<WorkerStore, 'scheduler' | 'saveAlerts'>;
  readonly health: HealthStore;
  readonly clock: Clock;
  readonly sleep: Sleep;
  readonly log: Log;
  /** Whether the process has workers for other servers too. */
  readonly isOneOfMany?: boolean;
}

/** A watch over the worker. It does nothing before `run`, or before it is asked. */
export class Watch {
  readonly #ports: WatchPorts;
  readonly #alerts: Alerts;
  readonly #metrics: Metrics;
  readonly #ended = new AbortController();
  readonly #pings = new Set<Promise<void>>();
  readonly #startedAt: number;
  readonly #userAgent: string;
  #settings: WatchSettings;

  constructor(ports: WatchPorts, settings: WatchSettings, known: readonly Alert[]) {
    this.#ports = ports;
    this.#settings = settings;
    this.#startedAt = ports.clock.now();
    this.#userAgent = `admin-mirror/${ports.version}`;
    this.#metrics = new Metrics(ports.version, ports.isOneOfMany === true ? { profile: ports.profile ?? '' } : {});
    const alertPorts = {
      ...ports,
      sender: ports,
      facts: () => this.facts(),
      channels: () => channelsOf(this.#settings, { ...ports, userAgent: this.#userAgent }),
      onDelivery: this.#metrics.onDelivery,
    };
    this.#alerts = new Alerts(alertPorts, known);
  }

  readonly pages: Pages = {
    '/healthz': async () => {
      const { freshness } = await this.facts();
      return jsonResponse(freshness.is_fresh, { status: freshness.is_fresh ? 'ok' : 'stale', ...freshness });
    },
    '/readyz': async () => {
      const problem = await this.#notReady();
      return jsonResponse(problem === null, { status: problem === null ? 'ready' : 'not ready', problem });
    },
    '/metrics': async () => ({ status: 200, type: metricsType, body: metricsText(await this.metrics()) }),
  };

  async metrics(): Promise<readonly Sample[]> {
    return this.#metrics.samples(await this.facts(), await this.#view(), this.#alerts.open());
  }

  onEvent(event: WorkerEvent): void {
    this.#metrics.onEvent(event);
    const { ping: address } = this.#settings;
    if (event.kind === 'run_ended' && event.run.outcome === 'complete' && event.job?.run === 'sync' && address) {
      const { network = {} } = this.#settings;
      const ports = { ...this.#ports, network, userAgent: this.#userAgent, signal: this.#ended.signal };
      const sent = ping(address, ports).finally(() => this.#pings.delete(sent));
      this.#pings.add(sent);
    }
    // Checks later: the worker is in the middle of its round.
    this.#alerts.wake();
  }

  reload(settings: WatchSettings): void {
    this.#settings = settings;
    this.#alerts.wake();
  }

  /** Checks the files, and tells of what is wrong. */
  check(): Promise<void> {
    return this.#alerts.check();
  }

  /** Checks again and again until the signal is aborted. Until the worker has started, another one may own the mirror. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#alerts.run(signal);
    this.#ended.abort();
    await this.settled();
  }

  /** Resolves when no delivery and no ping is under way. */
  async settled(): Promise<void> {
    await Promise.all([this.#alerts.settled(), ...this.#pings]);
  }

  async facts(): Promise<Facts> {
    const { health, clock } = this.#ports;
    const [mirror, journal, view] = [await health.mirror(), await health.journal(), await this.#view()];
    const { maxStalenessMs } = this.#settings;
    const freshness = freshnessOf(mirror, { startedAt: this.#startedAt, now: clock.now(), maxStalenessMs });
    return { jobs: view?.jobs, mirror, journal, freshness, trouble: view?.trouble ?? null };
  }

  /** Returns undefined if the worker cannot read its file. */
  async #view(): Promise<WorkerView | undefined> {
    try {
      return await this.#ports.view();
    } catch (error) {
      if (error instanceof OperatorError) return undefined;
      throw error;
    }
  }

  async #notReady(): Promise<string | null> {
    const { store, view, health } = this.#ports;
    try {
      const owner = await store.scheduler();
      const { trouble, isStopping } = await view();
      // The worker begins nothing that it cannot record.
      if (trouble !== null) return trouble;
      if (owner?.pid !== process.pid) return 'the worker does not hold the lock of the schedule';
      if (isStopping) return 'the worker is stopping';
    } catch (error) {
      if (error instanceof OperatorError) return error.message;
      throw error;
    }
    const mirror = await health.mirror();
    return 'problem' in mirror ? mirror.problem : null;
  }
}
