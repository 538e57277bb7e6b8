/**
 * Runs the shell blocks of a document as a reader would: in a clone, one after the other, in one shell. A command must
 * end with 0, or with the code in a comment behind it: `# ends with 2`. In a `console` block, commands begin with `$`, and
 * what they print is below them.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { commandFile } from './command-file.ts';
import { blocksOf, projectFolder } from './documents.ts';

export interface ShellCommand {
  /** Where the command is: `README.md:12`. */
  readonly place: string;
  readonly text: string;
  readonly endsWith: number;
  /** Lines of its output, in their order; `…` stands for anything. */
  readonly shows: readonly string[];
}

/** Every command of the document's `sh` and `console` blocks; lines that end in a backslash continue on the next. */
export function shellCommands(document: string): ShellCommand[] {
  return blocksOf(document)
    .filter(({ language }) => language === 'sh' || language === 'console')
    .flatMap(({ language, line, lines }) => {
      const commands: (ShellCommand & { shows: string[] })[] = [];
      let text = '';
      for (const [index, shown] of lines.entries()) {
        if (language === 'console' && !shown.startsWith('$ ')) {
          commands.at(-1)?.shows.push(shown);
          continue;
        }
        const each = language === 'console' ? shown.slice(2) : shown;
        text += each.endsWith('\\') ? `${each.slice(0, -1)} ` : each;
        if (each.endsWith('\\')) continue;
        const whole = text.trim();
        text = '';
        if (whole === '' || whole.startsWith('#')) continue;
        const endsWith = Number(/# ends with (\d+)$/.exec(whole)?.[1] ?? 0);
        commands.push({ place: `${document}:${line + index}`, text: whole, endsWith, shows: [] });
      }
      return commands;
    });
}

/** The links of a clone; the output of commands is written next to them. */
const cloned = ['src', 'config', '.ci', 'node_modules', 'package.json', '.npmrc'];

/**
 * Makes the folder look like a clone, and returns the environment of a shell in it. Its `npx` finds the command without
 * npm.
 */
export function makeClone(folder: string): Record<string, string> {
  for (const name of cloned) symlinkSync(join(projectFolder, name), join(folder, name));
  mkdirSync(join(folder, 'data'));
  const bin = join(folder, '.bin');
  mkdirSync(bin);
  const npx = `#!/bin/sh\n[ "$1" = admin-mirror ] || exit 127\nshift\nexec "${process.execPath}" "${commandFile}" "$@"\n`;
  writeFileSync(join(bin, 'npx'), npx);
  chmodSync(join(bin, 'npx'), 0o755);
  const { PATH = '', HOME = '' } = process.env;
  return { PATH: [bin, dirname(process.execPath), PATH].join(':'), HOME };
}

/**
 * A server command runs until it is stopped: it is left running, and the next one waits until the server prints how to
 * end it.
 */
function isServer({ text }: ShellCommand): boolean {
  return text.startsWith('npx admin-mirror sandbox') && !/ --(switches|help)/.test(text);
}

function scriptOf(commands: readonly ShellCommand[]): string {
  const steps = commands.map((command, index) => {
    const { place, text, endsWith } = command;
    const log = `.bin/server-${index}.log`;
    const run = isServer(command)
      ? `${text} > ${log} 2>&1 &\nuntil grep -q Ctrl+C ${log}; do kill -0 $! || { cat ${log}; break; }; sleep 0.1; done`
      : `{ ${text}\n} > .bin/output-${index}.log 2>&1`;
    return `${run}\ncode=$?\n[ -f .bin/output-${index}.log ] && cat .bin/output-${index}.log\n[ $code -eq ${endsWith} ] || { echo "${place} ended with $code" >&2; exit 1; }\necho "ran ${place}" >&3`;
  });
  return ['set -o pipefail', ...steps].join('\n');
}

interface ShellResult {
  /** The places of the commands that ended as expected. */
  readonly ran: readonly string[];
  /** Everything that was printed. */
  readonly output: string;
  /** Lines that a document shows, and that its commands did not print in that order. */
  readonly missing: readonly string[];
}

/** The lines that are not among the printed ones, each after the one before it. */
function missingIn(printed: string, shows: readonly string[]): string[] {
  let at = 0;
  // Columns are as wide as what is in them.
  const lines = printed.split('\n').map((line) => line.trim().replaceAll(/ +/g, ' '));
  return shows.filter((shown) => {
    const pattern = new RegExp(`^${shown.trim().replaceAll(/ +/g, ' ').split('…').map(escaped).join('.*')}$`, 'u');
    const found = lines.findIndex((line, index) => index >= at && pattern.test(line));
    if (found !== -1) at = found + 1;
    return found === -1;
  });
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/]/g, String.raw`\$&`);
}

/** Runs the commands in the folder, up to the first that does not end as expected; ends whatever they left running. */
export async function runShell(
  commands: readonly ShellCommand[],
  folder: string,
  environment: Readonly<Record<string, string>>,
): Promise<ShellResult> {
  // Its own process group, so that servers that were left running end with it.
  const child = spawn('bash', ['-c', scriptOf(commands)], {
    cwd: folder,
    env: environment,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  let output = '';
  let ran = '';
  const [, out, err, done] = child.stdio;
  out?.on('data', (text: Buffer) => (output += text.toString()));
  err?.on('data', (text: Buffer) => (output += text.toString()));
  done?.on('data', (text: Buffer) => (ran += text.toString()));
  const closed = once(child, 'close');
  await once(child, 'exit');
  if (child.pid !== undefined) endGroup(child.pid);
  await closed;
  const missing = commands.flatMap(({ shows }, index) => {
    const file = join(folder, `.bin/output-${index}.log`);
    return shows.length === 0 ? [] : missingIn(existsSync(file) ? readFileSync(file, 'utf8') : '', shows);
  });
  return { ran: [...ran.matchAll(/^ran (.+)$/gm)].map(([, place = '']) => place), output, missing };
}

function endGroup(group: number): void {
  try {
    process.kill(-group, 'SIGTERM');
  } catch (error) {
    // No process is left.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
