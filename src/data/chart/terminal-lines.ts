/** A line through points, in box-drawing characters. */

/** Both between 0 and 1, from the lower left; a point without `y` is a gap. */
export interface PlotPoint {
  readonly x: number;
  readonly y: number | null;
}

/** The rows of the plot from above, each of so many columns. The points come in the order of x. */
export function plotLines(points: readonly PlotPoint[], columns: number, rows: number): string[] {
  const heights = heightsOf(points, columns).map((y) => (y === null ? null : Math.round((1 - y) * (rows - 1))));
  const cells = Array.from({ length: rows }, () => Array.from({ length: columns }, () => ' '));
  const put = (row: number, column: number, sign: string): void => {
    const line = cells[row];
    if (line !== undefined) line[column] = sign;
  };
  for (const [column, row] of heights.entries()) {
    if (row === null) continue;
    const before = column === 0 ? null : (heights[column - 1] ?? null);
    if (before === null || before === row) {
      put(row, column, '─');
      continue;
    }
    const falls = row > before;
    put(before, column, falls ? '╮' : '╯');
    put(row, column, falls ? '╰' : '╭');
    for (let between = Math.min(row, before) + 1; between < Math.max(row, before); between += 1) {
      put(between, column, '│');
    }
  }
  return cells.map((line) => line.join(''));
}

/** For each column the mean of the points in it, else what lies on the way between its neighbours; null within a gap. */
function heightsOf(points: readonly PlotPoint[], columns: number): (number | null)[] {
  const found = Array.from({ length: columns }, () => ({ sum: 0, count: 0, isGap: false }));
  for (const { x, y } of points) {
    const cell = found[Math.round(x * (columns - 1))];
    if (cell === undefined) continue;
    if (y === null) cell.isGap = true;
    else Object.assign(cell, { sum: cell.sum + y, count: cell.count + 1 });
  }
  const known = found.map(({ sum, count }) => (count === 0 ? null : sum / count));
  let before = -1;
  const heights = [...known];
  for (const [column, y] of known.entries()) {
    if (y === null) continue;
    const start = known[before] ?? null;
    if (start !== null && !found.slice(before + 1, column).some(({ isGap }) => isGap)) {
      for (let between = before + 1; between < column; between += 1) {
        heights[between] = start + ((y - start) * (between - before)) / (column - before);
      }
    }
    before = column;
  }
  return heights;
}
