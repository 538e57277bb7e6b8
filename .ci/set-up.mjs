// Installs the packages where they are missing or older than the lock file. Runs on any Node from 20 on, before
// anything else is there, so it is plain JavaScript without imports of ours.
import { spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

function modified(path) {
  try {
    return statSync(`${root}/${path}`).mtimeMs;
  } catch {
    return 0;
  }
}

// npm writes this file last, so it stands for a finished install.
if (modified('node_modules/.package-lock.json') < modified('package-lock.json')) {
  process.stderr.write('installing packages (npm ci) …\n');
  const install = spawnSync('npm', ['ci', '--loglevel=error', '--no-fund', '--no-audit'], {
    cwd: root,
    encoding: 'utf8',
  });
  if (install.status !== 0) {
    process.stderr.write(`${install.stdout ?? ''}${install.stderr ?? ''}${install.error?.message ?? ''}\n`);
    process.stderr.write('npm ci failed: the packages could not be installed. Is the registry reachable?\n');
    process.exit(1);
  }
}

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
