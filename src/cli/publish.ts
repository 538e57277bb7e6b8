/** `publish`: writes the mirror to PostgreSQL, or compares the two. */
import { type Command, Option } from 'commander';
import { counted, grouped } from '../model/text.ts';
import { runId } from '../model/program.ts';
import { earliest, systemClock } from '../model/time.ts';
import { openPublisher } from '../data/open-publish.ts';
import type { CheckReport } from '../data/publish/check.ts';
import type { PublishReport } from '../data/publish/publish.ts';
import { addAllFlags, type AllFlags, runForAll } from './all.ts';
import type { CliContext } from './context.ts';
import { openSurroundings } from './logger.ts';
import { freshWords, printResult } from './output.ts';
import { openShareWatch } from './progress.ts';

interface Flags extends AllFlags {
  readonly full?: true;
  readonly check?: true;
}

export function define(program: Command, context: CliContext): void {
  const command = program
    .command('publish')
    .description(
      'Write the mirror into a schema of PostgreSQL: everything the first time, then what changed. Readers there always see a ' +
        'state that the mirror was in. May run during a sync.',
    )
    .addOption(new Option('--full', 'write every row again, and undo what others changed there').conflicts('check'))
    .option('--check', 'compare every table there with the mirror, and change neither; ends with 6 if one differs')
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror publish
  admin-mirror publish --check`,
    );
  addAllFlags(command).action(async (flags: Flags) => {
    if (flags.all)
      return runForAll(
        context,
        command,
        flags.check ? { one: verdict, ends: { 0: 'equal', 6: 'different' } } : { one: words },
      );
    await run(context, flags);
  });
}

async function run(context: CliContext, flags: Flags): Promise<void> {
  const { run = runId(systemClock) } = context;
  const surroundings = openSurroundings(context, () => ({ run }));
  const watch = openShareWatch(context, flags.check ? 'comparing' : 'publishing');
  const print = (report: unknown, lines: readonly string[]) => {
    watch.close();
    printResult(context, report, lines);
  };
  try {
    const publisher = openPublisher(surroundings, watch.progress);
    if (publisher.password !== undefined) context.keepSecret(publisher.password.reveal());
    if (flags.check) {
      const report = await publisher.check();
      print(report, checkLines(report));
      if (!report.equal) context.exit(6);
    } else {
      const report = await publisher.publish({ whole: flags.full ?? false });
      print(report, [`${report.schema}: ${words(report)}`]);
    }
  } finally {
    watch.close();
  }
}

/** `12 rows written, 3 deleted, fresh as of …`. */
function words(report: unknown): string {
  const { mode, tables, fresh_as_of: times } = report as PublishReport;
  const sum = (key: 'written' | 'deleted') => Object.values(tables).reduce((total, each) => total + each[key], 0);
  const fresh = earliest(Object.values(times));
  const deleted = mode === 'whole' ? '' : `, ${grouped(sum('deleted'))} deleted`;
  return `${mode === 'whole' ? 'everything, ' : ''}${counted(sum('written'), 'row')} written${deleted}, ${freshWords(fresh)}`;
}

function verdict(report: unknown): string {
  const { tables, equal } = report as CheckReport;
  const unequal = Object.entries(tables).filter(([, each]) => !each.equal);
  return equal ? 'equal' : unequal.map(([name]) => `${name} different`).join(', ');
}

function checkLines({ tables, equal, waiting }: CheckReport): string[] {
  const width = Math.max(...Object.keys(tables).map((name) => name.length));
  const lines = Object.entries(tables).flatMap(([name, each]) => {
    const there = each.published === null ? 'not there' : `${grouped(each.published.rows)} published`;
    const line = `${name.padEnd(width)}  ${each.equal ? 'equal    ' : 'different'}  ${grouped(each.mirror.rows)} in the mirror, ${there}`;
    const kinds = [
      ['missing there', each.missing],
      ['only there', each.extra],
      ['different', each.different],
    ] as const;
    return [line, ...kinds.flatMap(([kind, keys]) => (keys.length === 0 ? [] : [`  ${kind}: ${keys.join(', ')}`]))];
  });
  const next =
    waiting === 0 ? '' : `; ${counted(waiting, 'change')} of the mirror will be there after the next \`publish\``;
  const advice = equal ? '' : '; `admin-mirror publish --full` repairs it';
  return [...lines, `${equal ? 'equal' : 'different'}${next}${advice}`];
}
