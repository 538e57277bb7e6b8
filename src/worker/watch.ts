/** Watches the worker while it works: provides its health pages, sends alerts about problems, and pings. */
import { hostname } from 'node:os';
import { OperatorError, stackOf } from '../model/errors.ts';
import type { SecretAddress } from '../model/secret.ts';
import { type Clock, secondMs } from '../model/time.ts';
import { Alerts, type Delivery, type Sender } from './alerts.ts';
import { type ChannelPorts, type ChannelSettings, channelsOf, ping } from './channels.ts';
import { jsonResponse, type Pages } from './health-server.ts';
import { metricsText, metricsType, type ShownFamily } from './metric-families.ts';
import { type Metrics, openMetrics } from './metrics.ts';
import { type Freshness, freshnessOf, problemsOf } from './problems.ts';
import type { Sleep } from './sleep.ts';
import type { HealthStore, JournalHealth, Check, MirrorHealth } from './store/health.ts';
import type { AlertBook, Problem } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';
import type { WorkerEvent, WorkerView } from './worker.ts';

/** Settings that may change while it watches. */
export interface WatchSettings extends ChannelSettings {
  readonly maxStalenessMs: number;
  readonly ping: SecretAddress | undefined;
}

export interface WatchPorts extends Omit<ChannelPorts, 'userAgent'>, Omit<Sender, 'host'> {
  readonly view: () => Promise<WorkerView>;
  readonly store: Pick<WorkerStore, 'scheduler' | 'alerts' | 'saveAlerts'>;
  readonly health: HealthStore;
  readonly clock: Clock;
  readonly sleep: Sleep;
  /** Whether the process has workers for other servers too. */
  readonly isOneOfMany?: boolean;
}

/** The longest pause between two checks. No event says that a mirror became too old, or that another process changed the files. */
const restMs = 30 * secondMs;

/** How long a delivery may still take when the worker ends, which must end within ten seconds. */
const graceMs = 3 * secondMs;

/** For so long all requests share one check of the files. */
const sharedCheckMs = secondMs;

interface Files {
  readonly mirror: Check<MirrorHealth>;
  readonly journal: Check<JournalHealth>;
}

/** A watch over the worker. It does nothing before `run`. */
export class Watch {
  readonly #ports: WatchPorts;
  readonly #alerts: Alerts;
  readonly #metrics: Metrics;
  readonly #stop = new AbortController();
  readonly #pings = new Set<Promise<void>>();
  readonly #startedAt: number;
  readonly #userAgent: string;
  #settings: WatchSettings;
  #wake = new AbortController();
  #hasStarted = false;
  #trouble: string | undefined;
  #lastCheck: { readonly at: number; readonly files: Promise<Files> } | undefined;

  private constructor(ports: WatchPorts, settings: WatchSettings, book: AlertBook) {
    this.#ports = ports;
    this.#settings = settings;
    this.#startedAt = ports.clock.now();
    this.#userAgent = `admin-mirror/${ports.version}`;
    this.#metrics = openMetrics(ports.version, ports.isOneOfMany === true ? (ports.profile ?? '') : undefined);
    const { store, clock, log, profile, version, pasteable = (text: string) => text } = ports;
    const alertPorts = {
      store,
      clock,
      log,
      sender: { host: hostname(), profile, version, pasteable },
      problems: (known: readonly Problem[]) => this.#problems(known),
      channels: () => channelsOf(this.#settings, { ...this.#ports, userAgent: this.#userAgent }),
      head: async () => {
        const { journal } = await this.#files();
        return 'found' in journal ? journal.found.head : null;
      },
      onDelivery: (delivery: Delivery) => {
        this.#metrics.onDelivery(delivery);
        this.#wake.abort();
      },
      signal: this.#stop.signal,
    };
    this.#alerts = new Alerts(alertPorts, book);
  }

  /** Throws a FileError if the store cannot be read. */
  static async open(ports: WatchPorts, settings: WatchSettings): Promise<Watch> {
    return new Watch(ports, settings, await ports.store.alerts());
  }

  readonly pages: Pages = {
    '/healthz': async () => {
      const freshness = await this.#freshness();
      return jsonResponse(freshness.is_fresh, { status: freshness.is_fresh ? 'ok' : 'stale', ...freshness });
    },
    '/readyz': async () => {
      const problem = await this.#notReady();
      return jsonResponse(problem === null, { status: problem === null ? 'ready' : 'not ready', problem });
    },
    '/metrics': async () => {
      return { status: 200, type: metricsType, body: metricsText(await this.metrics()) };
    },
  };

  async metrics(): Promise<readonly ShownFamily[]> {
    const { mirror, journal } = await this.#files();
    const [view, freshness] = [await this.#view(), await this.#freshness()];
    return this.#metrics.set({ mirror, journal, view, freshness, alerts: this.#alerts.open() });
  }

  onEvent(event: WorkerEvent): void {
    this.#metrics.onEvent(event);
    if (event.kind === 'started') this.#hasStarted = true;
    if (event.kind === 'trouble') this.#trouble = event.error.message;
    if (event.kind === 'run_ended' && event.run.outcome === 'complete') {
      const sent = this.#ping(event.run.job);
      this.#pings.add(sent);
      void sent.finally(() => this.#pings.delete(sent));
    }
    // Checks later: the worker is in the middle of its round.
    this.#wake.abort();
  }

  reload(settings: WatchSettings): void {
    this.#settings = settings;
    this.#wake.abort();
  }

  /** Checks the files, and sends alerts about what is wrong. */
  async check(): Promise<void> {
    // The files may have changed since the last request.
    this.#lastCheck = undefined;
    await this.#alerts.update();
    if (this.#trouble === undefined || (await this.#view()) === undefined) return;
    // If the alert about the worker's file could be saved, the file can be written again.
    if (this.#alerts.isSaved()) {
      this.#trouble = undefined;
      await this.#alerts.update();
    }
  }

  /**
   * Checks again and again once the worker has started. When the signal is aborted, it waits a moment for deliveries; the next worker
   * sends the rest.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, sleep, log } = this.#ports;
    // AbortSignal.any would leave garbage behind at a signal that lives for months.
    const onStop = () => this.#wake.abort();
    signal.addEventListener('abort', onStop, { once: true });
    while (!signal.aborted) {
      try {
        // Until then, another worker may own the mirror.
        if (this.#hasStarted) await this.check();
      } catch (error) {
        // A bug here must not end all alerts, so the next check tries again.
        log.error({}, `the worker's health could not be checked: ${stackOf(error)}`);
      }
      const next = this.#alerts.nextTry() ?? Number.POSITIVE_INFINITY;
      const rest = Math.min(restMs, Math.max(secondMs, next - clock.now()));
      await sleep(rest, this.#wake.signal);
      // Replaced only after the pause, so that an event during the check cuts the pause short.
      this.#wake = new AbortController();
    }
    signal.removeEventListener('abort', onStop);
    this.#alerts.close();
    const patience = setTimeout(() => this.#stop.abort(), graceMs);
    await this.settled();
    clearTimeout(patience);
    this.#stop.abort();
  }

  /** Resolves when no delivery and no ping is under way. */
  async settled(): Promise<void> {
    await Promise.all([this.#alerts.settled(), ...this.#pings]);
  }

  #files(): Promise<Files> {
    const { clock, health } = this.#ports;
    const now = clock.now();
    if (this.#lastCheck === undefined || Math.abs(now - this.#lastCheck.at) >= sharedCheckMs) {
      const read = async () => ({ mirror: await health.mirror(), journal: await health.journal() });
      this.#lastCheck = { at: now, files: read() };
    }
    return this.#lastCheck.files;
  }

  async #freshness(): Promise<Freshness> {
    const { mirror } = await this.#files();
    const { maxStalenessMs } = this.#settings;
    return freshnessOf(mirror, { startedAt: this.#startedAt, now: this.#ports.clock.now(), maxStalenessMs });
  }

  async #view(): Promise<WorkerView | undefined> {
    try {
      return await this.#ports.view();
    } catch (error) {
      if (error instanceof OperatorError) return undefined;
      throw error;
    }
  }

  async #notReady(): Promise<string | null> {
    try {
      const owner = await this.#ports.store.scheduler();
      // The worker begins nothing that it cannot record.
      if (this.#trouble !== undefined) return this.#trouble;
      if (owner === undefined || owner.pid !== process.pid) return 'the worker does not hold the lock of the schedule';
      if ((await this.#ports.view()).isStopping) return 'the worker is stopping';
    } catch (error) {
      if (error instanceof OperatorError) return error.message;
      throw error;
    }
    const { mirror } = await this.#files();
    return 'problem' in mirror ? mirror.problem : null;
  }

  async #problems(known: readonly Problem[]): Promise<Problem[]> {
    const { mirror, journal } = await this.#files();
    const jobs = (await this.#view())?.jobs;
    return problemsOf({ mirror, journal, jobs, freshness: await this.#freshness(), trouble: this.#trouble }, known);
  }

  async #ping(name: string): Promise<void> {
    const { ping: address, network = {} } = this.#settings;
    if (address === undefined || this.#stop.signal.aborted) return;
    if ((await this.#view())?.jobs.some(({ job }) => job.name === name && job.run === 'sync') !== true) return;
    const { sleep, log } = this.#ports;
    await ping(address, { network, userAgent: this.#userAgent, sleep, log, signal: this.#stop.signal });
  }
}
