/** `bulk`: many changes from a file, planned, approved, sent once and accounted for. */
import type { Command } from 'commander';
import { addAgainFlags, addPlanFlags, addSendFlags, type PlanFlags, type SendFlags, toCount } from './bulk/flags.ts';
import type { ResolveFlags } from './bulk/look.ts';
import type { CliContext } from './context.ts';

export function define(program: Command, context: CliContext): void {
  const bulk = program
    .command('bulk')
    .description(
      'Send many changes from a .csv, .tsv, .xlsx or .jsonl file: each once, with a record of what became of it. ' +
        'Nothing is ever sent a second time by itself.',
    );
  defineSending(bulk, context);
  defineLooking(bulk, context);
}

function defineSending(bulk: Command, context: CliContext): void {
  const plan = bulk
    .command('plan')
    .description('Read and check every row, look the users up, show what would happen; send nothing.')
    .argument('<action>', 'what the rows do: balance')
    .argument('<file>', 'a .csv, .tsv, .xlsx or .jsonl file')
    .action(async (action: string, file: string, flags: PlanFlags) =>
      (await import('./bulk/plan.ts')).runPlan(context, action, file, flags),
    );
  addAgainFlags(addPlanFlags(plan));

  const apply = bulk
    .command('apply')
    .description('Send a planned batch, after the net total was typed or the hash of the plan was given.')
    .argument('<batch>', 'as `bulk plan` names it')
    .option('--approve <hash>', 'the hash of the plan, where nobody can be asked')
    .action(async (batch: string, flags: SendFlags) =>
      (await import('./bulk/send.ts')).runApply(context, batch, flags),
    );
  addAgainFlags(addSendFlags(apply));

  const run = bulk
    .command('run')
    .description('Plan, then send if every row is valid.')
    .argument('<action>', 'what the rows do: balance')
    .argument('<file>', 'a .csv, .tsv, .xlsx or .jsonl file')
    .option('--yes', 'do not ask before it is sent')
    .action(async (action: string, file: string, flags: PlanFlags & SendFlags) =>
      (await import('./bulk/send.ts')).runRun(context, action, file, flags),
    );
  addAgainFlags(addSendFlags(addPlanFlags(run)));

  const resume = bulk
    .command('resume')
    .description('Go on with a batch that was stopped: settle what was under way, then send the rest.')
    .argument('<batch>', 'as `bulk plan` names it')
    .action(async (batch: string, flags: SendFlags) =>
      (await import('./bulk/send.ts')).runResume(context, batch, flags),
    );
  addSendFlags(resume);
}

function defineLooking(bulk: Command, context: CliContext): void {
  bulk
    .command('status')
    .description('Show a batch, or all of them. Ends with 8 while an outcome is unknown.')
    .argument('[batch]', 'as `bulk plan` names it')
    .action(async (batch: string | undefined) => (await import('./bulk/look.ts')).runStatus(context, batch));
  bulk
    .command('results')
    .description(
      'Write every row of a batch to applied.csv, rejected.csv, unknown.csv or unprocessed.csv, and a manifest.',
    )
    .argument('<batch>', 'as `bulk plan` names it')
    .option('-o, --output <folder>', 'where to; bulk-<batch> in the working folder where it is left out')
    .action(async (batch: string, flags: { readonly output?: string }) =>
      (await import('./bulk/look.ts')).runResults(context, batch, flags),
    );
  bulk
    .command('resolve')
    .description('Say what became of a row that nobody but a person can tell, or send a row once more.')
    .argument('<batch>', 'as `bulk plan` names it')
    .requiredOption('--row <n>', 'the row as the file counts it; the header is row 1', toCount)
    .option('--applied', 'it happened')
    .option('--not-applied', 'it did not happen')
    .option('--resend', 'send it once more with the next `bulk resume`; only with --not-applied')
    .requiredOption('--reason <text>', 'how that is known; it stays on record')
    .action(async (batch: string, flags: ResolveFlags) =>
      (await import('./bulk/look.ts')).runResolve(context, batch, flags),
    );
  bulk
    .command('undo')
    .description('Plan the batch that takes another one back: each applied row once. `bulk apply` sends it.')
    .argument('<batch>', 'the one to take back')
    .action(async (batch: string) => (await import('./bulk/plan.ts')).runUndo(context, batch));
}
