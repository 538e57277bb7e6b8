/** `forget`: erases one person from the mirror and keeps them out of later syncs. */
import type { Command } from 'commander';
import { IncompleteError } from '../model/errors.ts';
import { systemClock } from '../model/time.ts';
import type { TableCounts } from '../model/identity.ts';
import { promptForConsent } from './prompts.ts';
import type { CliContext } from './context.ts';
import { alignedLines, printNote, printResult } from './output.ts';
import { findUser, type ForgetReceipt, forgetUser, undoForget } from '../mirror/forget.ts';
import { openForget } from '../mirror/open.ts';

interface Flags {
  readonly undo?: true;
  readonly yes?: true;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('forget')
    .description(
      'Erase one person from the mirror: the user, emails, related records, earlier versions and every text about them. They do ' +
        'not come back with the next sync. The server is not changed.',
    )
    .argument('<user>', 'an id, or an email or user name in the mirror')
    .option('--undo', 'let the person come back with the next sync; takes the id')
    .option('--yes', 'do not ask before erasing')
    .addHelpText(
      'after',
      `
Only the ids of the user and of each email are kept, so that a sync recognises and skips them. Existing exports, snapshots
and backups are not changed.

Examples:
  admin-mirror forget 1234
  admin-mirror forget anna@example.com --yes --json
  admin-mirror forget 1234 --undo`,
    )
    .action((user: string, flags: Flags) => (flags.undo ? undo(context, user) : forget(context, user, flags)));
}

async function forget(context: CliContext, named: string, flags: Flags): Promise<void> {
  const ports = await openForget(context.settings(), context.actor(), systemClock, context.releases);
  const user = findUser(ports.store, named);
  await promptForConsent(context, { doing: `forget user ${user}`, typed: String(user) }, flags.yes === true);
  const receipt = await forgetUser(ports, user);
  printResult(context, receipt, receiptLines(receipt));
  printNote(context, 'Existing exports, snapshots and backups were not changed.');
  if (receipt.scrubbed) return;
  throw new IncompleteError(`user ${user} is removed, but another process still reads an earlier state of the mirror`, {
    advice: `Stop running exports and queries, then run \`admin-mirror forget ${user}\` again.`,
  });
}

async function undo(context: CliContext, named: string): Promise<void> {
  const ports = await openForget(context.settings(), context.actor(), systemClock, context.releases);
  const receipt = await undoForget(ports, named);
  const { user, at, released } = receipt;
  const line = `user ${user} may come back with the next sync (${at})`;
  printResult(context, receipt, [line, ...countLines('no longer kept out', released)]);
}

function receiptLines({ user, at, removed, suppressed, journal, scrubbed }: ForgetReceipt): string[] {
  const journals = { none: 'there is none', searched: 'searched' };
  return [
    `user ${user} was forgotten at ${at}`,
    ...countLines('removed', removed),
    ...countLines('kept out', suppressed),
    `journal: ${journals[journal]}`,
    `files:   ${scrubbed ? 'rewritten, nothing about the user is left in them' : 'NOT clean yet'}`,
  ];
}

function countLines(head: string, counts: TableCounts): string[] {
  const lines = alignedLines(Object.entries(counts).map(([table, count]) => [`  ${table}`, String(count)]));
  return [`${head}:${lines.length === 0 ? ' nothing' : ''}`, ...lines];
}
