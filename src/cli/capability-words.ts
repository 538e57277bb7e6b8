/** What a list of the server can do, in words. */
import { counted } from '../model/text.ts';
import type { CapabilityStatus } from '../mirror/status.ts';

/**
 * `pages of 500 (1000 were requested), sorts kept, date ranges in …`.
 * @param requested records on a page that were requested, where that is to be shown
 */
export function capabilityWords(status: CapabilityStatus, requested?: number): string {
  return [
    sizeWords(status, requested),
    `sorts ${status.sorts === 'unknown' ? 'not known' : status.sorts}`,
    rangeWords(status),
  ]
    .concat(rateWords(status))
    .join(', ');
}

export function sizeWords({ page_size: size }: CapabilityStatus, requested = size): string {
  return size < requested ? `pages of ${size} (${requested} were requested)` : `pages of ${size}`;
}

function rangeWords({ ranges, range_end: end, day_shift_minutes: shift }: CapabilityStatus): string {
  if (ranges === null) return 'no date ranges';
  const last = { inclusive: 'with', exclusive: 'without', unknown: 'perhaps with' }[end];
  const zone = shift === 'unknown' ? 'in an unknown zone' : `of ${zoneName(shift)}`;
  return `date ranges in ${ranges} ${last} their last day, days ${zone}`;
}

/** 330 → `UTC+5:30`. */
function zoneName(minutes: number): string {
  if (minutes === 0) return 'UTC';
  const hours = Math.floor(Math.abs(minutes) / 60);
  return `UTC${minutes < 0 ? '-' : '+'}${hours}:${String(Math.abs(minutes) % 60).padStart(2, '0')}`;
}

function rateWords({ rate_limit: limit }: CapabilityStatus): string[] {
  if (limit === null) return [];
  return [`${counted(limit.requests, 'request')} a window`];
}
