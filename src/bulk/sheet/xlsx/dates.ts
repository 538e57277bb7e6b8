/** Dates of spreadsheets: days since a day, with the time of day as the fraction. */

const dayMilliseconds = 86_400_000;
/** 29 February 1900, which was none but is counted. */
const phantomDay = 60;

/** `2026-03-11`, `2026-03-11 14:30:00`, or `14:30:00` where there are no days; undefined where it is no date. */
export function dateText(serial: string, from1904: boolean): string | undefined {
  const days = Number(serial);
  // 31 December 9999 is the last day that spreadsheet programs know.
  if (!(days >= 0 && days < 2_958_466)) return undefined;
  const first = from1904 ? Date.UTC(1904, 0, 1) : Date.UTC(1899, 11, days < phantomDay ? 31 : 30);
  // To the second: the fraction of a day is not exact.
  const instant = new Date(first + Math.round((days * dayMilliseconds) / 1000) * 1000).toISOString();
  const date = instant.slice(0, 10);
  const time = instant.slice(11, 19);
  if (days < 1) return time;
  return time === '00:00:00' ? date : `${date} ${time}`;
}
