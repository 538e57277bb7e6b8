/**
 * The command that tests start as a process: the bundle of the package, which costs less than half of a process of the
 * sources. It is rebuilt before the tests if the sources are newer.
 */
import { spawnSync } from 'node:child_process';
import * as files from 'node:fs';
import { basename, join } from 'node:path';
import { newestSource } from '../../.ci/newest-source.mjs';
import { projectFolder } from './documents.ts';

const { cpSync, mkdirSync, renameSync, rmSync, statSync, symlinkSync, utimesSync } = files;

/** The command of a clone. It runs the sources, or the bundle of its set-up if that is newer than all of them. */
export const sourceCommandFile = join(projectFolder, 'src/admin-mirror.js');

// Always the same path, since Node caches compiled code by path; and not in node_modules, because a command there takes
// itself for an installed one and says so.
export const commandFolder = join(projectFolder, 'test/.command');
export const commandFile = join(commandFolder, 'src/admin-mirror.js');

/** Vitest calls it once before all tests. */
export function setup(): void {
  const made = statSync(commandFile, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (newestSource(files, join(projectFolder, '/')) < made) return;
  const begun = new Date();
  rmSync(commandFolder, { recursive: true, force: true });
  mkdirSync(join(commandFolder, 'src'), { recursive: true });
  for (const name of ['package.json', 'config', 'reports'])
    symlinkSync(join(projectFolder, name), join(commandFolder, name));
  const { status, stderr } = spawnSync(process.execPath, ['.ci/bundle.mjs', join(commandFolder, 'dist/command')], {
    cwd: projectFolder,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`the command could not be bundled:\n${stderr}`);
  // Last, so that its existence means a finished bundle of these sources.
  cpSync(sourceCommandFile, commandFile);
  utimesSync(commandFile, begun, begun);
}

/**
 * Bundles a program of the tests into one file, for a test that starts it dozens of times: each start then costs a
 * third.
 */
export async function bundleOf(source: string): Promise<string> {
  const { rolldown } = await import('rolldown');
  const bundle = join(commandFolder, basename(source).replace(/ts$/, 'js'));
  const bundler = await rolldown({ input: source, platform: 'node', logLevel: 'silent', external: ['better-sqlite3'] });
  const making = `${bundle}-${process.pid}`;
  await bundler.write({ file: making, format: 'esm' });
  await bundler.close();
  renameSync(making, bundle);
  return bundle;
}
