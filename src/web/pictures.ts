/** Small pictures as SVG within a page. Their colours are those of the stylesheet, so they follow dark mode. */
import { type Day, dayMs, dayOf } from '../model/time.ts';
import type { RunDay } from '../store/mirror-types.ts';
import { counted, grouped } from '../model/text.ts';
import { html, type Html } from './html.ts';

/** How many days the pictures show. */
export const shownDays = 30;

const column = 20;
const height = 56;

/** Returns the days up to the one of `now`, oldest first, each with what ran on it. */
export function daysUntil(
  now: number,
  days: readonly RunDay[],
): readonly { readonly day: Day; readonly ran: RunDay | undefined }[] {
  const found = new Map(days.map((each) => [each.day, each]));
  return Array.from({ length: shownDays }, (_, at) => {
    const day = dayOf(now - (shownDays - 1 - at) * dayMs);
    return { day, ran: found.get(day) };
  });
}

/** A column for each day: its height is the time that the syncs took, its colour their outcome. */
export function nightsPicture(days: ReturnType<typeof daysUntil>): Html {
  const ran = days.flatMap((each) => each.ran ?? []);
  const longest = Math.max(1, ...ran.map(({ seconds }) => seconds));
  const bad = ran.filter(({ status }) => !isGood(status));
  const columns = days.map(({ day, ran: one }, at) => {
    const x = at * column;
    if (one === undefined)
      return html`<rect class="no-run" x="${x + 2}" y="${height - 2}" width="${column - 4}" height="2"
        ><title>${day}: no sync</title></rect
      >`;
    const tall = Math.max(4, Math.round((one.seconds / longest) * (height - 16)));
    const words = `${day}: ${one.status}, ${counted(one.runs, 'sync', 'syncs')}, ${durationWords(one.seconds)}, ${counted(one.requests, 'request')}`;
    // The sign says it without the colour.
    const sign = isGood(one.status) ? null : html`<text x="${x + column / 2}" y="${height - tall - 3}">!</text>`;
    return html`<g class="${isGood(one.status) ? 'good' : 'bad'}"
      ><title>${words}</title
      ><rect x="${x + 2}" y="${height - tall}" width="${column - 4}" height="${tall}" />${sign}</g
    >`;
  });
  const outcome =
    bad.length === 0 ? 'each ended complete' : `on ${counted(bad.length, 'day')} the last one was not complete`;
  const label =
    ran.length === 0
      ? `no syncs in ${shownDays} days`
      : `Syncs on ${ran.length} of the last ${shownDays} days: ${outcome}; the longest day took ${durationWords(longest)}.`;
  return html`<figure class="nights">
    <svg viewBox="0 0 ${shownDays * column} ${height}" role="img" aria-label="${label}">${columns}</svg>
    <figcaption class="soft">${label}</figcaption>
  </figure>`;
}

function isGood(status: RunDay['status']): boolean {
  return status === 'complete' || status === 'running';
}

function durationWords(seconds: number): string {
  if (seconds < 120) return `${grouped(Math.round(seconds))} s`;
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${grouped(Math.round(seconds / 3_600))} h`;
}

/** The counts as a line, from the least to the greatest; null if there are fewer than two. @param label what they count */
export function lineOfCounts(label: string, counts: readonly (number | undefined)[]): Html | null {
  const known = counts.flatMap((count, at) => (count === undefined ? [] : [{ count, at }]));
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined || first === last) return null;
  const [least, most] = [Math.min(...known.map(({ count }) => count)), Math.max(...known.map(({ count }) => count))];
  const y = (count: number): number => (most === least ? 12 : 22 - Math.round((20 * (count - least)) / (most - least)));
  const points = known.map(({ count, at }) => `${at * 4},${y(count)}`).join(' ');
  const words = `${label}: ${grouped(first.count)} ${counted(shownDays, 'day')} ago or at the first sync since, ${grouped(last.count)} now`;
  return html`<svg
    class="line"
    viewBox="0 0 ${(counts.length - 1) * 4} 24"
    preserveAspectRatio="none"
    role="img"
    aria-label="${words}"
  >
    <title>${words}</title>
    <polyline points="${points}" />
  </svg>`;
}
