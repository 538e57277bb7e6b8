import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { createContext } from '../../src/cli/context.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { jobKinds } from '../../src/model/job.ts';
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

const options = jobKinds.flatMap((kind) => Object.keys(jobRules[kind].options).map((name) => ({ kind, name })));

describe('the settings of jobs', () => {
  test.each(jobKinds)('of %s belong to a command', (kind) => {
    expect(commands.map(({ name }) => name)).toContain(jobRules[kind].command[0]);
  });

  test.each(options)('of $kind: $name is a flag of its command', ({ kind, name }) => {
    const command = program.commands.find((each) => each.name() === jobRules[kind].command[0]);
    const flags = command?.options.map(({ long }) => long) ?? [];
    const takes = name === jobRules[kind].operand ? command?.registeredArguments.length === 1 : undefined;
    expect(takes ?? flags.includes(`--${flagOf(name)}`)).toBe(true);
  });
});
