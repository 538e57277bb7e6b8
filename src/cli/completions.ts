/** `completions`: prints the script that teaches a shell this command line. The script asks the hidden `complete` for each word. */
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { Argument, type Command } from 'commander';
import { script } from '@bomb.sh/tab';
import tab from '@bomb.sh/tab/commander';
import type { CliContext } from './context.ts';
import { printLine } from './output.ts';
import { wholeProgram } from './program.ts';

const shells = ['bash', 'zsh', 'fish', 'powershell'] as const;

/** The commands of this file; they are not offered themselves. */
const own = ['completions', 'complete'];

export function define(program: Command, context: CliContext): void {
  program
    .command('completions')
    .description(
      'Print the completion script for a shell: `source <(admin-mirror completions bash)`. Its help says where to put it.',
    )
    .addArgument(new Argument('<shell>', 'the shell to complete in').choices(shells))
    .addHelpText(
      'after',
      `
Examples:
  source <(admin-mirror completions bash)                        in ~/.bashrc; completes after npx, too
  source <(admin-mirror completions zsh)                         in ~/.zshrc, after compinit
  admin-mirror completions fish | source                         in ~/.config/fish/config.fish
  admin-mirror completions powershell | Out-String | iex         in $PROFILE

In a clone, define the command first: admin-mirror() { npx admin-mirror "$@"; } in bash and zsh.`,
    )
    .action((shell: string) => {
      if (shell === 'bash') printLine(context, bashScript);
      else script(shell, 'admin-mirror', 'admin-mirror');
    });
  program
    .command('complete', { hidden: true })
    .description('Print what can be the last of these words. The scripts of `completions` call it.')
    .argument('[words...]', 'the words after `admin-mirror`, the last one perhaps unfinished')
    .action((words: string[]) => complete(context, words));
}

/**
 * The library's script for bash needs a package of functions that many machines lack, and runs $(…) in what was typed. Bash splits
 * words at = and :, which belong to one word here, and replaces only what stands after them.
 */
const bashScript = String.raw`_admin_mirror() {
  local at=1 last=-1 words=() word before= line name
  if [[ $1 == npx ]]; then
    [[ \${COMP_WORDS[1]} == admin-mirror ]] || return
    at=2
  fi
  local run=("\${COMP_WORDS[@]:0:at}")
  COMPREPLY=()
  for (( ; at <= COMP_CWORD; at++ )); do
    word=\${COMP_WORDS[at]}
    if [[ $last -ge 0 && ( $word == [=:] || $before == [=:] ) ]]; then words[last]+=$word
    else words[++last]=$word; fi
    before=$word
  done
  while IFS= read -r line; do
    name=\${line%%$'	'*}
    [[ -n $name && $name != :* ]] && COMPREPLY+=("$(printf %q "$name")")
  done < <("\${run[@]}" complete -- "\${words[@]}" 2>/dev/null)
  # More can follow in a folder.
  [[ \${COMPREPLY[0]} == */ ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _admin_mirror admin-mirror
complete -o default -F _admin_mirror npx`.replaceAll('\\$', '$');

async function complete(context: CliContext, words: string[]): Promise<void> {
  const whole = await wholeProgram(context, (name) => !own.includes(name));
  const root = tab(whole, { completionCommandName: 'completions' });
  const typed = words.at(-1) ?? '';
  const files = filesAt(context.folder, typed.slice(typed.indexOf('=') + 1));
  const offerFiles = (offer: (name: string, description: string) => void) => files.forEach((file) => offer(file, ''));
  for (const command of [root, ...root.commands.values()]) {
    // What is offered has one line each.
    [command.description = ''] = command.description.split('\n');
    for (const [name, argument] of command.arguments) if (/^(file|folder)$/.test(name)) argument.handler = offerFiles;
    const path = command.value.split(' ');
    const { options } = path.reduce((at, name) => at.commands.find((each) => each.name() === name) ?? at, whole);
    for (const { long, flags } of options) {
      const option = command.options.get(long?.slice(2) ?? '');
      if (option !== undefined && /<(file|folder)>/.test(flags)) option.handler = offerFiles;
    }
    // Every command has the options of the program; the root comes first.
    for (const [name, option] of root.options) if (!command.options.has(name)) command.options.set(name, option);
  }
  root.parse(words);
}

/** Returns the files that begin as typed. A folder ends with its slash, so that what is in it comes next. */
function filesAt(folder: string, typed: string): readonly string[] {
  const parent = typed.slice(0, typed.lastIndexOf('/') + 1);
  try {
    return readdirSync(resolve(folder, parent), { withFileTypes: true }).map(
      (each) => `${parent}${each.name}${each.isDirectory() ? '/' : ''}`,
    );
  } catch {
    return [];
  }
}
