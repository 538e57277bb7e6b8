/** docs/commands.md, generated from the commands' own help. */
import type { Command } from 'commander';
import { exitMeanings } from '../../src/model/errors.ts';

/** What the table says besides the meaning of a code. */
const details: Readonly<Partial<Record<string, string>>> = {
  2: '; nothing was changed on the server',
  3: ': 401, or 403 for everything',
  4: ', or every try failed, for everything',
  5: '; what was read is kept',
  6: ': `verify` found a difference',
  7: ' of the mirror, the batch or the schedule',
  143: ' (`schedule` ends with 0)',
};

const head = `# Commands

In a clone you type \`npx admin-mirror …\`; once the package is installed, \`admin-mirror …\`. Standard output carries the
result alone. Progress, logs and questions go to standard error. With \`--json\`, the result is one JSON document.
The word after a flag that takes a value is its value, whatever it begins with: \`--reason --quiet\` gives the reason
\`--quiet\`. After \`--\`, no word is a flag.
The commands \`users\`, \`packages\`, \`emails\` and \`coupons\` are the operations of the API: [api.md](api.md).

## Exit codes

| code | meaning |
| --- | --- |
`;

const middle = `
What to do about each: [Operating](operating.md#when-something-is-wrong).

`;

/** The whole document. */
export function commandsDocument(program: Command): string {
  const codes = Object.entries(exitMeanings).map(
    ([code, meaning]) => `| ${code} | ${meaning}${details[code] ?? ''} |\n`,
  );
  const groups = Map.groupBy(program.createHelp().visibleCommands(program), (each) => each.helpGroup());
  const sections = [...groups].map(
    ([group, commands]) => `## ${group.replace(/:$/, '')}\n\n${table('command', commands.flatMap(rowsOf))}`,
  );
  const everywhere = `## Options of every command\n\n${table('option', optionsOf(program))}\n`;
  return `${head}${codes.join('')}${middle}${everywhere}${sections.join('\n')}`;
}

type Row = readonly [string, string];

/** A command, and its subcommands below it, each followed by its arguments and options. */
function rowsOf(command: Command): Row[] {
  const parts = [command, ...command.commands.filter((each) => each.name() !== 'help')];
  return parts.flatMap((each): Row[] => {
    const path = each === command ? each.name() : `${command.name()} ${each.name()}`;
    const usage = each.usage().replaceAll(/\[(?:options|command)\] ?/g, '');
    return [[`**\`${`${path} ${usage}`.trim()}\`**`, each.description()], ...argumentsOf(each), ...optionsOf(each)];
  });
}

function argumentsOf(command: Command): Row[] {
  const help = command.createHelp();
  return help
    .visibleArguments(command)
    .map((each) => [`\`${help.argumentTerm(each)}\``, help.argumentDescription(each)]);
}

function optionsOf(command: Command): Row[] {
  const help = command.createHelp();
  return help
    .visibleOptions(command)
    .filter(({ long }) => long !== '--help')
    .map((each) => [`\`${help.optionTerm(each)}\``, help.optionDescription(each)]);
}

function table(heading: string, rows: readonly Row[]): string {
  const cell = (text: string) => text.replaceAll(/\s+/g, ' ').replaceAll('|', String.raw`\|`);
  const lines = rows.map(([left, right]) => `| ${cell(left)} | ${cell(right)} |\n`);
  return `| ${heading} | what it does |\n| --- | --- |\n${lines.join('')}`;
}
