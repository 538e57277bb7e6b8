/** docs/sandbox.md, generated from the sandbox's own tables of switches and presets. */
import { chaosMeanings, chaosNames, type Switch, switches } from '../../src/sandbox/behaviour.ts';

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

The control routes are outside \`/api\`. They show and change everything, so they need a key of their own, which is made at
random at each start. The sandbox prints it, and writes it to the file that \`--control-key-file\` names. Each route is a function:
send a POST with the arguments as a JSON array. A refused call gets the status 400 and the reason.

\`\`\`sh
control="Authorization: Bearer $(cat data/control.key)"
curl -s -H "$control" http://127.0.0.1:8123/control/count -d '["users"]'
curl -s -H "$control" http://127.0.0.1:8123/control/setBehaviour -d '[{"latency": 20}]'
curl -s -H "$control" http://127.0.0.1:8123/control/setChaos -d '["rough"]'
curl -s -H "$control" http://127.0.0.1:8123/control/insert -d '["users", {"first_name": "Ada"}]'
\`\`\`

| route and arguments | what it does |
| --- | --- |
| \`switches\`, \`behaviour\`, \`setBehaviour [values]\` | list the switches; show their values; set some |
| \`setChaos [preset]\` | sets all switches as a preset does |
| \`clock\`, \`setClock [time, {"frozen": true}]\`, \`advanceClock [ms]\` | show, set or advance the time |
| \`insert [resource, fields]\` | adds a record; fields that are not given are generated |
| \`get [resource, id]\`, \`update [resource, id, fields]\`, \`remove [resource, id]\` | show, change or remove a record, without the API's rules |
| \`related [resource, id, kind]\`, \`setRelated [resource, id, kind, records]\` | show or replace the related records of a user or a package |
| \`churn [resource, {"inserts": 2, "updates": 3, "deletes": 1}]\` | makes changes at random |
| \`ledger\` | all writes that were made through the API |
| \`requests\`, \`clearRequests\` | show what was requested; forget it |
| \`count [resource]\`, \`dump [resource]\` | count the records; show all of them |

## Switches

A probability is a number from 0 to 1.

| switch | value | default | meaning |
| --- | --- | --- | --- |
`;

/** The whole document. */
export function sandboxDocument(): string {
  const presets = chaosNames.map((name) => `| \`${name}\` | ${chaosMeanings[name]} |\n`).join('');
  const rows = Object.entries(switches).map(([name, each]) => rowOf(name, each));
  return `${head}| preset | what it does |\n| --- | --- |\n${presets}${controls}${rows.join('')}`;
}

function rowOf(name: string, { kind, default: fallback, meaning }: Switch): string {
  const shown = fallback === '' ? '' : `\`${String(fallback)}\``;
  return `| \`${name}\` | ${kind} | ${shown} | ${meaning} |\n`;
}
