/** The parts of a workbook around its sheets. */
import { escaped } from './text.ts';

export const declaration = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';
export const mainNamespace = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main';

const office = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
const packaging = 'http://schemas.openxmlformats.org/package/2006';
const typesPrefix = 'application/vnd.openxmlformats-officedocument.spreadsheetml';

export function sheetPath(number: number): string {
  return `xl/worksheets/sheet${number}.xml`;
}

/** Names of sheets have at most 31 characters, none of these, and no apostrophe at an end. */
export function sheetName(name: string, number: number): string {
  const end = number === 1 ? '' : ` (${number})`;
  const clean = name.toWellFormed().replaceAll(/[[\]:*?/\\\p{Cc}]/gu, '_');
  const whole = clean
    .slice(0, 31 - end.length)
    .toWellFormed()
    .replaceAll(/^'|'$/g, '_');
  return `${whole === '' ? 'rows' : whole}${end}`;
}

const plainFont = '<sz val="11"/><name val="Calibri"/><family val="2"/>';

/** The three looks of a cell: plain, a date with its time of day, a heading. */
const stylesPart = [
  `<styleSheet xmlns="${mainNamespace}">`,
  '<numFmts count="1"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/></numFmts>',
  `<fonts count="2"><font>${plainFont}</font><font><b/>${plainFont}</font></fonts>`,
  '<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>',
  '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>',
  '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>',
  '<cellXfs count="3"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>',
  '<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>',
  '<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/></cellXfs>',
  '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>',
].join('');

export const timeStyle = 1;
export const headingStyle = 2;

/** Every part but the sheets, by its path; for so many sheets of that name. */
export function workbookParts(name: string, sheets: number): ReadonlyMap<string, string> {
  const numbers = Array.from({ length: sheets }, (_, index) => index + 1);
  const listed = numbers.map(
    (number) => `<sheet name="${attribute(sheetName(name, number))}" sheetId="${number}" r:id="rId${number}"/>`,
  );
  const related = numbers.map((number) => relationship(`rId${number}`, 'worksheet', `worksheets/sheet${number}.xml`));
  const typed = numbers.map((number) => override(`/${sheetPath(number)}`, 'worksheet'));
  const parts: readonly (readonly [path: string, xml: string])[] = [
    [
      'xl/workbook.xml',
      `<workbook xmlns="${mainNamespace}" xmlns:r="${office}"><bookViews><workbookView/></bookViews><sheets>${listed.join('')}</sheets></workbook>`,
    ],
    [
      'xl/_rels/workbook.xml.rels',
      relationships([...related, relationship(`rId${sheets + 1}`, 'styles', 'styles.xml')]),
    ],
    ['_rels/.rels', relationships([relationship('rId1', 'officeDocument', 'xl/workbook.xml')])],
    [
      '[Content_Types].xml',
      `<Types xmlns="${packaging}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>${override('/xl/workbook.xml', 'sheet.main')}${typed.join('')}${override('/xl/styles.xml', 'styles')}</Types>`,
    ],
    ['xl/styles.xml', stylesPart],
  ];
  return new Map(parts.map(([path, xml]) => [path, `${declaration}${xml}`]));
}

function attribute(text: string): string {
  return escaped(text).replaceAll('"', '&quot;');
}

function override(path: string, type: string): string {
  return `<Override PartName="${path}" ContentType="${typesPrefix}.${type}+xml"/>`;
}

function relationship(id: string, type: string, target: string): string {
  return `<Relationship Id="${id}" Type="${office}/${type}" Target="${target}"/>`;
}

function relationships(entries: readonly string[]): string {
  return `<Relationships xmlns="${packaging}/relationships">${entries.join('')}</Relationships>`;
}
