/** Sizes of files in words: 1 KB is 1,000 bytes, as disks are sold. */

const units = ['bytes', 'KB', 'MB', 'GB', 'TB'] as const;

/** `980 bytes`, `1.2 GB`, `340 MB`. */
export function bytesText(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${unit === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} ${units[unit] ?? ''}`;
}
