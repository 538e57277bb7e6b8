/** The data dictionary as a document: docs/data-dictionary.md is made by it. */
import type { InventoryColumn, InventoryTable } from './inventory.ts';

const introduction = `# Data dictionary

Every table, view and column of the mirror file: its type, its meaning and where it comes from. \`admin-mirror schema\` shows
the same for the file at hand, with what it has besides; \`admin-mirror schema --format markdown\` prints this document.

- **source**: \`document\`, a field of the API's reference, as the server sends it; \`relation\`, of related records, which
  are mirrored where a setting asks for them; \`mirror\`, kept by admin-mirror itself.
- **type**: what the column is declared as, in a STRICT table. A value of another type is converted where nothing is lost
  (\`"12.50"\` is 12.5); otherwise the column is null, the value stands whole under its name in \`_extra\`, and
  \`mirror_events\` tells of it once.
- **meaning**: what the reference says of a field, and where it gives no more than the name, what that says.
- **null**: the reference, or the mirror, leaves the column without a value at times. A field that a server does not send
  at all is null in any column.
`;

const headings: readonly (readonly [InventoryTable['source'], string])[] = [
  ['document', "The server's records"],
  ['mirror', "The mirror's own"],
  ['relation', 'Related records'],
  ['file', 'Not of this program'],
];

/** The whole document, or the sections of a part of the tables. */
export function dictionaryMarkdown(tables: readonly InventoryTable[]): string {
  const parts = headings.flatMap(([source, heading]) => {
    const own = tables.filter((table) => table.source === source);
    return own.length === 0 ? [] : [`## ${heading}\n`, ...own.map(section)];
  });
  return [introduction, ...parts].join('\n');
}

function section({ name, kind, in_file, summary, columns, example }: InventoryTable): string {
  return `### ${name}

A ${kind}${in_file === false ? ', not in this file' : ''}. ${summary}

| column | type | null | source | meaning |
| --- | --- | --- | --- | --- |
${columns.map(line).join('\n')}

Example: \`${example}\`
`;
}

function line({ name, type, nullable, source, in_file, meaning }: InventoryColumn): string {
  const missing = in_file === false ? '(not in this file) ' : '';
  const cells = [`\`${name}\``, type, nullable ? 'null' : '', source, `${missing}${meaning}`];
  return `| ${cells.map((cell) => cell.replaceAll(/\s+/g, ' ').replaceAll('|', String.raw`\|`)).join(' | ')} |`;
}
