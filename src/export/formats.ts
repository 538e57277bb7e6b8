/** The formats by name, apart from the code that writes them: the command line needs no more than these. */

export const exportFormats = ['csv', 'tsv', 'jsonl'] as const;
export type ExportFormat = (typeof exportFormats)[number];

export const queryFormats = ['table', ...exportFormats, 'json'] as const;
export type QueryFormat = (typeof queryFormats)[number];

export const schemaFormats = ['text', 'markdown', 'json', 'datasette'] as const;
export type SchemaFormat = (typeof schemaFormats)[number];
