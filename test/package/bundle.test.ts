import { copyFileSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { spawnSync } from 'node:child_process';
import { projectFolder } from '../support/documents.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

describe('the command of a clone', () => {
  let folder = '';

  /** The file says which one it is; `second` is when it was last changed. */
  function write(path: string, second: number): void {
    const file = join(folder, path);
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, `export async function main() { console.log(${JSON.stringify(path)}); }\n`);
    utimesSync(file, second, second);
  }

  function run(): string {
    const { stdout, stderr } = spawnSync(process.execPath, ['src/admin-mirror.js', 'status'], {
      cwd: folder,
      encoding: 'utf8',
      env: { HOME: folder },
    });
    expect(stderr).toBe('');
    return stdout.trim();
  }

  beforeEach(() => {
    folder = temporaryFolder();
    write('src/main.ts', 1_000);
    write('src/cli/status.ts', 1_000);
    write('dist/command/main.js', 2_000);
    writeFileSync(join(folder, 'dist/command/sources.json'), JSON.stringify(['main.ts', 'cli/status.ts']));
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    copyFileSync(join(projectFolder, 'src/admin-mirror.js'), join(folder, 'src/admin-mirror.js'));
  });

  test('is the bundle, as long as no source of it was changed', () => {
    expect(run()).toBe('dist/command/main.js');
  });

  test('is the sources where one is newer, where one is gone, and where there is no bundle', () => {
    write('src/cli/status.ts', 3_000);
    expect(run()).toBe('src/main.ts');
    rmSync(join(folder, 'src/cli/status.ts'));
    expect(run()).toBe('src/main.ts');
    rmSync(join(folder, 'dist'), { recursive: true });
    expect(run()).toBe('src/main.ts');
  });
});
