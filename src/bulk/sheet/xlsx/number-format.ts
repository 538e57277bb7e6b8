/**
 * What a cell's format does to its number (ECMA-376, part 1, 18.8.31). A person decides by what the spreadsheet program shows: a
 * number that is shown as another one, or not at all, must not be paid.
 */

/**
 * `number`: shown as it is stored. `formatted`: the same number in another form, such as 1,234.50 or 007. `altered`: shown as another
 * number, as a word, or not at all.
 */
type NumberKind = 'number' | 'formatted' | 'altered' | 'date' | 'percent';

export interface NumberFormat {
  readonly kindOf: (value: number) => NumberKind;
  /** Another text is shown than the one that is stored, or none. */
  readonly altersText: boolean;
}

interface Section {
  /** The codes, with each literal between ⟨ and ⟩. Without colours, currencies and blanks. */
  readonly shape: string;
  readonly isColored: boolean;
}

/** A part of a section: a text in quotes, a character after `\`, a blank as wide as one, a character that fills, or brackets. */
/** An exponent's sign belongs to its code. */
const part = /[eE][-+]|"([^"]*)"|\\(.)|_(.)|\*(.)|\[([^[\]]*)\]|[^]/gsu;
/** Characters that are shown as they are without quotes. Digits are not: only 0 is a code. */
const bareLiteral = /[-–—−‐‑﹣－+$(){}!^&'’~<>=:\u00a0\u202f 1-9€£¥]/u;

function sectionsOf(code: string): Section[] {
  const sections: Section[] = [];
  let [shape, isColored] = ['', false];
  const end = (): void => {
    sections.push({ shape, isColored });
    [shape, isColored] = ['', false];
  };
  for (const [all, quoted, escaped, blank, fill, bracketed] of code.matchAll(part)) {
    // The two signs are used here, and in no number.
    const literal = (quoted ?? escaped)?.replaceAll(/[⟨⟩]/g, '');
    if (literal !== undefined) shape += literal === '' ? '' : `⟨${literal}⟩`;
    // A blank shows nothing. Neither does what fills the cell, unless it looks like a part of the number.
    else if (fill !== undefined) shape += /[\d.,-]/.test(fill) ? `⟨${fill}⟩` : '';
    else if (blank !== undefined) continue;
    else if (bracketed !== undefined) {
      if (/^[hms]+$/i.test(bracketed)) shape += bracketed;
      // A condition: which section a value gets is not decided here, so any number may be another one.
      else if (/^[<>=]/.test(bracketed)) shape += '⟨0⟩';
      else if (!bracketed.startsWith('$')) isColored = true;
    } else if (all === ';') end();
    else shape += all.length === 1 && bareLiteral.test(all) ? `⟨${all}⟩` : all;
  }
  end();
  return sections;
}

const literals = /⟨([^⟩]*)⟩/g;
/** Words behind a number that make it a larger one. */
const multiplier = /^\s*(?:[kmtb]|mn|mio|bn|mrd|tsd|tds|thousand|million|tausend|mille)(?!\p{L})/iu;
const sign = /[-–—−‐‑﹣－(]/u;
/** From the first digit to the last: groups of three may be separated by blanks or apostrophes. */
const digits = /^[0#?,]+(?:⟨[ '’\u00a0\u202f]⟩[0#?]{3})*(?:\.[0#?]*)?$/u;

function kindOfSection({ shape, isColored }: Section, value: number, isSecond: boolean): NumberKind {
  const named = shape.replace(/general/i, '@');
  const codes = named.replaceAll(literals, '');
  const texts = Array.from(named.matchAll(literals), ([, text = '']) => text).join('');
  if (codes.includes('%')) return 'percent';
  if (/[ymdhsg]/i.test(codes)) return 'date';
  if (/[\d%‰]/.test(texts) || multiplier.test(texts)) return 'altered';
  const hasSign = sign.test(texts);
  if (isSecond ? !hasSign && !isColored : hasSign && value !== 0) return 'altered';
  // Accounts show a zero as a dash.
  if (value === 0 && hasSign) return 'formatted';
  if (codes.trim() === '@') return texts === '' ? 'number' : 'formatted';
  return showsAll(named, codes, value) ? (/^[#]*0?$/.test(named) ? 'number' : 'formatted') : 'altered';
}

/** Whether all digits of the value are shown, at their places. */
function showsAll(shape: string, codes: string, value: number): boolean {
  const first = shape.search(/[0#?]/);
  if (first === -1) return false;
  const last = Math.max(...['0', '#', '?'].map((each) => shape.lastIndexOf(each)));
  // A fraction shows the nearest one.
  if (codes.includes('/')) return Number.isInteger(value);
  const [mantissa = '', exponent] = codes.split(/e[-+]/i);
  // Only a 0 shows a zero: # leaves the cell blank.
  if (value === 0 && !mantissa.includes('0')) return false;
  const decimals = mantissa.split('.')[1]?.replaceAll(/[^0#?]/g, '').length ?? 0;
  if (exponent !== undefined) {
    const whole = mantissa.split('.')[0]?.replaceAll(/[^0#?]/g, '').length ?? 1;
    return Number(value.toExponential(Math.min(100, whole - 1 + decimals))) === value;
  }
  if (!digits.test(shape.slice(first, last + 1)) || shape.startsWith(',', last + 1)) return false;
  return decimals > 100 || Number(value.toFixed(decimals)) === value;
}

export function numberFormat(code: string): NumberFormat {
  const sections = sectionsOf(code);
  const [first = { shape: 'General', isColored: false }, second, third, fourth] = sections;
  const ofText = fourth ?? sections.findLast(({ shape }) => shape.replaceAll(literals, '').includes('@'));
  return {
    kindOf: (value) => {
      if (code.trim() === '') return 'number';
      if (value < 0 && second !== undefined) return kindOfSection(second, value, true);
      if (value === 0 && third !== undefined) return kindOfSection(third, value, false);
      return kindOfSection(first, value, false);
    },
    altersText: ofText !== undefined && ofText.shape.trim() !== '@',
  };
}

/** The formats that files use without describing them (18.8.30), with those of East Asian editions. */
const builtIn: Readonly<Record<number, string>> = {
  0: 'General',
  1: '0',
  2: '0.00',
  3: '#,##0',
  4: '#,##0.00',
  5: '#,##0_);(#,##0)',
  6: '#,##0_);(#,##0)',
  7: '#,##0.00_);(#,##0.00)',
  8: '#,##0.00_);(#,##0.00)',
  9: '0%',
  10: '0.00%',
  11: '0.00E+00',
  12: '# ?/?',
  13: '# ??/??',
  37: '#,##0_);(#,##0)',
  38: '#,##0_);(#,##0)',
  39: '#,##0.00_);(#,##0.00)',
  40: '#,##0.00_);(#,##0.00)',
  41: '_(* #,##0_);_(* (#,##0);_(* "-"_);_(@_)',
  42: '_(* #,##0_);_(* (#,##0);_(* "-"_);_(@_)',
  43: '_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)',
  44: '_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)',
  48: '##0.0E+0',
  49: '@',
};
const isDate = (id: number): boolean =>
  (id >= 14 && id <= 22) || (id >= 27 && id <= 36) || (id >= 45 && id <= 47) || (id >= 50 && id <= 58);

export function builtInFormat(id: number): NumberFormat {
  return numberFormat(isDate(id) ? 'yyyy' : (builtIn[id] ?? 'General'));
}
