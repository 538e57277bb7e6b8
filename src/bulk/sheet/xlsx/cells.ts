/** What a cell of an .xlsx says: its type and its format decide what its value means. */
import { emptyCell, storedNumberCell, textCell } from '../cell.ts';
import type { SheetCell } from '../sheet.ts';
import { shown } from '../shown.ts';
import { dateText } from './dates.ts';
import { unescaped } from './shared-texts.ts';
import type { NumberKind } from './styles.ts';

/** As it stands in the XML; what is not there is undefined. */
export interface RawCell {
  readonly type: string | undefined;
  readonly style: string | undefined;
  value: string | undefined;
  formula: string | undefined;
  inline: string | undefined;
}

/** What cells refer to. */
export interface CellSource {
  readonly sharedTexts: readonly string[];
  readonly styles: readonly NumberKind[];
  readonly from1904: boolean;
  /** Stored values of formulas do not count. */
  readonly uncalculated: boolean;
}

const number = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?$/i;
/** What no number is longer than. */
const longestNumber = 40;

/** What a cell says of itself that cannot be, to be read after where it stands. */
export class CellFault extends Error {
  override readonly name = 'CellFault';
}

function numberCell(value: string, style: string | undefined, source: CellSource): SheetCell {
  if (value.length > longestNumber || !number.test(value)) throw new CellFault(`has the number ${shown(value)}`);
  const kind = style === undefined ? 'number' : source.styles[Number(style)];
  // It could be anything, a date too.
  if (kind === undefined) throw new CellFault(`has the format ${shown(style ?? '')}, which is not there`);
  if (kind !== 'date') return storedNumberCell(value, kind);
  return { text: dateText(value, source.from1904) ?? value, raw: value, kind };
}

/**
 * A formula whose value is not stored becomes an error that begins with `=`.
 * @throws CellFault where the cell contradicts itself, or refers to what is not there
 */
export function resolveCell(raw: RawCell, source: CellSource): SheetCell {
  const { type = 'n', value, formula } = raw;
  const damaged = (): Error => new CellFault(`is of type ${shown(type)} and has the value ${shown(value ?? '')}`);
  // An empty text is a value of a formula; nothing at all is not.
  const calculated = value !== undefined && (value !== '' || type === 'str') && !source.uncalculated;
  if (formula !== undefined && !calculated) return { text: '', raw: `=${formula}`, kind: 'error' };
  switch (type) {
    case 'n':
      return value === undefined || value.trim() === '' ? emptyCell : numberCell(value.trim(), raw.style, source);
    case 's': {
      const text = source.sharedTexts[Number(value || undefined)];
      if (text === undefined) throw damaged();
      return textCell(text);
    }
    case 'str':
      return textCell(unescaped(value ?? ''));
    case 'inlineStr':
      return textCell(raw.inline ?? '');
    case 'b':
      if (value !== '0' && value !== '1') throw damaged();
      return { text: value === '1' ? 'true' : 'false', raw: value, kind: 'boolean' };
    case 'e':
      return { text: value ?? '', raw: value ?? '', kind: 'error' };
    case 'd':
      return value === undefined || value === '' ? emptyCell : { text: value, raw: value, kind: 'date' };
    default:
      throw damaged();
  }
}
