/**
 * What a cell's format does to its number (ECMA-376, part 1, 18.8.31). A person decides by what the spreadsheet program shows: a
 * number that is shown as another one, or not at all, must not be paid. So only formats that are known to show it are accepted.
 */

/**
 * `number`: shown as it is stored. `formatted`: the same number in another form, such as 1,234.50 or 007. `altered`: shown as another
 * number, as a word, or not at all, or in a way that is not understood here.
 */
type NumberKind = 'number' | 'formatted' | 'altered' | 'date' | 'percent';

export interface NumberFormat {
  readonly kindOf: (value: number) => NumberKind;
  /** Another text is shown than the one that is stored, or none. */
  readonly altersText: boolean;
}

const literal = /"[^"]*"|\\./gs;
/** Currencies and colours. Other brackets hold a condition or a time. */
const brackets = /\[(?:\$[^\]]*|[a-z]{3,}\d*)\]/gi;
/** A blank as wide as a character, what fills the cell with blanks, and signs of currencies. */
const padding = /_.|\* |\$|\p{Sc}/gsu;
/** Words without digits that do not make the number a larger one. */
const word = /"(?!\s*(?:[kmtb]|mn|mio|bn|mrd|tsd|tds|thousand|million|tausend|mille)(?!\p{L}))[^"\d%‰()−-]*"/giu;
// Two runs of blanks side by side would be divided in every way: the second follows something else.
const digits = /^([-(]?)\s*[#0?]*(?:[,\s'’][#0?]{3})*(?:\.([0#?]*))?(?:(?<!\s)\s+)?\)?$/;

/** The codes of a section that make the number, with its sign. */
function shapeOf(section: string): string {
  return section
    .replaceAll(brackets, '')
    .replaceAll(/\\([\s\p{Sc}()'-])/gu, '$1')
    .replaceAll(/"([-()])"/g, '$1')
    .replaceAll(word, ' ')
    .replaceAll(padding, ' ')
    .replace(/general/i, '@')
    .trim();
}

function kindOfSection(section: string, value: number, isNegative: boolean): NumberKind {
  const codes = section.replaceAll(literal, '').replaceAll(brackets, '');
  if (codes.includes('%')) return 'percent';
  if (/[ymdhsg]/i.test(codes.replace(/general/i, ''))) return 'date';
  const shape = shapeOf(section);
  if (shape === '@') return section === '@' || /^general$/i.test(section) ? 'number' : 'formatted';
  // Accounts show a zero as a dash.
  if (value === 0 && /^-\??\??$/.test(shape)) return 'formatted';
  const [, sign = '', decimals = ''] = digits.exec(shape) ?? [undefined, '!'];
  // A loss must look like one: by its sign, or in a colour.
  const isSigned = isNegative ? sign !== '' || /\[[a-z]{3,}\d*\]/i.test(section) : sign === '';
  const isShown = value === 0 ? shape.includes('0') : /[#0?]/.test(shape);
  if (sign === '!' || !isSigned || !isShown || Number(value.toFixed(decimals.length)) !== value) return 'altered';
  return /^#*0?$/.test(section) ? 'number' : 'formatted';
}

export function numberFormat(code: string): NumberFormat {
  const sections = code.split(/;(?=(?:[^"]*"[^"]*")*[^"]*$)/);
  const [first = '', second, third, fourth] = sections;
  const ofText = fourth ?? sections.findLast((each) => each.replaceAll(literal, '').includes('@'));
  return {
    kindOf: (value) => {
      if (code.trim() === '') return 'number';
      if (value < 0 && second !== undefined) return kindOfSection(second, value, true);
      return kindOfSection(value === 0 ? (third ?? first) : first, value, false);
    },
    altersText: ofText !== undefined && ofText.replaceAll(/_./g, '').trim() !== '@',
  };
}

/** The formats that files use without describing them (18.8.30), by their ids, with the dates of East Asian editions. */
const builtIn: readonly (readonly [isId: (id: number) => boolean, code: string])[] = [
  [(id) => id === 1, '0'],
  [(id) => id === 2, '0.00'],
  [(id) => id === 3, '#,##0'],
  [(id) => id === 4, '#,##0.00'],
  [(id) => [5, 6, 37, 38, 41, 42].includes(id), '#,##0;(#,##0)'],
  [(id) => [7, 8, 39, 40, 43, 44].includes(id), '#,##0.00;(#,##0.00)'],
  [(id) => id === 9 || id === 10, '0%'],
  // In scientific notation, and as a fraction.
  [(id) => [11, 12, 13, 48].includes(id), '0E+0'],
  [(id) => (id >= 14 && id <= 22) || (id >= 27 && id <= 36) || (id >= 45 && id <= 47), 'yyyy'],
  [(id) => id >= 50 && id <= 58, 'yyyy'],
  [(id) => id === 49, '@'],
];

export function builtInFormat(id: number): NumberFormat {
  return numberFormat(builtIn.find(([isId]) => isId(id))?.[1] ?? 'General');
}
