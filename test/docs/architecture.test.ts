import { describe, expect, test } from 'vitest';
import { documentNames, filesUnder, headingsOf, sectionOf, textOf } from '../support/documents.ts';

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

/** `// proves: paid-once` on the line before a test: the name, and where it stands. */
interface Mark {
  readonly name: string;
  readonly place: string;
  /** The first line of what it marks. */
  readonly marked: string;
}

const marks = filesUnder('test')
  .filter((path) => path.endsWith('.ts') && !path.startsWith('test/docs/'))
  .flatMap((path): Mark[] => {
    const lines = textOf(path).split('\n');
    return lines.flatMap((line, at) => {
      const [, name] = /^\s*\/\/ proves: ([\w-]+)$/.exec(line) ?? [];
      if (name === undefined) return [];
      const marked = lines.slice(at + 1).find((each) => !each.includes('// proves: ')) ?? '';
      return [{ name, place: `${path}:${at + 1}`, marked: marked.trim() }];
    });
  });

const namesIn = (path: string, heading: string): string[] =>
  [...sectionOf(path, heading).matchAll(/^\| `([\w-]+)` \||\| `([\w-]+)` \|$/gm)].map(([, first, last]) =>
    String(first ?? last),
  );

describe('what must hold, and the threats', () => {
  const musts = namesIn('docs/architecture.md', 'The musts');
  const threats = namesIn('SECURITY.md', 'Threats');
  const rows = sectionOf('SECURITY.md', 'Threats').match(/^\| (?!threat|---).*$/gm) ?? [];

  test('each have exactly one test, and each mark is of one of them', () => {
    expect(musts.length).toBeGreaterThan(40);
    expect(musts.length).toBeLessThanOrEqual(60);
    expect(threats).toHaveLength(rows.length);
    expect(marks.map(({ name }) => name).sort()).toEqual([...new Set([...musts, ...threats])].sort());
  });

  test('are marked at a test', () => {
    expect(marks.filter(({ marked }) => !/^(?:test|describe)\b/.test(marked))).toEqual([]);
  });

  test('are named in docs/proof.md as they are', () => {
    const section = sectionOf('docs/proof.md', 'The claims of the README');
    const named = [...section.matchAll(/^Musts: (.+)$/gm)].flatMap(([, names = '']) => names.match(/[\w-]+/g) ?? []);
    expect(named.length).toBeGreaterThan(15);
    expect(named.filter((name) => !musts.includes(name))).toEqual([]);
  });
});
