/** docs/sandbox.md, written from the sandbox's own tables of switches and presets. */
import { type Switch, switches } from '../../src/sandbox/behaviour.ts';
import { chaosMeanings, chaosNames } from '../../src/sandbox/churn.ts';

const head = `# The sandbox

The whole Administration API on this machine, with seed data: every path, field, filter, sort, range and rule of
[api.md](api.md), behind real HTTP on 127.0.0.1. The demo and the tests use it, and so can you.

\`\`\`sh
npx admin-mirror sandbox --port 8123 --key try-me --users 5000 --seed 7 --control-key-file data/control.key
\`\`\`

The same seed makes the same data; a million users are possible. With \`--file\` the data outlives the sandbox. It ends
with Ctrl+C. Programs start it with \`--json\` and read one line: its address, keys and process.

## Presets

\`--chaos\` sets many switches at once, \`--behaviour name=value\` one on top of it.

`;

const controls = `
## While it runs

Control routes lie outside \`/api\`. Whoever has them sees and changes everything, so they ask for a key of their own, made
at random at each start. The sandbox prints it, and writes it into the file that \`--control-key-file\` names. What the
routes refuse, they answer with 400 and the reason.

\`\`\`sh
control="Authorization: Bearer $(cat data/control.key)"
curl -s -H "$control" http://127.0.0.1:8123/control/count/users
curl -s -X PUT http://127.0.0.1:8123/control/behaviour -H "$control" -H 'Content-Type: application/json' -d '{"latency": 20}'
curl -s -X PUT http://127.0.0.1:8123/control/chaos -H "$control" -H 'Content-Type: application/json' -d '{"chaos": "rough"}'
curl -s -X POST http://127.0.0.1:8123/control/records/users -H "$control" -H 'Content-Type: application/json' -d '{"first_name": "Ada"}'
\`\`\`

| route | what it does |
| --- | --- |
| \`GET /control/switches\`, \`GET\` and \`PUT /control/behaviour\` | the switches; how they stand; sets some |
| \`PUT /control/chaos\` | sets every switch as a preset has it |
| \`GET\` and \`POST /control/clock\` | the time; sets it (\`now\`, \`frozen\`) or moves it (\`advance\`, in ms) |
| \`POST /control/records/{resource}\` | adds a record; what is not given is generated |
| \`GET\`, \`PUT\` and \`DELETE /control/records/{resource}/{id}\` | one record: shows, changes, takes away, without the API's rules |
| \`GET\` and \`PUT /control/related/{resource}/{id}/{kind}\` | the related records of a user or a package |
| \`POST /control/churn/{resource}\` | makes changes at random |
| \`POST\` and \`DELETE /control/faults\` | exact faults for the next requests that match; takes them back |
| \`POST /control/late\` | makes the writes now that \`commit_late\` has put off |
| \`GET /control/ledger\` | every write that was made through the API |
| \`GET\` and \`DELETE /control/requests\` | what was asked; forgets it |
| \`GET /control/count/{resource}\`, \`GET /control/dump/{resource}\` | how many records there are; all of them |

## Switches

A probability is 0 to 1. Beside the name is the default.

| switch | value | default | meaning |
| --- | --- | --- | --- |
`;

/** The whole document. */
export function sandboxDocument(): string {
  const presets = chaosNames.map((name) => `| \`${name}\` | ${chaosMeanings[name]} |\n`).join('');
  const rows = Object.entries(switches).map(([name, each]) => rowOf(name, each));
  return `${head}| preset | what it is |\n| --- | --- |\n${presets}${controls}${rows.join('')}`;
}

function rowOf(name: string, { kind, values, default: fallback, meaning }: Switch): string {
  const value = values.length > 0 ? values.map((each) => `\`${each}\``).join(', ') : kind;
  const shown = fallback === '' ? '' : `\`${String(fallback)}\``;
  return `| \`${name}\` | ${value} | ${shown} | ${cell(meaning)} |\n`;
}

/** Text in a cell: a bar would end it, and braces of JSON are code. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll(/\{[^}]*\}/g, (json) => `\`${json}\``);
}
