/** Watches over the worker while it works: serves its health, sends alerts about problems, and pings. */
import { hostname } from 'node:os';
import type { Registry } from 'prom-client';
import { OperatorError, stackOf } from '../model/errors.ts';
import type { SecretAddress } from '../model/secret.ts';
import { type Clock, secondMs } from '../model/time.ts';
import { Alerts, type Delivery, type Sender } from './alerts.ts';
import { type ChannelPorts, type ChannelSettings, channelsOf, ping } from './channels.ts';
import { jsonResponse, type Pages } from './health-server.ts';
import { type Metrics, openMetrics } from './metrics.ts';
import { type Freshness, freshnessOf, problemsOf } from './problems.ts';
import type { Sleep } from './sleep.ts';
import type { HealthStore, JournalHealth, Look, MirrorHealth } from './store/health.ts';
import type { AlertBook, Problem } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';
import type { WorkerEvent, WorkerView } from './worker.ts';

/** What may change while it watches. */
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

/** How often it looks, at least: nothing happens when a mirror becomes too old, and files change by other hands. */
const restMs = 30 * secondMs;

/** What a delivery may still take when the worker ends; the whole has ten seconds. */
const graceMs = 3 * secondMs;

/** Requests at one moment share one look at the files. */
const sameLookMs = secondMs;

interface Files {
  readonly mirror: Look<MirrorHealth>;
  readonly journal: Look<JournalHealth>;
}

/** A watch over the worker; it does nothing before it is called. */
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
  #lastLook: { readonly at: number; readonly files: Promise<Files> } | undefined;

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

  /** Throws a FileError where the store cannot be read. */
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
      const registry = await this.metrics();
      return { status: 200, type: registry.contentType, body: await registry.metrics() };
    },
  };

  async metrics(): Promise<Registry> {
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
    // Not here and now: the worker is in the middle of its round.
    this.#wake.abort();
  }

  reload(settings: WatchSettings): void {
    this.#settings = settings;
    this.#wake.abort();
  }

  async look(): Promise<void> {
    // Files may have changed since the last request.
    this.#lastLook = undefined;
    await this.#alerts.look();
    if (this.#trouble === undefined || (await this.#view()) === undefined) return;
    // Its problem is on record, so the file can be written again.
    if (this.#alerts.isSaved()) {
      this.#trouble = undefined;
      await this.#alerts.look();
    }
  }

  /** Looks again and again once the worker has started. At the signal it gives what is on its way a moment; the rest is in the store. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, sleep, log } = this.#ports;
    // Not by AbortSignal.any: what that makes of a signal that lives for months is given back late.
    const onStop = () => this.#wake.abort();
    signal.addEventListener('abort', onStop, { once: true });
    while (!signal.aborted) {
      try {
        // Before, the mirror may be that of another worker.
        if (this.#hasStarted) await this.look();
      } catch (error) {
        // Without a look there are no alerts: better one that fails now and then than none any more.
        log.error({}, `the worker's health could not be looked at: ${stackOf(error)}`);
      }
      const next = this.#alerts.nextTry() ?? Number.POSITIVE_INFINITY;
      const rest = Math.min(restMs, Math.max(secondMs, next - clock.now()));
      await sleep(rest, this.#wake.signal);
      // Only now: whatever happened during the look ends the rest at once.
      this.#wake = new AbortController();
    }
    signal.removeEventListener('abort', onStop);
    this.#alerts.close();
    const patience = setTimeout(() => this.#stop.abort(), graceMs);
    await this.settled();
    clearTimeout(patience);
    this.#stop.abort();
  }

  /** Resolves when nothing is on its way any more. */
  async settled(): Promise<void> {
    await Promise.all([this.#alerts.settled(), ...this.#pings]);
  }

  #files(): Promise<Files> {
    const { clock, health } = this.#ports;
    const now = clock.now();
    if (this.#lastLook === undefined || Math.abs(now - this.#lastLook.at) >= sameLookMs) {
      const read = async () => ({ mirror: await health.mirror(), journal: await health.journal() });
      this.#lastLook = { at: now, files: read() };
    }
    return this.#lastLook.files;
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
      // Nothing is begun that cannot be recorded.
      if (this.#trouble !== undefined) return this.#trouble;
      if (owner === undefined || owner.pid !== process.pid) return 'the worker does not hold the lock of the schedule';
      if ((await this.#ports.view()).isStopping) return 'the worker stops';
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
