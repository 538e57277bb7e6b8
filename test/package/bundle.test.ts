import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { commandFile } from '../support/command-file.ts';
import { textOf } from '../support/documents.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { caFile } from '../support/tls.ts';

const folder = join(dirname(commandFile), '../dist/command');

test('`status` starts fast: its file imports no package', () => {
  const [start = ''] = readdirSync(folder).filter((name) => /^start-.*\.js$/.test(name));
  const text = readFileSync(join(folder, start), 'utf8');
  expect([...text.matchAll(/^import .*"([^."][^"]*)";$/gm)].map(([, target]) => target)).toEqual([]);
});

test('Node classes that are loaded late work as in the sources', () => {
  const bad = join(temporaryFolder(), 'bad.pem');
  writeFileSync(bad, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  const said = (certificates: string): string => {
    const env = {
      ADMIN_MIRROR_BASE_URL: 'http://127.0.0.1:9',
      ADMIN_MIRROR_API_KEY: 'key',
      ADMIN_MIRROR_CA_FILE: certificates,
    };
    return spawnSync(process.execPath, [commandFile, 'users', 'get', '1'], { env, encoding: 'utf8' }).stderr;
  };
  expect(said(caFile)).toMatch(/^(?![^]*certificates)[^]*127\.0\.0\.1:9/);
  expect(said(bad)).toMatch(/the certificates in .*bad\.pem cannot be read/);
});

test('the bundle imports only built-in modules and dependencies of the package', () => {
  const { dependencies } = JSON.parse(textOf('package.json')) as { readonly dependencies: Record<string, string> };
  const imported = readdirSync(folder)
    .filter((name) => name.endsWith('.js'))
    .flatMap((name) => {
      const text = readFileSync(join(folder, name), 'utf8');
      const named = text.matchAll(/^(?:import|export)\b[^;'"]*["']([^."'][^"']*)["'];?$/gm);
      const later = text.matchAll(/\bimport\(["']([^."'][^"']*)["']\)/g);
      return [...named, ...later].map(([, target = '']) => target);
    });
  const packages = new Set(
    imported.filter((name) => !isBuiltin(name)).map((name) => /^(?:@[^/]+\/)?[^/]+/.exec(name)?.[0]),
  );
  expect(packages.has('fastify')).toBe(true);
  expect([...packages].filter((name) => name === undefined || !(name in dependencies))).toEqual([]);
});
