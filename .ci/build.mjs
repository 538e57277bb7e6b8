// Makes dist/ for the published package: the library with its types, and the bundle of the command.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
rmSync(`${root}/dist`, { recursive: true, force: true });
const compiled = spawnSync(`${root}/node_modules/.bin/tsc`, ['-p', 'src/tsconfig.json'], {
  cwd: root,
  stdio: 'inherit',
});
if (compiled.status !== 0) process.exit(compiled.status ?? 1);
await import('./bundle.mjs');
