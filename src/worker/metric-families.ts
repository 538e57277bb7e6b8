/** Metrics in Prometheus's text format: families of numbers, each with labels. */
import { secondMs } from '../model/time.ts';

type Labels = Readonly<Record<string, string>>;

export const metricsType = 'text/plain; version=0.0.4; charset=utf-8';

/** All numbers of one name. A family without labels has one number, 0 until it is set. */
export class Family<L extends string = never> {
  readonly name: string;
  readonly kind: 'counter' | 'gauge';
  readonly help: string;
  readonly #common: Labels;
  /** By the text of the labels. */
  readonly #values = new Map<string, number>();

  constructor(about: Pick<Family, 'name' | 'kind' | 'help'>, common: Labels, labelNames: readonly L[]) {
    ({ name: this.name, kind: this.kind, help: this.help } = about);
    this.#common = common;
    if (labelNames.length === 0) this.set({} as Record<L, string>, 0);
  }

  set(labels: Readonly<Record<L, string>>, value: number): void {
    this.#values.set(labelsText({ ...labels, ...this.#common }), value);
  }

  add(labels: Readonly<Record<L, string>>, value = 1): void {
    const text = labelsText({ ...labels, ...this.#common });
    this.#values.set(text, (this.#values.get(text) ?? 0) + value);
  }

  clear(): void {
    this.#values.clear();
  }

  lines(): string[] {
    return Array.from(this.#values, ([labels, value]) => `${this.name}${labels} ${value}`);
  }
}

function labelsText(labels: Labels): string {
  const escaped = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
  const members = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return members.length === 0 ? '' : `{${members.join(',')}}`;
}

export type ShownFamily = Pick<Family, 'name' | 'kind' | 'help' | 'lines'>;

/** Families of one name, from several workers of the process, are shown as one. */
export function metricsText(families: readonly ShownFamily[]): string {
  const byName = Map.groupBy([...families, ...processFamilies()], ({ name }) => name);
  const shown = Array.from(byName, ([name, all]) => {
    const [{ help, kind } = { help: '', kind: 'gauge' }] = all;
    return [`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`, ...all.flatMap((each) => each.lines())].join('\n');
  });
  return `${shown.join('\n\n')}\n`;
}

/** What Prometheus's own clients say of every process. */
function processFamilies(): Family[] {
  const { user, system } = process.cpuUsage();
  const numbers = [
    ['cpu_seconds_total', 'counter', 'Processor time that was used.', (user + system) / 1_000_000],
    ['resident_memory_bytes', 'gauge', 'Memory in use.', process.memoryUsage.rss()],
    ['start_time_seconds', 'gauge', 'When the process was started.', Date.now() / secondMs - process.uptime()],
  ] as const;
  return numbers.map(([name, kind, help, value]) => {
    const family = new Family({ name: `process_${name}`, kind, help }, {}, []);
    family.set({}, value);
    return family;
  });
}
