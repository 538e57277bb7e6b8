/** docs/settings.md, generated from the table of settings. */
import { approvalSubjects, defaultGoodFor, mostApprovers } from '../../src/model/approval.ts';
import { type Setting, settingTable } from '../../src/settings/table.ts';

const head = `# Settings

A flag outranks the environment, which outranks \`.env\` in the working folder, which outranks the config file, which
outranks the default. \`admin-mirror config\` prints every setting with its value and where it came from.

Durations are written \`500ms\`, \`30s\`, \`10m\`, \`48h\` or \`7d\`. Paths are relative to the working
folder. An environment variable that is empty counts as left out. In the config file \`api.base_url\` is the key \`base_url\` under \`api\`; the
example is [config/admin-mirror.example.yaml](../config/admin-mirror.example.yaml). The jobs of the worker stand there, too, and nowhere else:
[worker.md](worker.md).

A secret is never written into the config file. It stands in its variable, or in a file of its own, which the variable with
\`_FILE\` at its end names, or the config file as \`…_file\`: \`ADMIN_MIRROR_API_KEY\`, \`ADMIN_MIRROR_API_KEY_FILE\` or \`api.key_file\`.

\`HTTPS_PROXY\` and \`NO_PROXY\` are read as other programs read them. In \`.env\`, a \`#\` begins a comment. Put a value with one in quotes.

Related records are named by resource: \`resources: { users: { include: [orders, payments] } }\` in the config file, and
\`users.orders,users.payments\` in \`ADMIN_MIRROR_RESOURCES\`.

The config file may hold several servers as \`profiles\`; \`--profile\` says which one is meant. What stands in a profile
outranks what stands outside of it. While a profile is in force, the variables of the address, the key, the key file, the
mirror and the journal count only where they end in its name, as \`ADMIN_MIRROR_API_KEY_STAGING\` does. Outside of the profiles, \`{profile}\` in a value stands for the name of
each: [Several servers](operating.md#several-servers).

`;

/** The table in Markdown: key, meaning, flag, variable, default. */
function settingsTable(): string {
  const rows = settingTable.map((each: Setting) => [
    each.inFile ? code(each.kind.is === 'secret' ? `${each.key}_file` : each.key) : '',
    each.meaning,
    code(each.flag?.split(' ')[0]),
    code(each.env),
    defaultOf(each),
  ]);
  const heads = ['config file', 'meaning', 'flag', 'environment', 'default'];
  return [heads, heads.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |\n`).join('');
}

export function settingsDocument(): string {
  return `${head}${settingsTable()}${approval}`;
}

const approval = `
## Approval

\`bulk.approval\` says what needs a second person. It stands in the config file alone. Somebody who runs commands can name another config file; \`audit\` then shows who brought the policy that changed.
Under it stands one block for each action (${approvalSubjects.map((name) => code(name)).join(', ')}). An action without a block needs no approval. With a block, approval is needed where one
of its thresholds is exceeded, and always where it names none: \`delete: {}\`. A block or a threshold with nothing after its colon is refused.

| in a block | meaning |
| --- | --- |
| \`row_amount\` | the largest change of a balance that one row makes; \`balance\` alone |
| \`net\` | the sum of all changes; \`balance\` alone |
| \`gross\` | the sum of all changes, up and down, without their signs; \`balance\` alone |
| \`rows\` | the number of rows |
| \`alone_per_day\` | what one person may send without approval within 24 hours: the gross total of \`balance\`, rows of the other actions |
| \`approvers\` | how many different people must approve, 1 to ${mostApprovers}; 1 where it is left out |
| \`good_for\` | how long an approval holds, and how long a submitted batch waits for one; \`${defaultGoodFor}\` where it is left out |

\`\`\`yaml
bulk:
  approval:
    balance:
      row_amount: 500
      net: 5000
      alone_per_day: 2000
      approvers: 1
    delete: {} # always
\`\`\`

A block in a profile takes the place of the common block for the same action. \`admin-mirror config\` shows what is in force.
How it is done: [A second person](bulk.md#a-second-person). Who may approve: [People](operating.md#people).
`;

function defaultOf(setting: Setting): string {
  if (setting.key === 'config') return '`config/admin-mirror.yaml` where it exists';
  return setting.default === null ? '' : code(String(setting.default));
}

function code(text: string | undefined): string {
  return text === undefined ? '' : `\`${text}\``;
}
