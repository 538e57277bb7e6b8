// Bundles the command into dist/command/, or into the folder that is named. Node takes about a third of a millisecond to load
// a module, and `status` needs 440 of ours and of packages: from the bundle it starts three times as fast. A clone
// needs no build: its set-up makes the bundle, and while that is older than a source, src/ itself runs.
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = process.argv[2] ?? join(root, 'dist/command');
// Packages that consist of many small files. The others are loaded as they are installed.
const bundled = [
  'better-sqlite3',
  'big.js',
  'commander',
  'csv-stringify',
  'fastest-levenshtein',
  'kysely',
  'p-limit',
  'yaml',
  'yocto-queue',
  'zod',
];

/** What packages import of Node and do not need there: loading both takes 8 ms. */
const builtins = {
  name: 'builtins',
  resolveId(id, importer = '') {
    if (/^(?:node:)?process$/.test(id)) return '\0process';
    // Commander's commands that are programs of their own; there are none here.
    if (id === 'node:child_process' && importer.includes('/node_modules/commander/')) return '\0child_process';
    return undefined;
  },
  load(id) {
    if (id === '\0process') return 'export default process; export const { env, emitWarning } = process;';
    return id === '\0child_process' ? 'export default {};' : undefined;
  },
  // What is compiled lies beside this file, in the package.
  transform(code, id) {
    if (!id.endsWith('/better-sqlite3/lib/binding.js')) return undefined;
    return code.replaceAll('__dirname', "path.dirname(require.resolve('better-sqlite3'))");
  },
  // An import of a module of Node's reads everything that it gives, and so loads streams of files, for one. The functions of
  // those that take milliseconds themselves, and that few commands call, load them when they are called.
  renderChunk(code) {
    return code.replaceAll(/^import (?:(\w+)(?:, )?)?(?:\{ (.*) \})? from "node:(\S+)";$/gm, (_, all, names, from) => {
      const module = `process.getBuiltinModule("${from}")`;
      const isLate = ['crypto', 'v8', 'zlib'].includes(from);
      const parts = (names?.split(', ') ?? []).map((each) => {
        const [name, as = name] = each.split(' as ');
        const isFunction = typeof process.getBuiltinModule(from)[name] === 'function';
        const own = `${module}.${name}`;
        // A class is called with `new`.
        const late = `function (...given) { return new.target ? new (${own})(...given) : ${own}(...given); }`;
        return `${as} = ${isLate && isFunction ? late : own}`;
      });
      return `const ${[...(all === undefined ? [] : [`${all} = ${module}`]), ...parts].join(', ')};`;
    });
  },
};

rmSync(folder, { recursive: true, force: true });
await write();

async function write() {
  const bundler = await rolldown({
    cwd: root,
    input: Object.fromEntries(entries().map((file) => [basename(file, '.ts'), file])),
    platform: 'node',
    logLevel: 'silent',
    external: (id, importer = '') =>
      builtins.resolveId(id, importer) === undefined &&
      !/^[./\0]/.test(id) &&
      // What the bundler itself adds where it writes code in another way: the package has no such dependency.
      !id.startsWith('@oxc-project/runtime') &&
      !bundled.some((name) => id === name || id.startsWith(`${name}/`)),
    plugins: [builtins],
  });
  // `--version` needs no more than the main program itself.
  const alone = loadedBy('main');
  const start = new Set([...loadedBy('cli/program'), ...loadedBy('cli/status')]);
  await bundler.write({
    dir: folder,
    format: 'esm',
    chunkFileNames: '[name]-[hash].js',
    comments: false,
    // Names stay, for what a bug prints.
    minify: { compress: true, mangle: false, codegen: { removeWhitespace: false } },
    // Each import of a file is resolved anew, so what `status` needs, which must start fast, is one file.
    codeSplitting: {
      groups: [
        { name: 'alone', priority: 1, test: (id) => alone.has(id) },
        { name: 'start', test: (id) => start.has(id) },
      ],
    },
  });
  await bundler.close();
  cpSync(join(root, 'src/web/assets'), join(folder, 'assets'), { recursive: true });
  const licences = bundled.map((name) => {
    const home = join(root, 'node_modules', name);
    const file = readdirSync(home).find((each) => /^licen[cs]e/i.test(each));
    return `${name}\n\n${readFileSync(join(home, file), 'utf8')}`;
  });
  writeFileSync(join(folder, 'LICENSES.txt'), licences.join('\n----\n\n'));
}

/** The main program, and the modules that it starts threads and processes on. */
function entries() {
  const files = readdirSync(join(root, 'src'), { recursive: true }).filter((name) => name.endsWith('.ts'));
  return files.flatMap((name) => {
    const file = join('src', name);
    const text = readFileSync(join(root, file), 'utf8');
    const started = text.matchAll(/\bmoduleBeside\('([^']+)', import\.meta\.url/g);
    const beside = [...started].map(([, name]) => `./${join(dirname(file), `${name}.ts`)}`);
    return file === 'src/main.ts' ? ['./src/main.ts', ...beside] : beside;
  });
}

/** The sources that come with that one: what is imported only for its types, or later, does not count. */
function loadedBy(name) {
  const found = new Set();
  const queue = [join(root, `src/${name}.ts`)];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (found.has(file)) continue;
    found.add(file);
    const text = readFileSync(file, 'utf8');
    for (const [, names, target] of text.matchAll(/^(?:import|export) (type )?[^;]*?from '(\.[^']+)'/gms)) {
      if (names === undefined) queue.push(join(dirname(file), target));
    }
  }
  return found;
}
