/** Reads a cell of an .xlsx: its type, its format and the table of shared texts decide what its value means. */
import { emptyCell, shown, storedNumberCell, textCell } from '../rows.ts';
import type { SheetCell } from '../sheet.ts';
import { type Archive, XmlFault } from './archive.ts';
import { Budget, limits } from '../limits.ts';
import { builtInFormat, type NumberFormat, numberFormat } from './number-format.ts';

/** A cell as in the XML. What is missing is undefined. */
export interface RawCell {
  readonly type: string | undefined;
  readonly style: string | undefined;
  value: string | undefined;
  formula: string | undefined;
  inline: string | undefined;
}

export interface CellSource {
  readonly sharedTexts: readonly string[];
  readonly styles: readonly NumberFormat[];
  /** The stored values of formulas are outdated and must not be used. */
  readonly uncalculated: boolean;
}

const number = /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?$/i;
const longestNumber = 40;

/** A contradiction in a cell. The message follows the place of the cell. */
export class CellFault extends Error {
  override readonly name = 'CellFault';
}

function numberCell(value: string, style: string | undefined, source: CellSource): SheetCell {
  if (value.length > longestNumber || !number.test(value)) throw new CellFault(`has the number ${shown(value)}`);
  const kind = style === undefined ? 'number' : source.styles[Number(style)]?.kindOf(Number(value));
  // A number without a known format could be anything, even a date.
  if (kind === undefined) throw new CellFault(`has the format ${shown(style ?? '')}, which is not there`);
  // No column takes a date, so its number will do.
  return kind === 'date' ? { text: value, raw: value, kind } : storedNumberCell(value, kind);
}

function formattedText(text: string, style: string | undefined, { styles }: CellSource): SheetCell {
  const cell = textCell(text);
  const isAltered = style !== undefined && styles[Number(style)]?.altersText === true;
  return isAltered && cell.kind === 'text' ? { ...cell, kind: 'altered' } : cell;
}

/** Throws a CellFault if the cell contradicts itself, or refers to something that does not exist. */
export function resolveCell(raw: RawCell, source: CellSource): SheetCell {
  const { type = 'n', value, formula } = raw;
  const damaged = (): Error => new CellFault(`is of type ${shown(type)} and has the value ${shown(value ?? '')}`);
  // An empty text counts as the value of a formula. A missing value does not.
  const calculated = value !== undefined && (value !== '' || type === 'str') && !source.uncalculated;
  if (formula !== undefined && !calculated) return { text: '', raw: `=${formula}`, kind: 'error' };
  switch (type) {
    case 'n':
      return value === undefined || value.trim() === '' ? emptyCell : numberCell(value.trim(), raw.style, source);
    case 's': {
      if (value === undefined || value === '') return emptyCell;
      const text = source.sharedTexts[Number(value)];
      if (text === undefined) throw damaged();
      return formattedText(text, raw.style, source);
    }
    case 'str':
      return formattedText(unescaped(value ?? ''), raw.style, source);
    case 'inlineStr':
      return formattedText(raw.inline ?? '', raw.style, source);
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

/** The formats of cells. A cell's attribute `s` is an index of this list. */
export async function readStyles(archive: Archive, part: string): Promise<readonly NumberFormat[]> {
  const formats: NumberFormat[] = [];
  const own = new Map<number, NumberFormat>();
  let inCellFormats = false;
  await archive.scan(part, {
    open: (tag, attributes) => {
      if (tag === 'numFmt') {
        const { numFmtId: id, formatCode: code } = attributes();
        if (id !== undefined && code !== undefined) own.set(Number(id), numberFormat(code));
      } else if (tag === 'cellXfs') inCellFormats = true;
      else if (tag === 'xf' && inCellFormats) {
        const id = Number(attributes()['numFmtId'] ?? 0);
        formats.push(own.get(id) ?? builtInFormat(id));
      }
    },
    close: (tag) => {
      if (tag === 'cellXfs') inCellFormats = false;
    },
  });
  return formats;
}

/** Resolves escapes. Characters that XML cannot hold are written as `_x000D_`; in a text that looks like this, the `_` is escaped so. */
export function unescaped(text: string): string {
  if (!text.includes('_x')) return text;
  return text.replace(/_x([0-9a-f]{4})_/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** Appends to the text of a cell. Throws an XmlFault if it becomes longer than a cell can be. */
export function extended(text: string, more: string): string {
  if (text.length + more.length > limits.cellCharacters) {
    throw new XmlFault(`has a cell with more than ${limits.cellCharacters} characters`);
  }
  return text + more;
}

/** Collects the text of an item: all its runs, without the phonetic readings (`rPh`) above Asian text. */
export class TextRuns {
  #text = '';
  #reading = false;
  #taking = false;

  open(tag: string): void {
    if (tag === 'rPh') this.#reading = true;
    if (tag === 't') this.#taking = !this.#reading;
  }

  close(tag: string): void {
    if (tag === 'rPh') this.#reading = false;
    if (tag === 't') this.#taking = false;
  }

  add(text: string): void {
    if (this.#taking) this.#text = extended(this.#text, text);
  }

  end(): string {
    return unescaped(this.#text);
  }
}

/** Throws a UsageError if there is more text than a sheet can need. */
export async function readSharedTexts(archive: Archive, part: string): Promise<readonly string[]> {
  const texts: string[] = [];
  const budget = new Budget(archive.file);
  let runs: TextRuns | undefined;
  const end = (text: string): void => {
    budget.spendText(text, null);
    budget.spendRow(0, 1);
    texts.push(text);
  };
  await archive.scan(
    part,
    {
      open: (tag) => {
        if (tag === 'si') runs = new TextRuns();
        else runs?.open(tag);
      },
      close: (tag) => {
        if (tag === 'si') end(runs?.end() ?? '');
        else runs?.close(tag);
      },
      text: (text) => runs?.add(text),
    },
    'large',
  );
  return texts;
}
