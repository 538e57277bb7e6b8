/**
 * What a cell's format does to its number (ECMA-376, part 1, 18.8.31). A person decides by what the spreadsheet program shows: a
 * number that is shown as another one, or not at all, must not be paid.
 */

/**
 * `number`: shown as it is stored. `formatted`: the same number in another form, such as 1,234.50 or 007. `altered`: shown as another
 * number, as a word, or not at all.
 */
export type NumberKind = 'number' | 'formatted' | 'altered' | 'date' | 'percent';

export interface NumberFormat {
  readonly kindOf: (value: number) => NumberKind;
  /** Nothing is shown of a text. */
  readonly hidesText: boolean;
}

interface Section {
  /** Without literals, colours and currencies. */
  readonly codes: string;
  readonly literals: string;
  readonly isColored: boolean;
}

/** A part of a section: a text in quotes, a character after `\`, a blank as wide as one, a character that fills, or brackets. */
const part = /"([^"]*)"|\\(.)|_(.)|\*(.)|\[([^[\]]*)\]|[^]/gsu;

function sectionsOf(code: string): Section[] {
  const sections: Section[] = [];
  let [codes, literals, isColored] = ['', '', false];
  const end = (): void => {
    sections.push({ codes: codes.trim(), literals, isColored });
    [codes, literals, isColored] = ['', '', false];
  };
  for (const [all, quoted, escaped, blank, fill, bracketed] of code.matchAll(part)) {
    if (quoted !== undefined || escaped !== undefined) literals += quoted ?? escaped;
    else if (blank !== undefined || fill !== undefined) continue;
    else if (bracketed !== undefined) {
      if (/^[hms]+$/i.test(bracketed)) codes += bracketed;
      // A condition: which section a value gets is not decided here, so any number may be another one.
      else if (/^[<>=]/.test(bracketed)) literals += '0';
      else if (bracketed.startsWith('$')) literals += bracketed.slice(1).replace(/-[^-]*$/, '');
      else isColored = true;
    } else if (all === ';') end();
    else codes += all;
  }
  end();
  return sections;
}

/** Words behind a number that make it a larger one. */
const multiplier = /^\s*(?:k|m|mn|mio|bn|mrd|tsd|thousand|million)\b/i;
/** A comma behind the last digit shows the number in thousands. */
const scaled = /[0#?],+(?![0#?,])/;

function kindOfSection({ codes, literals, isColored }: Section, value: number, isNegativeSection: boolean): NumberKind {
  const rest = codes.replace(/general/i, '0');
  if (rest.includes('%')) return 'percent';
  if (/[ymdhsg]/i.test(rest)) return 'date';
  if (!/[0#?@]/.test(rest) || /\d/.test(literals) || multiplier.test(literals) || scaled.test(rest)) return 'altered';
  const hasSign = /[-(]/.test(rest.replace(/e-/gi, '') + literals);
  if (isNegativeSection ? !hasSign && !isColored : hasSign && value >= 0) return 'altered';
  return literals === '' && /^(?:0|#|@|#0)$/.test(rest) ? 'number' : 'formatted';
}

export function numberFormat(code: string): NumberFormat {
  const sections = sectionsOf(code);
  const [first = { codes: 'General', literals: '', isColored: false }, second, third, fourth] = sections;
  return {
    kindOf: (value) => {
      if (code.trim() === '') return 'number';
      if (value < 0 && second !== undefined) return kindOfSection(second, value, true);
      if (value === 0 && third !== undefined) return kindOfSection(third, value, false);
      return kindOfSection(first, value, false);
    },
    hidesText: fourth !== undefined && !fourth.codes.includes('@'),
  };
}

/** The formats that files use without describing them (18.8.30), with those of East Asian editions. */
const dates = new Set([14, 15, 16, 17, 18, 19, 20, 21, 22, 45, 46, 47]);
const isEastAsianDate = (id: number): boolean => (id >= 27 && id <= 36) || (id >= 50 && id <= 58);

export function builtInFormat(id: number): NumberFormat {
  const isDate = dates.has(id) || isEastAsianDate(id);
  const kind = isDate ? 'date' : id === 9 || id === 10 ? 'percent' : [0, 1, 49].includes(id) ? 'number' : 'formatted';
  return { kindOf: () => kind, hidesText: false };
}
