/** docs/sandbox.md, generated from the sandbox's own tables of switches and presets. */
import { chaosMeanings, chaosNames, type Switch, switches } from '../../src/sandbox/behaviour.ts';

const head = `# The sandbox

The whole Administration API on this machine, with seed data: every path, field, filter, sort, range and rule of
[api.md](api.md), behind real HTTP on 127.0.0.1. The demo and the tests use it, and so can you.

\`\`\`sh
npx admin-mirror sandbox --port 8123 --key try-me --users 5000 --seed 7
\`\`\`

The same seed makes the same data; a million users are possible. With \`--file\` the data outlives the sandbox. It ends
with Ctrl+C. Programs start it with \`--json\` and read one line: its address, key and process.

## Presets

\`--chaos\` sets many switches at once, \`--behaviour name=value\` one on top of it.

`;

const table = `
## Switches

A probability is a number from 0 to 1.

| switch | value | default | meaning |
| --- | --- | --- | --- |
`;

/** The whole document. */
export function sandboxDocument(): string {
  const presets = chaosNames.map((name) => `| \`${name}\` | ${chaosMeanings[name]} |\n`).join('');
  const rows = Object.entries(switches).map(([name, each]) => rowOf(name, each));
  return `${head}| preset | what it does |\n| --- | --- |\n${presets}${table}${rows.join('')}`;
}

function rowOf(name: string, { kind, default: fallback, meaning }: Switch): string {
  const shown = fallback === '' ? '' : `\`${String(fallback)}\``;
  return `| \`${name}\` | ${kind} | ${shown} | ${meaning} |\n`;
}
