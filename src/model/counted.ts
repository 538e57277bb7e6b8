/** Numbers of things in words for people. */

/** `1 window`, `2 windows`, `1,234 rows`. @param many where it is not the one with an s */
export function counted(count: number | bigint, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${Number(count) === 1 ? one : many}`;
}
