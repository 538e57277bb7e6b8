/** `store copy`: copies journal, accounts, jobs and alerts from their files to the store that several machines share. */
import type { Command } from 'commander';
import { moveStore } from '../journal/move-store.ts';
import { openMove } from '../journal/open-move.ts';
import { counted } from '../model/text.ts';
import { systemClock } from '../model/time.ts';
import { workerFileOf } from '../worker/open-store.ts';
import { workerToMove } from '../worker/store/sqlite.ts';
import type { CliContext } from './context.ts';
import { printResult } from './output.ts';

export function define(program: Command, context: CliContext): void {
  const store = program.command('store').description('Move journal, accounts, jobs and alerts to a shared store.');
  store
    .command('copy')
    .description(
      'Copy journal, accounts, jobs and alerts from their files to the database of store.shared, check the chain there, and close ' +
        'the files, so that nothing is written to them any more. The database must be empty. If the command was killed, run it ' +
        'again: it continues.',
    )
    .addHelpText(
      'after',
      `
Stop the worker first, and wait until no batch is being sent.

Example:
  admin-mirror store copy`,
    )
    .action(() => run(context));
}

async function run(context: CliContext): Promise<void> {
  const settings = context.settings();
  const worker = workerToMove(workerFileOf(settings.store.mirror), systemClock);
  const { source, target } = await openMove(settings, worker, systemClock, context.releases);
  const report = await moveStore(source, target, context.actor(), systemClock);
  const rows = Object.values(report.rows).reduce((sum, each) => sum + each, 0);
  printResult(context, report, [
    `from  ${report.from}, now closed`,
    `to    ${report.to}`,
    `      ${counted(rows, 'row')} in ${counted(Object.keys(report.rows).length, 'table')}`,
    `chain whole: ${counted(report.steps, 'step')}, head ${report.head.step} ${report.head.hash}`,
  ]);
}
