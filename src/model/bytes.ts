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

const factors: Readonly<Record<string, number>> = {
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KIB: 2 ** 10,
  MIB: 2 ** 20,
  GIB: 2 ** 30,
  TIB: 2 ** 40,
};

/** `500MB`, `1.5 GB` or `512MiB` in bytes; undefined where the text is none. */
export function parseBytes(text: string): number | undefined {
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?) ?([KMGT]i?B)$/i.exec(text.trim()) ?? [];
  const factor = factors[unit.toUpperCase()];
  return factor === undefined ? undefined : Math.round(Number(number) * factor);
}
