/** The doctor on the four lists: what the server can do with each, measured as `sync` measures it at first contact. */
import { type Capabilities, measureCapabilities } from '../../api/capabilities.ts';
import type { Client } from '../../api/client.ts';
import { KeyRefused } from '../../api/errors.ts';
import { OperatorError } from '../../model/errors.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import { type Check, failed, ok, warn } from './check.ts';

/** Measures every list. A key that may not see one is a warning, one that may see none is refused. */
export async function checkLists(client: Client, pageSize: number, signal: AbortSignal): Promise<Check[]> {
  const checks: Check[] = [];
  const refusals: Check[] = [];
  let known: Capabilities | undefined;
  for (const resource of resourceNames) {
    try {
      // One after the other: what the first has shown need not be measured again.
      const measured = await measureCapabilities(client, resource, signal, { known, pageSize });
      checks.push(...judge(resource, measured, pageSize));
      known ??= measured;
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof OperatorError)) throw error;
      if (error instanceof KeyRefused) refusals.push(failed(`${resource} list`, error));
      else checks.push(failed(`${resource} list`, error));
    }
  }
  if (refusals.length === resourceNames.length) return refusals;
  return [...refusals.map(({ name, finding, advice }) => warn(name, finding, advice)), ...checks];
}

function judge(resource: ResourceName, measured: Capabilities, asked: number): Check[] {
  const name = `${resource} list`;
  const { pageSize, ranges, sorts, notes } = measured;
  const size = pageSize < asked ? `pages of ${pageSize} (${asked} were asked for)` : `pages of ${pageSize}`;
  const order = { kept: 'sorts kept', ignored: 'sorts ignored', unknown: 'sorts not known' }[sorts];
  const found = `${size}, ${order}, ${rangeWords(measured)}`;
  const costly = sorts === 'ignored' || ranges === 'none';
  const why = notes.map((note) => note.replace(`${resource}: `, '')).join('; ');
  if (!costly) return [ok(name, why === '' ? found : `${found} (${why})`)];
  // Nothing is wrong with an empty list.
  if (why.includes('no record')) return [ok(name, `${size}; ${why}`)];
  return [warn(name, why === '' ? found : `${found} (${why})`, 'The mirror stays right; `sync` needs more requests.')];
}

function rangeWords({ ranges, rangeEnd, dayShiftMinutes }: Capabilities): string {
  if (ranges === 'none') return 'no date ranges';
  const format = ranges === 'iso' ? 'YYYY-MM-DD' : 'DD-MM-YYYY';
  const end = { inclusive: 'with', exclusive: 'without', unknown: 'perhaps with' }[rangeEnd];
  const zone = dayShiftMinutes === 'unknown' ? 'in an unknown zone' : `of ${zoneName(dayShiftMinutes)}`;
  return `date ranges in ${format} ${end} their last day, days ${zone}`;
}

/** 330 → `UTC+5:30`. */
function zoneName(minutes: number): string {
  if (minutes === 0) return 'UTC';
  const hours = Math.floor(Math.abs(minutes) / 60);
  return `UTC${minutes < 0 ? '-' : '+'}${hours}:${String(Math.abs(minutes) % 60).padStart(2, '0')}`;
}
