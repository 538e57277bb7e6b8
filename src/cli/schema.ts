/** `schema`: explains every table and column of the mirror. Needs no mirror file, but marks what an existing one lacks. */
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { OperatorError } from '../model/errors.ts';
import type { Relation } from '../data/reading-types.ts';
import type { CliContext } from './context.ts';
import { alignedLines, paint, printNote, printResult, printWarning } from './output.ts';
import { inventory, inventoryOf, type InventoryTable } from '../data/inventory.ts';
import { openReading } from '../data/open.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('schema')
    .description('Show the data dictionary of the mirror: every table and column, its type, meaning and source.')
    .argument('[table]', 'only this table or view')
    .addHelpText(
      'after',
      `
"null" marks a column that may have no value, by the API's reference or because of the mirror. A field that a server does
not send at all is null in any column. Each column's source is document (a field of the API), relation (of related records)
or mirror (kept by this program).

Examples:
  admin-mirror schema
  admin-mirror schema users`,
    )
    .action((table: string | undefined) => run(context, table));
}

function run(context: CliContext, table: string | undefined): void {
  const file = context.settings().store.mirror;
  const all = inventory(relationsIn(context, file));
  const tables = table === undefined ? all : [inventoryOf(all, table)];
  const lines = tables.flatMap((each) => ['', ...linesOf(context, each)]).slice(1);
  printResult(context, { file, tables }, lines);
}

/** Returns the tables of the file; undefined if it cannot be read, since the dictionary does not need it. */
function relationsIn(context: CliContext, file: string): readonly Relation[] | undefined {
  if (!existsSync(file)) {
    printNote(context, `There is no mirror at ${file} yet. This is what \`admin-mirror sync\` will create.`);
    return undefined;
  }
  try {
    const snapshot = openReading(context.settings(), context.releases).snapshot();
    context.releases.add({ close: () => snapshot.release() });
    return snapshot.relations();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    printWarning(context, error.message);
    return undefined;
  }
}

function linesOf(context: CliContext, table: InventoryTable): string[] {
  const rows = table.columns.map((column) => [
    column.name,
    column.type,
    column.nullable ? 'null' : '',
    column.source,
    `${column.in_file === false ? '(not in this file) ' : ''}${column.meaning}`,
  ]);
  const missing = table.in_file === false ? ' (not in this file)' : '';
  return [
    `${paint(context, 'bold', table.name)} ${table.kind}${missing}: ${table.summary}`,
    ...alignedLines(rows).map((line) => `  ${line}`),
    `  ${paint(context, 'dim', 'example:')} ${table.example}`,
  ];
}
