/** `schema`: explains every table and column of the mirror. Needs no mirror file, but marks what an existing one lacks. */
import { Buffer } from 'node:buffer';
import { existsSync } from 'node:fs';
import { Readable } from 'node:stream';
import { type Command, Option } from 'commander';
import { OperatorError } from '../model/errors.ts';
import type { Relation } from '../store/reading-types.ts';
import type { CliContext } from './context.ts';
import { alignedLines, paint, printNote, printWarning } from './output.ts';
import { writeToStream } from '../data/job-process.ts';
import { inventory, inventoryOf, type InventoryTable, dictionaryMarkdown } from '../data/inventory.ts';
import { openReading } from '../data/open.ts';

const schemaFormats = ['text', 'markdown', 'json'] as const;
type SchemaFormat = (typeof schemaFormats)[number];

interface SchemaFlags {
  readonly format: SchemaFormat;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('schema')
    .description('Show the data dictionary of the mirror: every table and column, its type, meaning and source.')
    .argument('[table]', 'only this table or view')
    .addOption(
      new Option('--format <format>', 'how to print it; --json means json').choices(schemaFormats).default('text'),
    )
    .addHelpText(
      'after',
      `
"null" marks a column that may have no value, by the API's reference or because of the mirror. A field that a server does
not send at all is null in any column. Each column's source is document (a field of the API), relation (of related records)
or mirror (kept by this program).

Examples:
  admin-mirror schema
  admin-mirror schema users
  admin-mirror schema --format markdown > dictionary.md`,
    )
    .action((table: string | undefined, flags: SchemaFlags) => run(context, table, flags));
}

async function run(context: CliContext, table: string | undefined, flags: SchemaFlags): Promise<void> {
  const file = context.settings().store.mirror;
  const all = inventory(relationsIn(context, file));
  const shown = table === undefined ? all : [inventoryOf(all, table)];
  const text = textOf(context, context.json() ? 'json' : flags.format, file, shown);
  await writeToStream(context.stdout, Readable.from([Buffer.from(text)]), context.signal);
}

function textOf(context: CliContext, format: SchemaFormat, file: string, tables: readonly InventoryTable[]): string {
  switch (format) {
    case 'text':
      return tables.map((table) => `${linesOf(context, table).join('\n')}\n`).join('\n');
    case 'markdown':
      return dictionaryMarkdown(tables);
    case 'json':
      return jsonText({ file, tables });
  }
}

function jsonText(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
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
