/** Watches over the worker while it works: tells of its health to whoever asks, of problems by alerts, and pings. */
import { hostname } from 'node:os';
import { OperatorError } from '../model/errors.ts';
import type { SecretAddress } from '../model/secret.ts';
import { type Clock, secondMs } from '../model/time.ts';
import type { AlertStore, Problem } from './store/alerts.ts';
import type { HealthStore } from './store/health.ts';
import type { LockOwner } from '../store/lock.ts';
import { type Alerts, openAlerts } from './alerts/alerts.ts';
import { type ChannelPorts, type Channels, type ChannelSettings, channelsOf, ping } from './alerts/channels.ts';
import { problemsOf } from './alerts/problems.ts';
import type { WorkerEvent, WorkerView } from './events.ts';
import { type Freshness, freshnessOf } from './status.ts';
import { type Metrics, openMetrics } from './health/metrics.ts';
import { jsonResponse, type Pages } from './health/server.ts';
import type { Sleep } from './sleep.ts';

/** What may change while it watches. */
export interface WatchSettings extends ChannelSettings {
  readonly maxStalenessMs: number;
  readonly ping: SecretAddress | undefined;
}

export interface WatchPorts extends Omit<ChannelPorts, 'userAgent'> {
  readonly view: () => WorkerView;
  /** The living scheduler of the mirror. Throws a FileError where its file cannot be read. */
  readonly scheduler: () => LockOwner | undefined;
  readonly alertStore: AlertStore;
  readonly health: HealthStore;
  readonly clock: Clock;
  readonly sleep: Sleep;
  readonly profile: string | null;
  readonly version: string;
  readonly pasteable?: (text: string) => string;
}

export interface Watch {
  readonly pages: Pages;
  /** To be called with each event of the worker. */
  onEvent(event: WorkerEvent): void;
  reload(settings: WatchSettings): void;
  /** Looks at once. */
  look(): void;
  /**
   * Looks again and again once the worker has started, until the signal is aborted. Then it begins nothing any more, gives
   * what is on its way a moment, and ends it: what was not delivered is in the store for the next start.
   */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is on its way any more. */
  settled(): Promise<void>;
}

/** How often it looks, at least: nothing happens when a mirror becomes too old, and files change by other hands. */
const restMs = 30 * secondMs;

/** What a delivery may still take when the worker ends; the whole has ten seconds. */
const graceMs = 3 * secondMs;

/** Requests at one moment share one look at the files. */
const sameLookMs = secondMs;

class WorkerWatch implements Watch {
  readonly #ports: WatchPorts;
  readonly #alerts: Alerts;
  readonly #metrics: Metrics;
  readonly #stop = new AbortController();
  readonly #pings = new Set<Promise<void>>();
  readonly #startedAt: number;
  #settings: WatchSettings;
  #wake = new AbortController();
  #hasStarted = false;
  #trouble: string | undefined;
  #lastLook: { readonly at: number; readonly facts: ReturnType<WorkerWatch['readFiles']> } | undefined;

  constructor(ports: WatchPorts, settings: WatchSettings) {
    this.#ports = ports;
    this.#settings = settings;
    this.#startedAt = ports.clock.now();
    this.#metrics = openMetrics(ports.version);
    const { alertStore: store, clock, log, profile, version, pasteable = (text: string) => text } = ports;
    this.#alerts = openAlerts({
      store,
      clock,
      log,
      sender: { host: hostname(), profile, version, pasteable },
      problems: (known) => this.#problems(known),
      channels: () => this.#channels(),
      onDelivery: (delivery) => {
        this.#metrics.onDelivery(delivery);
        this.#wake.abort();
      },
      signal: this.#stop.signal,
    });
  }

  readonly pages: Pages = {
    '/healthz': () => {
      const freshness = this.#freshness();
      return jsonResponse(freshness.is_fresh, { status: freshness.is_fresh ? 'ok' : 'stale', ...freshness });
    },
    '/readyz': () => {
      const problem = this.#notReady();
      return jsonResponse(problem === null, { status: problem === null ? 'ready' : 'not ready', problem });
    },
    '/metrics': async () => {
      const { mirror, journal } = this.#files();
      const snapshot = {
        view: this.#view(),
        mirror,
        journal,
        freshness: this.#freshness(),
        alerts: this.#alerts.open(),
      };
      return { status: 200, type: this.#metrics.contentType, body: await this.#metrics.text(snapshot) };
    },
  };

  onEvent(event: WorkerEvent): void {
    this.#metrics.onEvent(event);
    if (event.kind === 'started') this.#hasStarted = true;
    if (event.kind === 'trouble') this.#trouble = event.error.message;
    if (event.kind === 'run_ended' && event.run.outcome === 'complete') this.#ping(event.run.job);
    // Not here and now: the worker is in the middle of its round.
    this.#wake.abort();
  }

  reload(settings: WatchSettings): void {
    this.#settings = settings;
    this.#wake.abort();
  }

  look(): void {
    // Files may have changed since somebody asked.
    this.#lastLook = undefined;
    this.#alerts.look();
    if (this.#trouble === undefined || this.#view() === undefined) return;
    // Its problem is on record, so the file can be written again.
    if (this.#alerts.isSaved()) {
      this.#trouble = undefined;
      this.#alerts.look();
    }
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, sleep, log } = this.#ports;
    // Not by AbortSignal.any: what that makes of a signal that lives for months is given back late.
    const onStop = () => this.#wake.abort();
    signal.addEventListener('abort', onStop, { once: true });
    while (!signal.aborted) {
      try {
        // Before, the mirror may be that of another worker.
        if (this.#hasStarted) this.look();
      } catch (error) {
        // Without a look there are no alerts: better one that fails now and then than none any more.
        const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
        log.error({}, `the worker's health could not be looked at: ${why}`);
      }
      const next = this.#alerts.nextTry() ?? Number.POSITIVE_INFINITY;
      const rest = Math.min(restMs, Math.max(secondMs, next - clock.now()));
      await sleep(rest, this.#wake.signal);
      // Only now: whatever happened during the look ends the rest at once.
      this.#wake = new AbortController();
    }
    signal.removeEventListener('abort', onStop);
    await this.#close();
  }

  async settled(): Promise<void> {
    await Promise.all([this.#alerts.settled(), ...this.#pings]);
  }

  async #close(): Promise<void> {
    this.#alerts.close();
    const patience = setTimeout(() => this.#stop.abort(), graceMs);
    await this.settled();
    clearTimeout(patience);
    this.#stop.abort();
  }

  readFiles() {
    const { health } = this.#ports;
    return { mirror: health.mirror(), journal: health.journal() };
  }

  #files(): ReturnType<WorkerWatch['readFiles']> {
    const now = this.#ports.clock.now();
    if (this.#lastLook === undefined || Math.abs(now - this.#lastLook.at) >= sameLookMs) {
      this.#lastLook = { at: now, facts: this.readFiles() };
    }
    return this.#lastLook.facts;
  }

  #freshness(): Freshness {
    const { clock } = this.#ports;
    const { maxStalenessMs } = this.#settings;
    return freshnessOf(this.#files().mirror, { startedAt: this.#startedAt, now: clock.now(), maxStalenessMs });
  }

  #view(): WorkerView | undefined {
    try {
      return this.#ports.view();
    } catch (error) {
      if (error instanceof OperatorError) return undefined;
      throw error;
    }
  }

  #notReady(): string | null {
    try {
      const owner = this.#ports.scheduler();
      if (owner === undefined || owner.pid !== process.pid) return 'the worker does not hold the lock of the schedule';
      if (this.#ports.view().isStopping) return 'the worker stops';
    } catch (error) {
      if (error instanceof OperatorError) return error.message;
      throw error;
    }
    const { mirror } = this.#files();
    return 'problem' in mirror ? mirror.problem : null;
  }

  #problems(known: readonly Problem[]): Problem[] {
    const facts = { ...this.#files(), jobs: this.#view()?.jobs, freshness: this.#freshness(), trouble: this.#trouble };
    return problemsOf(facts, known);
  }

  #channels(): Channels {
    return channelsOf(this.#settings, { ...this.#ports, userAgent: this.#userAgent() });
  }

  #userAgent(): string {
    return `admin-mirror/${this.#ports.version}`;
  }

  #ping(name: string): void {
    const { ping: address, network = {} } = this.#settings;
    const isSync = this.#view()?.jobs.some(({ job }) => job.name === name && job.run === 'sync') ?? false;
    if (address === undefined || !isSync || this.#stop.signal.aborted) return;
    const { sleep, log } = this.#ports;
    const sent = ping(address, { network, userAgent: this.#userAgent(), sleep, log, signal: this.#stop.signal });
    this.#pings.add(sent);
    void sent.finally(() => this.#pings.delete(sent));
  }
}

/** A watch over the worker; it does nothing before it is called. Throws a FileError where its store cannot be read. */
export function openWatch(ports: WatchPorts, settings: WatchSettings): Watch {
  return new WorkerWatch(ports, settings);
}
