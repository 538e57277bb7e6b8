/** `doctor`: checks everything that a first run needs, and reports all problems at once. */
import type { Command } from 'commander';
import { counted } from '../model/text.ts';
import type { Finding } from '../setup/check.ts';
import { examine } from '../setup/doctor.ts';
import { addAllFlags, type AllFlags, runForAll } from './all.ts';
import type { CliContext } from './context.ts';
import { paint, pasteable, printResult } from './output.ts';

export function define(program: Command, context: CliContext): void {
  const command = program
    .command('doctor')
    .description(
      'Check settings, key, proxy, certificates, server, mirror, journal, approvers, reports, jobs, alerts and disk. Show what ' +
        'is wrong and where to set it. Sends no alert and no ping. Changes nothing.\n' +
        'Ends with 0, or with the code of the first failed check: 2 settings or files, 3 key, 4 server.',
    );
  addAllFlags(command).action(async (flags: AllFlags) => {
    if (flags.all) return runForAll(context, command, { one: failureWords, ends });
    const reading = context.reading();
    const place = { ...context, reading, settings: reading.rest };
    const { findings: checks, capabilities } = await examine(place, context.releases);
    const profile = reading.rest.profile ?? null;
    const document = { profile, ...documentOf(context, checks), capabilities };
    printResult(context, document, linesOf(context, checks));
    context.exit(checks.find((each) => each.state === 'fail')?.exitCode ?? 0);
  });
}

const wrong = 'with problems';
const ends = { 0: 'good', 2: wrong, 3: wrong, 4: wrong };

function failureWords(report: unknown): string {
  const { checks } = report as ReturnType<typeof documentOf>;
  const failed = checks.filter(({ state }) => state === 'fail');
  return failed.map(({ name, finding }) => `${name}: ${finding}`).join('; ');
}

function documentOf(context: CliContext, checks: readonly Finding[]) {
  return {
    ok: checks.every((each) => each.state !== 'fail'),
    checks: checks.map(({ name, state, finding, advice }) => ({
      name,
      state,
      finding: pasteable(context, finding),
      advice: advice === undefined ? null : pasteable(context, advice),
    })),
  };
}

function linesOf(context: CliContext, checks: readonly Finding[]): string[] {
  const lines = findingLines(context, checks, context.stdout);
  const count = (state: Finding['state']) => checks.filter((each) => each.state === state).length;
  const verdict =
    count('fail') === 0 ? 'nothing is wrong' : `${count('fail')} of ${counted(checks.length, 'check')} failed`;
  const rest = count('warn') > 0 ? `, ${count('warn')} to look at` : '';
  return [...lines, '', `${verdict}${rest}`];
}

const styles = { ok: 'green', warn: 'yellow', fail: 'red', skipped: 'dim' } as const;

/** Returns a line for each finding, and below it what to do. */
export function findingLines(context: CliContext, findings: readonly Finding[], stream: NodeJS.WriteStream): string[] {
  const width = Math.max(...findings.map((each) => each.name.length));
  return findings.flatMap(({ name, state, finding, advice }) => [
    `${paint(context, styles[state], state.padEnd(7), stream)}  ${name.padEnd(width)}  ${finding}`,
    ...(advice === undefined ? [] : [`${' '.repeat(width + 11)}${advice}`]),
  ]);
}
