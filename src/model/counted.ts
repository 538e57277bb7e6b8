/** Numbers of things in words for people. */

/** `1,234,567`. `Intl` would do the same, and takes 12 ms to load its tables. */
export function grouped(count: number | bigint): string {
  return String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

/** `1 window`, `2 windows`, `1,234 rows`. @param many where it is not the one with an s */
export function counted(count: number | bigint, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${Number(count) === 1 ? one : many}`;
}
