/** `sandbox`: serves the Administration API on this machine, with seed data, until it is stopped. */
import { type Command, Option } from 'commander';
import { grouped } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { type CliContext, interruptionOf, waitForStop } from './context.ts';
import { toMoment, toWholeNumber } from './flag-values.ts';
import { paint, printLine, printLines, printNote } from './output.ts';
import { type Chaos, chaosMeanings, chaosNames, readBehaviour, switchNames } from '../sandbox/behaviour.ts';
import { openSandbox, type Sandbox } from '../sandbox/sandbox.ts';
import type { SeedPlan } from '../sandbox/seed.ts';

interface Flags extends Pick<SeedPlan, 'seed' | 'users' | 'packages' | 'emails' | 'coupons'> {
  readonly port: number;
  readonly key?: string;
  readonly file?: string;
  readonly chaos: Chaos;
  readonly now?: number;
  readonly behaviour?: Readonly<Record<string, string>>;
}

function switchValue(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf('=');
  if (at > 0) return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
  throw new UsageError(`--behaviour was given "${text}", which is not name=value`, {
    advice: `Its name is one of ${switchNames.join(', ')}.`,
  });
}

export function define(program: Command, context: CliContext): void {
  const presets = chaosNames.map((name) => `  ${name.padEnd(6)} ${chaosMeanings[name]}`).join('\n');
  program
    .command('sandbox')
    .description(
      'Serve the Administration API on this machine, with seed data, until it is stopped. docs/sandbox.md says more.',
    )
    .option('--port <number>', 'port on 127.0.0.1; 0 takes any free one', toWholeNumber, 0)
    .option('--key <text>', 'the key that it accepts (default: made from the seed)')
    .option('--users <number>', 'users to generate', toWholeNumber, 1_000)
    .option('--packages <number>', 'packages to generate', toWholeNumber, 40)
    .option('--emails <number>', 'emails to generate', toWholeNumber, 3_000)
    .option('--coupons <number>', 'coupons to generate', toWholeNumber, 60)
    .option('--seed <number>', 'the same seed always gives the same data', toWholeNumber, 7)
    .option('--file <path>', 'keep the data in this file, and use what is already in it (default: in memory)')
    .addOption(new Option('--chaos <preset>', 'how badly it behaves').choices(chaosNames).default('calm'))
    .option('--now <time>', 'the time at which its clock starts (default: the time of this machine)', toMoment())
    .option('--behaviour <name=value>', 'set one switch on top of the preset; may be given several times', switchValue)
    .addHelpText(
      'after',
      `\nPresets of --chaos:\n${presets}\n\nSwitches: ${switchNames.join(', ')}; docs/sandbox.md explains them.`,
    )
    .action((flags: Flags) => serve(context, flags));
}

async function serve(context: CliContext, flags: Flags): Promise<void> {
  // Named one by one: the flags of every command are among them.
  const { port, key, users, packages, emails, coupons, seed, file, chaos, now, behaviour } = flags;
  const options = { port, key, users, packages, emails, coupons, seed, file, chaos, now };
  const set = readBehaviour(behaviour ?? {});
  if (flags.users >= 100_000) printNote(context, `generating ${grouped(flags.users)} users …`);
  const sandbox = await openSandbox({ ...options, behaviour: set, signal: context.signal });
  try {
    announce(context, sandbox, flags);
    await waitForStop(context);
  } finally {
    await sandbox.close();
  }
  const interruption = interruptionOf(context.signal);
  if (interruption !== undefined) context.exit(interruption.exitCode);
}

function announce(context: CliContext, sandbox: Sandbox, flags: Flags): void {
  if (context.json()) {
    // On one line, so that a program can wait for it and read it.
    const { url, key } = sandbox;
    printLine(context, JSON.stringify({ url, key, pid: process.pid }));
    return;
  }
  const count = (resource: 'users' | 'packages' | 'emails' | 'coupons'): string =>
    `${grouped(sandbox.control.count(resource))} ${resource}`;
  printLines(context, [
    `The sandbox serves ${paint(context, 'bold', sandbox.url)} (${flags.chaos})`,
    `with ${count('users')}, ${count('packages')}, ${count('emails')}, ${count('coupons')}.`,
    '',
    'In another terminal:',
    `  export ADMIN_MIRROR_BASE_URL=${sandbox.url} ADMIN_MIRROR_API_KEY=${sandbox.key}`,
    '  npx admin-mirror sync',
    '',
    'Press Ctrl+C to stop it.',
  ]);
}
