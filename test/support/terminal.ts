/** The command in a real terminal, by `script`. */
import { spawn } from 'node:child_process';
import { dialogue, type Exchange } from './dialogue.ts';
import type { CliOptions, CliResult } from './cli.ts';
import { commandFile } from './command-file.ts';

export interface Terminal {
  /** Resolves when the words were shown. */
  readonly shows: (words: string) => Promise<void>;
  readonly type: (keys: string) => void;
  readonly ended: Promise<Pick<CliResult, 'code' | 'stdout'>>;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Starts the command; each of the exchanges is typed when its words appear. */
export function openTerminal(
  args: readonly string[],
  options: CliOptions,
  exchanges: readonly Exchange[] = [],
): Terminal {
  const { PATH = '', HOME = '', NODE_COMPILE_CACHE = '' } = process.env;
  // A terminal without a window has no size.
  const command = `stty cols 160 rows 50; exec ${[process.execPath, commandFile, ...args].map(quoted).join(' ')}`;
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    cwd: options.folder,
    env: { PATH, HOME, NODE_COMPILE_CACHE, TERM: 'xterm', ...options.environment },
  });
  // A command may end before it has read its input.
  child.stdin.on('error', () => {});
  let shown = '';
  const waiting: { readonly words: string; readonly resolve: () => void }[] = [];
  const type = (keys: string): void => void child.stdin.write(keys);
  const listen = dialogue(exchanges, type);
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text;
    listen(text);
    for (const each of waiting.splice(0)) {
      if (shown.includes(each.words)) each.resolve();
      else waiting.push(each);
    }
  });
  return {
    shows: (words) =>
      new Promise((resolve) => {
        if (shown.includes(words)) resolve();
        else waiting.push({ words, resolve });
      }),
    type,
    ended: new Promise((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code) => resolve({ code, stdout: shown }));
    }),
  };
}
