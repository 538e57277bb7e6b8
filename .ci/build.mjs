// Compiles src/ into dist/, which is what the published package runs.
import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
rmSync(`${root}/dist`, { recursive: true, force: true });
const compiled = spawnSync(`${root}/node_modules/.bin/tsc`, ['-p', 'src/tsconfig.json'], {
  cwd: root,
  stdio: 'inherit',
});
process.exit(compiled.status ?? 1);
