/** `schema`: what every table and column of the mirror means. Needs no mirror file, and says what one lacks. */
import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { OperatorError } from '../model/errors.ts';
import type { InventoryTable } from '../export/inventory.ts';
import type { Relation } from '../store/ports/reading.ts';
import type { CliContext } from './context.ts';
import { paint, printJson, printLine, printNote, printWarning } from './output.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('schema')
    .description('Show the data dictionary of the mirror: every table and column, its type, meaning and source.')
    .argument('[table]', 'only this table or view')
    .addHelpText(
      'after',
      `
"null" marks a column that the API's reference, or the mirror, leaves without a value at times. A field that a server
does not send at all is null in any column.

Examples:
  admin-mirror schema
  admin-mirror schema users
  admin-mirror schema --json`,
    )
    .action((table: string | undefined) => run(context, table));
}

async function run(context: CliContext, table: string | undefined): Promise<void> {
  const { inventory, inventoryOf } = await import('../export/inventory.ts');
  const file = context.settings().store.mirror;
  const all = inventory(await relationsIn(context, file));
  const shown = table === undefined ? all : [inventoryOf(all, table)];
  if (context.json()) {
    printJson(context, { file, tables: shown });
    return;
  }
  for (const [index, each] of shown.entries()) {
    if (index > 0) printLine(context, '');
    for (const line of linesOf(context, each)) printLine(context, line);
  }
}

/** What the file has; undefined where there is none that can be read, which the dictionary does not need. */
async function relationsIn(context: CliContext, file: string): Promise<readonly Relation[] | undefined> {
  if (!existsSync(file)) {
    printNote(context, `There is no mirror at ${file} yet; this is what \`admin-mirror sync\` makes.`);
    return undefined;
  }
  const { openReading, withReleases } = await import('../app.ts');
  try {
    return await withReleases(async (releases) => {
      const snapshot = (await openReading(context.settings(), releases)).snapshot();
      releases.add({ close: () => snapshot.release() });
      return snapshot.relations();
    });
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
  const widths = [0, 1, 2, 3].map((index) => Math.max(...rows.map((row) => row[index]?.length ?? 0)));
  const missing = table.in_file === false ? ' (not in this file)' : '';
  return [
    `${paint(context, 'bold', table.name)} ${table.kind}${missing}: ${table.summary}`,
    ...rows.map((row) => `  ${row.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ')}`.trimEnd()),
    `  ${paint(context, 'dim', 'example:')} ${table.example}`,
  ];
}
