/** Which cells are formatted as dates or percentages: their numbers are not what people see. */
import type { Archive } from './archive.ts';

export type NumberKind = 'number' | 'date' | 'percent';

// The formats that need no description (ECMA-376, part 1, 18.8.30), with those of East Asian editions.
const numbersFrom = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);
const builtIn = new Map<number, NumberKind>([
  ...[...numbersFrom(14, 22), ...numbersFrom(27, 36), ...numbersFrom(45, 47), ...numbersFrom(50, 58)].map(
    (id) => [id, 'date'] as const,
  ),
  [9, 'percent'],
  [10, 'percent'],
]);

/** What a format makes of a number, such as `dd/mm/yyyy`, `0.00%` or `#,##0.00 "dollars"`. */
export function kindOfFormat(code: string): NumberKind {
  // Texts in quotes, single characters after \ _ or *, and colours, currencies and conditions in brackets are not codes;
  // hours, minutes and seconds in brackets are.
  const codes = code
    .replace(/"[^"]*"|[\\_*]./gs, '')
    .replace(/\[(?!h+\]|m+\]|s+\])[^\]]*\]/gi, '')
    .replace(/general/gi, '');
  if (codes.includes('%')) return 'percent';
  return /[ymdhsg]/i.test(codes) ? 'date' : 'number';
}

/** The kind of number by the index that cells have in `s`. */
export async function readStyles(archive: Archive, part: string): Promise<readonly NumberKind[]> {
  const kinds: NumberKind[] = [];
  const own = new Map<number, NumberKind>();
  let inCellFormats = false;
  await archive.scan(part, {
    open: (tag, attributes) => {
      if (tag === 'numFmt') {
        const { numFmtId: id, formatCode: code } = attributes();
        if (id !== undefined && code !== undefined) own.set(Number(id), kindOfFormat(code));
      } else if (tag === 'cellXfs') inCellFormats = true;
      else if (tag === 'xf' && inCellFormats) {
        const id = Number(attributes()['numFmtId'] ?? 0);
        kinds.push(own.get(id) ?? builtIn.get(id) ?? 'number');
      }
    },
    close: (tag) => {
      if (tag === 'cellXfs') inCellFormats = false;
    },
  });
  return kinds;
}
