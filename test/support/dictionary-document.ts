/** docs/data-dictionary.md, generated from the dictionary of the mirror. */
import { inventory, type InventoryTable } from '../../src/data/inventory.ts';

const introduction = `# Data dictionary

Every table, view and column of the mirror file: its type, its meaning and where it comes from. \`admin-mirror schema\` shows
the same for the file at hand, with what it has besides.

- **source**: \`document\`, a field of the API's reference, as the server sends it; \`relation\`, of related records, which
  are mirrored if a setting names them; \`mirror\`, kept by admin-mirror itself.
- **type**: the declared type of the column, in a STRICT table. A value of another type is converted if nothing is lost
  (\`"12.50"\` is 12.5); otherwise the column is null, the value stands whole under its name in \`_extra\`, and
  \`mirror_events\` records it once.
- **meaning**: what the reference says about a field, or what its name says if the reference gives no more.
- **null**: the column may have no value, according to the reference or to the mirror. A field that a server does not send
  at all is null in any column.
`;

const headings: readonly (readonly [InventoryTable['source'], string])[] = [
  ['document', "The server's records"],
  ['mirror', "The mirror's own"],
  ['relation', 'Related records'],
];

export function dictionaryDocument(): string {
  const tables = inventory(undefined);
  const parts = headings.flatMap(([source, heading]) => {
    const own = tables.filter((table) => table.source === source);
    return own.length === 0 ? [] : [`## ${heading}\n`, ...alike(own).map(section)];
  });
  return [introduction, ...parts].join('\n');
}

/** Tables of related records, and of the history, differ only by their names: those with equal columns are one section. */
function alike(tables: readonly InventoryTable[]): InventoryTable[][] {
  const groups = Map.groupBy(tables, ({ kind, columns }) => JSON.stringify([kind, columns]));
  return [...groups.values()];
}

function section(tables: readonly InventoryTable[]): string {
  const [first] = tables;
  if (first === undefined) return '';
  const { kind, summary, columns, example } = first;
  const others = tables.slice(1).map(({ name }) => `\`${name}\``);
  return `### ${first.name}

A ${kind}. ${summary} Example: \`${example}\`
${others.length === 0 ? '' : `\nAlike: ${others.join(', ')}.\n`}
| column | type | null | source | meaning |
| --- | --- | --- | --- | --- |
${columns.map(line).join('\n')}
`;
}

function line({ name, type, nullable, source, meaning }: InventoryTable['columns'][number]): string {
  const cells = [`\`${name}\``, type, nullable ? 'null' : '', source, meaning];
  return `| ${cells.map((cell) => cell.replaceAll(/\s+/g, ' ').replaceAll('|', String.raw`\|`)).join(' | ')} |`;
}
