/** `bulk`: many changes from a file, planned, approved, sent once and accounted for. */
import { Argument, type Command, Option } from 'commander';
import { actionNames, actionOf } from '../bulk/actions.ts';
import { receiptFormats } from '../bulk/receipt.ts';
import { tableFormats } from '../model/table.ts';
import {
  addAgainFlags,
  addPagerFlag,
  addPlanFlags,
  addReviewFlags,
  addSendFlags,
  type PlanFlags,
  type SendFlags,
} from './bulk/flags.ts';
import { toCount } from './flag-values.ts';
import { type ApproveFlags, type DenyFlags, runApprove, runDeny, runSubmit, type SubmitFlags } from './bulk/approve.ts';
import type { ReviewFlags } from './bulk/review.ts';
import type { CliContext } from './context.ts';
import {
  type ResolveFlags,
  type ResultsFlags,
  runResolve,
  runResults,
  runStatus,
  type StatusFlags,
} from './bulk/look.ts';
import { type MakeFlags, runSelect, runTemplate, type SelectFlags } from './bulk/make.ts';
import { type ReceiptFlags, runReceipt } from './bulk/receipt.ts';
import { runPlan, runUndo } from './bulk/plan.ts';
import { runRehearsal } from './bulk/rehearse.ts';
import { runApply, runResume, runRun } from './bulk/send.ts';
import { defineReconcile } from './bulk/reconcile.ts';

export function define(program: Command, context: CliContext): void {
  const bulk = program
    .command('bulk')
    .description(
      'Send many changes from a .csv, .tsv, .xlsx or .jsonl file: each once, with a record of what became of it. ' +
        'Nothing is ever sent a second time by itself.',
    );
  defineMaking(bulk, context);
  defineApproving(bulk, context);
  defineSending(bulk, context);
  defineLooking(bulk, context);
}

function actionArgument(): Argument {
  // Checked by what knows the nearest of them.
  return new Argument('<action>', 'what the rows do').choices(actionNames).argParser((name) => actionOf(name).name);
}

function defineMaking(bulk: Command, context: CliContext): void {
  bulk
    .command('template')
    .description('Write an example file for an action: its columns, and rows to be replaced by your own.')
    .addArgument(actionArgument())
    .option('-o, --output <file>', 'a new .csv, .tsv or .jsonl file (default: standard output)')
    .option('--force', 'replace the file if it is there')
    .action(async (action: string, flags: MakeFlags) => runTemplate(context, action, flags));
  bulk
    .command('select')
    .description(
      'Write the rows of a query on the mirror to a file for an action; refuse what the action would refuse. ' +
        'Nothing is sent.',
    )
    .addArgument(actionArgument())
    .requiredOption('--sql <sql>', "one SELECT whose columns are the action's")
    .option('-o, --output <file>', 'a new .csv, .tsv or .jsonl file (default: standard output)')
    .option('--force', 'replace the file if it is there')
    .option('--allow-force', 'as for `bulk plan delete`')
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror bulk select balance -o credit.csv --sql \
    "SELECT id AS user_id, 'add' AS type, 5 AS amount FROM users WHERE status = 'active'"
  admin-mirror bulk select notify -o note.csv --sql \
    "SELECT id AS user_id, 'warning' AS type, 'bx bx-time' AS icon, 'Top up soon' AS message FROM users WHERE balance < 1"`,
    )
    .action(async (action: string, flags: SelectFlags) => runSelect(context, action, flags));
}

function defineApproving(bulk: Command, context: CliContext): void {
  const as = 'your account; the password is asked for, or is the one line of standard input';
  const submit = bulk
    .command('submit')
    .description('Hand a planned batch over for approval by another person; send nothing.')
    .argument('<batch>', 'as `bulk plan` names it')
    .option('--note <text>', 'words for whoever approves it')
    .action(async (batch: string, flags: SubmitFlags) => runSubmit(context, batch, flags));
  addAgainFlags(submit);
  bulk
    .command('approve')
    .description(
      'Approve a batch that another person made, as an account with the role approver, by its password; send nothing.',
    )
    .argument('<batch>', 'as `bulk plan` names it')
    .option('--as <name>', as)
    .option('--hash <hash>', 'approve nothing but this: approval.hash of `bulk status --json`')
    .action(async (batch: string, flags: ApproveFlags) => runApprove(context, batch, flags));
  bulk
    .command('deny')
    .description('Deny a batch that waits for approval or has it: earlier approvals of it hold no longer.')
    .argument('<batch>', 'as `bulk plan` names it')
    .option('--as <name>', as)
    .requiredOption('--reason <text>', 'why; it stays on record')
    .action(async (batch: string, flags: DenyFlags) => runDeny(context, batch, flags));
}

function defineSending(bulk: Command, context: CliContext): void {
  const plan = bulk
    .command('plan')
    .description('Read and check every row, look the users up, show what would happen; send nothing.')
    .addArgument(actionArgument())
    .argument('<file>', 'a .csv, .tsv, .xlsx or .jsonl file')
    .action(async (action: string, file: string, flags: PlanFlags & ReviewFlags) =>
      runPlan(context, action, file, flags),
    );
  addReviewFlags(addAgainFlags(addPlanFlags(plan)));

  const apply = bulk
    .command('apply')
    .description('Send a planned batch, after the net total was typed or the hash of the plan was given.')
    .argument('<batch>', 'as `bulk plan` names it')
    .option('--approve <hash>', 'the hash of the plan, where nobody can be asked')
    .action(async (batch: string, flags: SendFlags) => runApply(context, batch, flags));
  addAgainFlags(addSendFlags(apply));

  const run = bulk
    .command('run')
    .description('Plan, then send if every row is valid.')
    .addArgument(actionArgument())
    .argument('<file>', 'a .csv, .tsv, .xlsx or .jsonl file')
    .option('--yes', 'do not ask before it is sent')
    .option('--rehearse', 'send it to a sandbox that is loaded from the mirror; the server is not asked anything')
    .action(async (action: string, file: string, flags: PlanFlags & SendFlags) =>
      flags.rehearse === true ? runRehearsal(context, action, file, flags) : runRun(context, action, file, flags),
    );
  addAgainFlags(addSendFlags(addPlanFlags(run)));

  const resume = bulk
    .command('resume')
    .description('Go on with a batch that was stopped: settle what was under way, then send the rest.')
    .argument('<batch>', 'as `bulk plan` names it')
    .action(async (batch: string, flags: SendFlags) => runResume(context, batch, flags));
  addAgainFlags(addSendFlags(resume));

  defineReconcile(bulk, context);
}

function defineLooking(bulk: Command, context: CliContext): void {
  const status = bulk
    .command('status')
    .description('Show a batch, or all of them. Ends with 8 while an outcome is unknown.')
    .argument('[batch]', 'as `bulk plan` names it; `last` is the newest')
    .option('--rows', 'every row of the batch, with what deserves a look on top')
    .action(async (batch: string | undefined, flags: StatusFlags) => runStatus(context, batch, flags));
  addPagerFlag(status);
  bulk
    .command('results')
    .description(
      'Write every row of a batch to a file of those that were applied, rejected, are unknown or were not processed, ' +
        'and a manifest.',
    )
    .argument('<batch>', 'as `bulk plan` names it; `last` is the newest')
    .option('-o, --output <folder>', 'where to; bulk-<batch> in the working folder where it is left out')
    .addOption(new Option('--format <format>', 'of the files').choices(tableFormats).default('csv'))
    .option('--force', 'replace files there that were changed since they were written')
    .action(async (batch: string, flags: ResultsFlags) => runResults(context, batch, flags));
  bulk
    .command('receipt')
    .description(
      'Write one signed document about a batch: who planned, approved and sent it, what became of every row and what proves it. ' +
        '`audit --check-receipt` shows later that nothing in it was changed.',
    )
    .argument('<batch>', 'as `bulk plan` names it; `last` is the newest')
    .option('-o, --output <file>', 'a new file (default: receipt-<batch> in the working folder)')
    .addOption(
      new Option(
        '--format <format>',
        'for programs, or a page for people and printers (default: by the name, else json)',
      ).choices(receiptFormats),
    )
    .option('--force', 'replace the file if it is there')
    .action(async (batch: string, flags: ReceiptFlags) => runReceipt(context, batch, flags));
  bulk
    .command('resolve')
    .description('Say what became of a row that nobody but a person can tell, or send a row once more.')
    .argument('<batch>', 'as `bulk plan` names it')
    .requiredOption('--row <n>', 'the row as the file counts it; the header is row 1', toCount)
    .option('--applied', 'it happened')
    .option('--not-applied', 'it did not happen')
    .option('--resend', 'send it once more with the next `bulk resume`; only with --not-applied')
    .requiredOption('--reason <text>', 'how that is known; it stays on record')
    .action(async (batch: string, flags: ResolveFlags) => runResolve(context, batch, flags));
  const undo = bulk
    .command('undo')
    .description('Plan the batch that takes another one back: each applied row once. `bulk apply` sends it.')
    .argument('<batch>', 'the one to take back')
    .action(async (batch: string, flags: ReviewFlags) => runUndo(context, batch, flags));
  addReviewFlags(undo);
}
