import { describe, expect, test } from 'vitest';
import {
  documentNames,
  filesUnder,
  headingsOf,
  sectionOf,
  tableRows,
  testsNamedIn,
  textOf,
} from '../support/documents.ts';

/** The words of a file in one line, without comment marks and line breaks. */
function wordsOf(path: string): string {
  return textOf(path)
    .replaceAll(/\n\s*(?:\*|\/\/)?\s*/g, ' ')
    .replaceAll(/\s+/g, ' ');
}

const sources = [...['src', 'test', 'bench'].flatMap(filesUnder), '.oxlintrc.json'].filter((path) =>
  /\.(ts|js|json)$/.test(path),
);

interface Mention {
  readonly source: string;
  readonly document: string;
  readonly section: string;
}

/** `Section "Requests" of docs/architecture.md`, `docs/architecture.md, "The musts"`, `(docs/architecture.md, The house)`. */
function mentionsIn(source: string): Mention[] {
  const words = wordsOf(source);
  const document = String.raw`(docs/[\w-]+\.md|README\.md)`;
  return [
    ...[...words.matchAll(new RegExp(String.raw`[Ss]ection "([^"]+)" of ${document}`, 'g'))].map(
      ([, section = '', name = '']) => ({ source, document: name, section }),
    ),
    ...[...words.matchAll(new RegExp(String.raw`${document}, "([^"]+)"`, 'g'))].map(([, name = '', section = '']) => ({
      source,
      document: name,
      section,
    })),
    ...[...words.matchAll(new RegExp(String.raw`\(${document}, ([A-Z][^)"]*)\)`, 'g'))].map(
      ([, name = '', section = '']) => ({ source, document: name, section }),
    ),
  ];
}

describe('sections that the code refers to', () => {
  // The examples in this file are not references.
  const mentions = sources.filter((path) => !path.startsWith('test/docs/')).flatMap(mentionsIn);

  test('are found in the code', () => {
    expect(mentions.length).toBeGreaterThan(15);
    expect(mentions.map(({ source }) => source)).toContain('.oxlintrc.json');
  });

  test('exist', () => {
    const missing = mentions.filter(
      ({ document, section }) => !documentNames.includes(document) || !headingsOf(document).includes(section),
    );
    expect(missing).toEqual([]);
  });

  test('are in documents that exist', () => {
    const named = sources.flatMap((path) => textOf(path).match(/\bdocs\/[\w-]+\.md\b/g) ?? []);
    expect([...new Set(named)].filter((name) => !documentNames.includes(name))).toEqual([]);
  });
});

describe('the musts', () => {
  const items = sectionOf('docs/architecture.md', 'The musts')
    .split(/^\d+\. /m)
    .slice(1)
    .map((item) => item.replaceAll(/\s+/g, ' '));

  test('are found', () => {
    expect(items.length).toBeGreaterThan(10);
  });

  test.each(items)('%s', (item) => {
    const { named, missing } = testsNamedIn(item);
    expect(named, 'names a test').toBeGreaterThan(0);
    expect(missing).toEqual([]);
  });
});

describe('each threat of SECURITY.md', () => {
  const rows = sectionOf('SECURITY.md', 'Threats')
    .split('\n')
    .filter((line) => line.startsWith('| ') && !/^\| (?:threat|---)/.test(line));

  test('is found in the table', () => {
    expect(rows.length).toBeGreaterThan(15);
  });

  test.each(rows)('names its test: %s', (row) => {
    const { named, missing } = testsNamedIn(row);
    expect(named).toBeGreaterThan(0);
    expect(missing).toEqual([]);
  });
});

test('the glossary has at most twenty entries', () => {
  expect(tableRows(sectionOf('docs/architecture.md', 'Words')).length).toBeLessThanOrEqual(20);
});
