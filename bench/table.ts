/** The bench's results as a table, on the terminal and as bench/results.md. */

export interface Row {
  readonly what: string;
  readonly floor: string;
  readonly ours: string;
  readonly ratio: string;
  readonly goal: string;
  readonly met: boolean;
}

/** A markdown table, one line for each row. */
export function markdownTable(rows: readonly Row[]): string {
  const lines = rows.map(
    ({ what, floor, ours, ratio, goal, met }) =>
      `| ${what} | ${floor} | ${ours} | ${ratio} | ${goal} | ${met ? 'yes' : '**no**'} |`,
  );
  return ['| what | floor | ours | ratio | goal | met |', '|---|---|---|---|---|---|', ...lines].join('\n');
}
