/** docs/commands.md, generated from the commands' own help. */
import type { Command } from 'commander';
import type { ExitCode } from '../../src/model/errors.ts';

/** Every exit code, by type: the compiler rejects a missing or extra one. */
const exitCodes: Readonly<Record<ExitCode, string>> = {
  0: 'done',
  1: 'a bug in admin-mirror; please report it',
  2: 'wrong usage, settings or input, or a file that cannot be used; nothing was changed on the server',
  3: 'the server refused the key: 401, or 403 for everything',
  4: 'the server could not be reached, or every try failed, for everything',
  5: 'finished, but a part failed; what was read is kept',
  6: '`verify` found a difference between the mirror and the server',
  7: 'another run holds the lock of the mirror, the batch or the schedule',
  8: 'something was sent, and nobody knows whether it happened',
  130: 'stopped by SIGINT (Ctrl+C)',
  143: 'stopped by SIGTERM (`schedule` ends with 0)',
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

## Every command

`;

/** The whole document. */
export function commandsDocument(program: Command): string {
  const codes = Object.entries(exitCodes).map(([code, meaning]) => `| ${code} | ${meaning} |\n`);
  return `${head}${codes.join('')}${middle}${sectionsOf(program, 'admin-mirror').join('\n')}`;
}

function sectionsOf(command: Command, path: string): string[] {
  const shown = command.name() === 'help' ? [] : [sectionOf(command, path)];
  const parts = command.createHelp().visibleCommands(command);
  return [...shown, ...parts.flatMap((each) => sectionsOf(each, `${path} ${each.name()}`))];
}

function sectionOf(command: Command, path: string): string {
  return `### ${path.replace('admin-mirror ', '')}\n\n\`\`\`text\n${command.helpInformation().trim()}\n\`\`\`\n`;
}
