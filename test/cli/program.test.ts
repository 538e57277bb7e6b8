import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Command } from 'commander';
import { type CommandRow, groups } from '../../src/cli/commands.ts';
import type { CliContext, CliWorld } from '../../src/cli/context.ts';
import { run } from '../../src/cli/program.ts';
import { IncompleteError, InterruptedError, KeyRefusedError, UsageError } from '../../src/model/errors.ts';
import { invoke as invokeProgram } from '../support/invoke.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

type Act = (context: CliContext) => void | Promise<void>;

/** A program with the command `work [thing]`, which runs `act`, one that must not load, and a hidden one. */
function rows(act: Act): CommandRow[] {
  const define = (program: Command, context: CliContext) => {
    program
      .command('work')
      .description('Do it.')
      .argument('[thing]', 'what to do')
      .option('--slowly', 'take time')
      .action(() => act(context));
  };
  return [
    { name: 'work', group: groups.mirror, summary: 'do it', first: true, load: () => Promise.resolve({ define }) },
    { name: 'rest', group: groups.query, summary: 'do nothing', load: () => Promise.reject(new Error('loaded')) },
    {
      name: 'dig',
      group: groups.query,
      summary: 'hidden',
      hidden: true,
      load: () => Promise.resolve({ define() {} }),
    },
  ];
}

function output(isTTY: boolean) {
  const stream = Object.assign(new PassThrough(), { isTTY }) as unknown as NodeJS.WriteStream & PassThrough;
  return { stream, text: () => String(stream.read() ?? '') };
}

interface Options {
  readonly act?: Act;
  readonly signal?: AbortSignal;
  readonly environment?: Record<string, string>;
  readonly terminal?: boolean;
}

async function invoke(argv: readonly string[], options: Options = {}) {
  const stdout = output(options.terminal ?? false);
  const stderr = output(options.terminal ?? false);
  const world: CliWorld = {
    stdout: stdout.stream,
    stderr: stderr.stream,
    stdin: () => new PassThrough() as unknown as NodeJS.ReadStream,
    signal: options.signal ?? new AbortController().signal,
    environment: options.environment ?? {},
    folder: temporaryFolder(),
  };
  const code = await run(argv, world, rows(options.act ?? (() => {})));
  return { code, stdout: stdout.text(), stderr: stderr.text() };
}

describe('exit codes', () => {
  test('a command ends with 0, or with the code it set', async () => {
    expect((await invoke(['work'])).code).toBe(0);
    expect((await invoke(['work'], { act: (context) => context.exit(5) })).code).toBe(5);
  });

  test.each([
    [new UsageError('no such column'), 2],
    [new KeyRefusedError('refused'), 3],
    [new IncompleteError('half of it'), 5],
  ])('an operator error prints one line with advice, and ends with its code: %s', async (error, code) => {
    const act = () => {
      throw error;
    };
    expect(await invoke(['work'], { act })).toEqual({ code, stdout: '', stderr: `error: ${error.message}\n` });
  });

  test('any other error is a bug, and is printed with its stack', async () => {
    const act = () => {
      throw new TypeError('undefined is not a function');
    };
    const { code, stderr } = await invoke(['work'], { act });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: this is a bug in admin-mirror.*\nTypeError: undefined is not a function\n\s+at /);
  });

  test('a file error that no code explained is not a bug', async () => {
    const act = async () => {
      const { readFile } = await import('node:fs/promises');
      await readFile('/nowhere/at/all.csv');
    };
    const { code, stderr } = await invoke(['work'], { act });
    expect(code).toBe(2);
    expect(stderr).toContain('/nowhere/at/all.csv: it does not exist (ENOENT)');
  });

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('an error after %s counts as an interruption', async (signal, code) => {
    const stop = new AbortController();
    const act = () => {
      stop.abort(new InterruptedError(signal));
      throw new DOMException('This operation was aborted', 'AbortError');
    };
    const result = await invoke(['work'], { act, signal: stop.signal });
    expect(result).toEqual({ code, stdout: '', stderr: `stopped by ${signal}\n` });
  });
});

describe('wrong usage ends with 2 and names the nearest match', () => {
  test.each([
    [['wrk'], "unknown command 'wrk'", 'Did you mean work?'],
    [['help', 'wrk'], 'unknown command "wrk"', 'Did you mean "work"?'],
    [['help', 'work', 'more'], '"work" has no subcommands', ''],
    [['work', '--slowy'], "unknown option '--slowy'", 'Did you mean --slowly?'],
    [['--base-ur', 'https://x', 'work'], "unknown option '--base-ur'", 'Did you mean --base-url?'],
    [
      ['work', 'a', 'b'],
      "too many arguments for 'work'. Expected 1 argument but got 2",
      'admin-mirror help work` to see',
    ],
    [['work', '--db'], "option '--db <file>' argument missing", 'admin-mirror help'],
    [['work', '--quiet', '--verbose'], "option '--quiet' cannot be used with option '--verbose'", 'admin-mirror help'],
    [[], 'no command was given', 'admin-mirror help'],
  ])('%j', async (argv, message, advice) => {
    const { code, stdout, stderr } = await invoke(argv);
    expect(code).toBe(2);
    expect(stdout).toBe('');
    expect(stderr).toContain(`error: ${message}`);
    expect(stderr).toContain(advice);
  });
});

describe('the help', () => {
  test('help --all explains every command that is not hidden, and every option', async () => {
    const { stdout } = await invoke(['help', '--all']);
    expect(stdout).toMatch(
      /Keep the mirror:\n {2}work.*do it\n\nQuery the mirror:\n {2}rest.*do nothing\n\nSettings and/,
    );
    expect(stdout).toMatch(/--base-url <url> +the server's address/);
    expect(stdout).not.toContain('dig');
  });

  test.each([[['help', 'work']], [['work', '--help']]])(
    '%j explains the flags of the command and names those of every command',
    async (argv) => {
      const { code, stdout } = await invoke(argv);
      expect(code).toBe(0);
      expect(stdout).toContain('--slowly');
      expect(stdout).toMatch(/Options of every command:.*--base-url/);
    },
  );
});

describe('global flags', () => {
  test('may stand before or after the command', async () => {
    const seen: unknown[] = [];
    const act = (context: CliContext) => {
      seen.push([context.json(), context.quiet(), context.settings().store.mirror.endsWith('/x.db')]);
    };
    await invoke(['--json', '--db', 'x.db', 'work'], { act });
    await invoke(['work', '--quiet', '--db=x.db'], { act });
    expect(seen).toEqual([
      [true, false, true],
      [false, true, true],
    ]);
  });

  test('colours are used on a terminal, but not with --no-color, NO_COLOR or a pipe', async () => {
    const act = () => {
      throw new UsageError('no');
    };
    const red = '\u001B[31m';
    expect((await invoke(['work'], { act, terminal: true })).stderr).toContain(red);
    expect((await invoke(['work', '--no-color'], { act, terminal: true })).stderr).not.toContain(red);
    expect((await invoke(['work'], { act, terminal: true, environment: { NO_COLOR: '1' } })).stderr).not.toContain(red);
    expect((await invoke(['work'], { act })).stderr).not.toContain(red);
  });

  test('settings are only read by commands that need them', async () => {
    const argv = ['work', '--config', 'none.yaml'];
    expect((await invoke(argv)).code).toBe(0);
    expect((await invoke(argv, { act: (context) => void context.settings() })).code).toBe(2);
  });
});

test.each([
  [
    ['sync', 'usres'],
    "'usres' is invalid for argument 'resource'. Allowed choices are users, packages, emails, coupons.",
  ],
  [
    ['changes', 'users', '--since', 'soon'],
    "argument 'soon' is invalid. It must be a time such as 2026-03-11T10:00:00Z",
  ],
  [['bulk', 'aply'], "error: unknown command 'aply'\n(Did you mean apply?)\n"],
  [['users', 'get'], "error: missing required argument 'id'\nRun `npx admin-mirror help users get` to see"],
])('an invalid value of a flag or argument is named, with what is expected: %j', async (argv, words) => {
  const { code, stderr } = await invokeProgram(argv);
  expect(stderr).toContain(words);
  expect(code).toBe(2);
});
