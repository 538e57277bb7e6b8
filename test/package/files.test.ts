// @module-tag full
/** What `npm pack` puts into the package: tracked files, each by its name. */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { projectFolder } from '../support/documents.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** What the package is made of. Only `dist` is built, from nothing. */
const parts = ['package.json', 'LICENSE', 'README.md', 'CHANGELOG.md', 'SECURITY.md', 'src/admin-mirror.js'];
const folders = ['config', 'docs', 'reports'];

function packedFrom(folder: string): string[] {
  const packed = spawnSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: folder,
    encoding: 'utf8',
  });
  const packages = JSON.parse(packed.stdout) as Record<
    string,
    { readonly files: readonly { readonly path: string }[] }
  >;
  const paths = Object.values(packages).flatMap(({ files }) => files.map(({ path }) => path));
  return paths.filter((path) => !path.startsWith('dist/'));
}

function trackedFiles(): string[] {
  const { stdout } = spawnSync('git', ['ls-files', '-z', ...parts, ...folders], {
    cwd: projectFolder,
    encoding: 'utf8',
  });
  return stdout.split('\0').filter((path) => path !== '');
}

// proves: package-files
test('the package has the tracked files of its folders, and nothing that lies beside them', () => {
  const folder = temporaryFolder();
  for (const name of [...parts, ...folders]) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    cpSync(join(projectFolder, name), join(folder, name), { recursive: true });
  }
  const clean = packedFrom(folder);
  const own = `.env config/.env config/admin-mirror.yaml config/reports/x.sql config/deploy/docker/.env key secrets/key
    config/admin-mirror.example.yaml.old config/deploy/systemd/key data/mirror.db docs/private/plan.txt docs/notes.txt
    reports/mine.sql src/key.txt`.split(/\s+/);
  for (const name of own) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), 'private\n');
  }
  const packed = packedFrom(folder);
  expect(packed.length).toBeGreaterThan(50);
  expect(packed).toEqual(clean);
  expect(packed.filter((path) => !existsSync(join(projectFolder, path)))).toEqual([]);
  expect(packed.filter((path) => own.includes(path))).toEqual([]);
});

test.skipIf(!existsSync(join(projectFolder, '.git')))('each of them is tracked, and none is left out', () => {
  expect(packedFrom(projectFolder).toSorted()).toEqual(trackedFiles().toSorted());
});
