import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { codeSpansOf, documentNames, filesUnder, headingsOf, projectFolder, proseOf } from '../support/documents.ts';

/** The anchor of a heading in a link. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

const folders = ['src', 'test', 'docs', 'config', 'bench', '.ci'];
/** Made by users, and not part of a clone. */
const made = ['config/admin-mirror.yaml', 'config/reports'];
const known = new Set([...folders.flatMap(filesUnder), ...made]);

/** `src/mirror/`, `test/docs/links.test.ts`: names of tracked files and folders. */
function namesIn(path: string): string[] {
  const pattern = /^(?:src|test|docs|config|bench|\.ci)\/[\w./-]*$/;
  return codeSpansOf(path).filter((text) => pattern.test(text));
}

describe.each(documentNames)('%s', (name) => {
  test('links only to files and sections that exist', () => {
    const targets = [...proseOf(name).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
    const broken = targets.filter((target) => {
      if (/^https?:/.test(target)) return false;
      const [file = '', anchor] = target.split('#');
      const path = file === '' ? name : join(dirname(name), file);
      if (!existsSync(join(projectFolder, path))) return true;
      return anchor !== undefined && !headingsOf(path).map(anchorOf).includes(anchor);
    });
    expect(broken).toEqual([]);
  });

  test('names only files and folders that exist', () => {
    const missing = namesIn(name).filter(
      (path) => !known.has(path) && !existsSync(join(projectFolder, path.replace(/\/$/, ''))),
    );
    expect(missing).toEqual([]);
  });
});

test('each claim of the README links to its proof, and docs/proof.md has no other claims', () => {
  const linked = [...proseOf('README.md').matchAll(/\]\(docs\/proof\.md#([^)\s]+)\)/g)].map(([, anchor]) => anchor);
  const text = readFileSync(join(projectFolder, 'docs/proof.md'), 'utf8');
  const section = text.slice(text.indexOf('## The claims of the README'), text.indexOf('\n## The money'));
  const claims = [...section.matchAll(/^### (.+)$/gm)].map(([, heading = '']) => anchorOf(heading));
  expect(claims.length).toBeGreaterThan(5);
  expect(new Set(linked)).toEqual(new Set(claims));
});
