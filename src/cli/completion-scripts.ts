/** The completion script of each shell. It holds every word itself, so that completing starts no process. */
import type { CommandWords, Values } from './completion-words.ts';

type Script = (commands: readonly CommandWords[]) => string;

/** For a shell's single quotes. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function list(words: readonly { readonly word: string }[]): string {
  return words.map((each) => each.word).join(' ');
}

/** Flags that a value follows, over all commands: the word after one is no command. */
function flagsWithValue(commands: readonly CommandWords[]): string {
  return [...new Set(commands.flatMap((each) => each.values.flatMap(({ flags }) => flags)))].join('|');
}

/** `'|sync'`: the path so far and the word that goes one command deeper. */
function steps(commands: readonly CommandWords[]): string {
  return commands.flatMap(({ path, commands }) => commands.map(({ word }) => quoted(`${path}|${word}`))).join('|');
}

/** The arms of `case "$path|$previous"`: what to offer after a flag that takes a value. */
function valueArms(commands: readonly CommandWords[], offer: (values: Values | undefined) => string): string[] {
  return commands.flatMap(({ path, values }) =>
    values.map(
      ({ flags, values }) => `    ${flags.map((flag) => quoted(`${path}|${flag}`)).join('|')}) ${offer(values)};;`,
    ),
  );
}

const bash: Script = (commands) => {
  const offer = (values: Values | undefined) => {
    if (values === undefined) return 'return';
    return 'files' in values
      ? 'compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")); return'
      : `COMPREPLY=($(compgen -W ${quoted(values.words.join(' '))} -- "$current")); return`;
  };
  const arms = commands.map(({ path, commands, flags, argument }) => {
    const files = argument !== undefined && 'files' in argument;
    const words = argument !== undefined && 'words' in argument ? argument.words.join(' ') : '';
    return `    ${quoted(path)}) flags=${quoted(list(flags))} words=${quoted(`${list(commands)} ${words}`.trim())}${files ? ' files=1' : ''};;`;
  });
  return `# bash completion of admin-mirror
_admin_mirror() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" path='' flags='' words='' files='' i
  COMPREPLY=()
  # bash gives "--format=csv" as three words.
  if [[ $current == '=' ]]; then current=''
  elif [[ $previous == '=' ]]; then previous="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in
    ${flagsWithValue(commands)}) ((i++)); [[ \${COMP_WORDS[i]} == '=' ]] && ((i++));;
    *) case "$path|\${COMP_WORDS[i]}" in ${steps(commands)}) path="\${path:+$path }\${COMP_WORDS[i]}";; esac;;
    esac
  done
  case "$path|$previous" in
${valueArms(commands, offer).join('\n')}
  esac
  case "$path" in
${arms.join('\n')}
  esac
  if [[ $current == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [[ -n $files ]]; then compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current"))
  else COMPREPLY=($(compgen -W "$words" -- "$current")); fi
}
complete -F _admin_mirror admin-mirror`;
};

const zsh: Script = (commands) => {
  const offer = (values: Values | undefined) => {
    if (values === undefined) return 'return';
    return 'files' in values ? '_files; return' : `compadd -- ${values.words.map(quoted).join(' ')}; return`;
  };
  /** `'word:meaning'`, as _describe reads it. */
  const described = (words: readonly { readonly word: string; readonly meaning: string }[]) =>
    words.map(({ word, meaning }) => quoted(`${word.replaceAll(':', String.raw`\:`)}:${meaning}`)).join(' ');
  const arms = commands.map(({ path, commands, flags, argument }) => {
    const files = argument !== undefined && 'files' in argument ? ' files=1' : '';
    const more = argument !== undefined && 'words' in argument ? argument.words : [];
    const words = [...commands, ...more.map((word) => ({ word, meaning: '' }))];
    return `    ${quoted(path)}) flags=(${described(flags)}) parts=(${described(words)})${files};;`;
  });
  return `#compdef admin-mirror
_admin_mirror() {
  local current="\${words[CURRENT]}" previous="\${words[CURRENT-1]}" deeper='' files='' i
  local -a flags parts
  for ((i = 2; i < CURRENT; i++)); do
    case "\${words[i]}" in
    ${flagsWithValue(commands)}) ((i++));;
    *) case "$deeper|\${words[i]}" in ${steps(commands)}) deeper="\${deeper:+$deeper }\${words[i]}";; esac;;
    esac
  done
  case "$deeper|$previous" in
${valueArms(commands, offer).join('\n')}
  esac
  case "$deeper" in
${arms.join('\n')}
  esac
  if [[ $current == -* ]]; then _describe 'flag' flags
  elif [[ -n $files ]]; then _files
  else _describe 'argument' parts; fi
}
# Loaded from fpath this file is the function's body; sourced, it registers it.
if [[ $funcstack[1] == _admin-mirror ]]; then _admin_mirror; else compdef _admin_mirror admin-mirror; fi`;
};

const fish: Script = (commands) => {
  const line = (path: string, rest: string) =>
    `complete -c admin-mirror -n ${quoted(`__admin_mirror_at ${quoted(path)}`)} ${rest}`;
  const lines = commands.flatMap(({ path, commands, flags, values, argument }) => {
    const taking = new Map(values.flatMap(({ flags, values }) => flags.map((flag) => [flag, values] as const)));
    return [
      ...commands.map(({ word, meaning }) => line(path, `-a ${quoted(word)} -d ${quoted(meaning)}`)),
      ...flags.map(({ word, meaning }) => {
        const name = word.startsWith('--') ? `-l ${word.slice(2)}` : `-s ${word.slice(1)}`;
        return line(path, `${name}${fishValue(taking.has(word), taking.get(word))} -d ${quoted(meaning)}`);
      }),
      ...(argument === undefined
        ? []
        : [line(path, 'files' in argument ? '-F' : `-a ${quoted(argument.words.join(' '))}`)]),
    ];
  });
  return `# fish completion of admin-mirror
function __admin_mirror_at
  set -l deeper ''
  set -l skip 0
  for word in (commandline -opc)
    if test $skip = 1
      set skip 0
      continue
    end
    switch $word
      case ${flagsWithValue(commands).split('|').map(quoted).join(' ')}
        set skip 1
      case '*'
        switch "$deeper|$word"
          case ${steps(commands).replaceAll("'|'", "' '")}
            set deeper (string trim "$deeper $word")
        end
    end
  end
  test "$deeper" = "$argv[1]"
end
complete -c admin-mirror -f
${lines.join('\n')}`;
};

function fishValue(taken: boolean, values: Values | undefined): string {
  if (!taken) return '';
  if (values === undefined) return ' -x';
  return 'files' in values ? ' -r -F' : ` -x -a ${quoted(values.words.join(' '))}`;
}

export const scripts = { bash, zsh, fish } as const;
