import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { createContext } from '../../src/cli/context.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { jobKinds } from '../../src/model/job.ts';
import { refused } from '../../src/settings/block.ts';
import { flagOf, jobRules } from '../../src/settings/jobs.ts';

const stream = Object.assign(new PassThrough(), { isTTY: false }) as unknown as NodeJS.WriteStream & NodeJS.ReadStream;
const world = {
  stdout: stream,
  stderr: stream,
  stdin: () => stream,
  signal: AbortSignal.abort(),
  environment: {},
  folder: '/',
};
const program = await wholeProgram(createContext(world, () => ({})));

/** A sample value of each type that an option may take; an option uses the first that it accepts. */
const samples = [true, 3, 'users', 'text', { name: 'value' }];

const options = jobKinds.flatMap((kind) =>
  Object.entries(jobRules[kind].options).map(([name, option]) => ({ kind, name, option })),
);

describe('the settings of jobs', () => {
  test.each(jobKinds)('of %s belong to a command', (kind) => {
    expect(commands.map(({ name }) => name)).toContain(jobRules[kind].command[0]);
  });

  test.each(options)('of $kind: $name is a flag of its command', ({ kind, name, option }) => {
    expect(samples.some((each) => option.read(each) !== refused)).toBe(true);
    const command = program.commands.find((each) => each.name() === jobRules[kind].command[0]);
    const flags = command?.options.map(({ long }) => long) ?? [];
    const takes = name === jobRules[kind].operand ? command?.registeredArguments.length === 1 : undefined;
    expect(takes ?? flags.includes(`--${flagOf(name)}`)).toBe(true);
  });
});
