/** `store copy`: copies journal, accounts, jobs and alerts from their files to the store that several machines share, or back. */
import { type Command, Option } from 'commander';
import { moveStore } from '../journal/move-store.ts';
import { type MoveDirection, openMove } from '../journal/open-move.ts';
import { counted } from '../model/text.ts';
import { systemClock } from '../model/time.ts';
import { workerFileOf } from '../worker/open-store.ts';
import { workerToMove } from '../worker/store/sqlite.ts';
import type { CliContext } from './context.ts';
import { printNote, printResult } from './output.ts';

interface Flags {
  readonly to: MoveDirection;
}

export function define(program: Command, context: CliContext): void {
  const store = program
    .command('store')
    .description('Move journal, accounts, jobs and alerts between files and a shared store.');
  store
    .command('copy')
    .description(
      'Copy journal, accounts, jobs and alerts to the other place, check the chain there, and close the old place, so ' +
        'that nothing is written there any more. The new place must be empty. If the command was killed, run it again: it continues.',
    )
    .addOption(
      new Option('--to <place>', 'the database of store.shared, or the files of store.journal and store.mirror')
        .choices(['shared', 'files'])
        .makeOptionMandatory(),
    )
    .addHelpText(
      'after',
      `
Stop the worker first, and wait until no batch is being sent.

Examples:
  admin-mirror store copy --to shared
  admin-mirror store copy --to files`,
    )
    .action((flags: Flags) => run(context, flags));
}

async function run(context: CliContext, { to }: Flags): Promise<void> {
  const settings = context.settings();
  const worker = workerToMove(workerFileOf(settings.store.mirror), systemClock);
  const { source, target } = await openMove(settings, to, worker, systemClock, context.releases);
  const report = await moveStore(source, target, context.actor(), systemClock);
  const rows = Object.values(report.rows).reduce((sum, each) => sum + each, 0);
  printResult(context, report, [
    `from  ${report.from}, now closed`,
    `to    ${report.to}`,
    `      ${counted(rows, 'row')} in ${counted(Object.keys(report.rows).length, 'table')}`,
    `chain whole: ${counted(report.steps, 'step')}, head ${report.head.step} ${report.head.hash}`,
  ]);
  if (to === 'files' && !context.json()) {
    printNote(context, 'Now remove store.shared from the settings of every machine.');
  }
}
