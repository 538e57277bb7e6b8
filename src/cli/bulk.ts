/** `bulk`: plans, approves and sends many changes from a file, each once, and accounts for them. */
import type { Command } from 'commander';
import { defineApproving } from './bulk/approve.ts';
import { defineLooking } from './bulk/look.ts';
import { defineMaking, definePlanning } from './bulk/plan.ts';
import { defineReceipt } from './bulk/receipt.ts';
import { defineReconcile } from './bulk/reconcile.ts';
import { defineSending } from './bulk/send.ts';
import type { CliContext } from './context.ts';

export function define(program: Command, context: CliContext): void {
  const bulk = program
    .command('bulk')
    .description(
      'Send many changes from a .csv, .tsv, .xlsx or .jsonl file: each once, with a record of its outcome. ' +
        'Nothing is ever sent a second time automatically.',
    );
  defineMaking(bulk, context);
  definePlanning(bulk, context);
  defineApproving(bulk, context);
  defineSending(bulk, context);
  defineReconcile(bulk, context);
  defineLooking(bulk, context);
  defineReceipt(bulk, context);
}
