/** Saves a statement as a report of the operator's own, and removes one: each is a file, as if it had been written by hand. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { UsageError } from '../../model/errors.ts';
import { explainFileError } from '../../model/files.ts';
import { relationTables } from '../../model/resources.ts';
import { writeDurableFile } from '../../store/files/durable-file.ts';
import type { Snapshot } from '../reading.ts';
import { type ParameterType, readHeader, type Report } from './reports.ts';

interface SavedQuery {
  readonly title: string;
  readonly subject: string;
  readonly description: string;
  readonly sql: string;
  /** The type and the default of each parameter of the statement; without a default, it must be given. */
  readonly parameters: ReadonlyMap<string, { readonly type: ParameterType; readonly default: string }>;
}

/** The name and the text of the file. Throws a UsageError for a wrong statement and for a name that is taken. */
export function newReport(snapshot: Snapshot, folder: string, query: SavedQuery, taken: readonly string[]) {
  const name = query.title
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 60);
  if (name === '') throw new UsageError('the title needs a letter or a digit');
  const file = join(folder, `${name}.sql`);
  if (taken.includes(name) || existsSync(file)) {
    throw new UsageError(`there is already a report "${name}"`, { advice: 'Choose another title.' });
  }
  const text = reportText(snapshot, query);
  const [problem] = readHeader(text).problems;
  if (problem !== undefined) throw new UsageError(`this cannot be saved as a report: ${problem}`);
  return { name, file, text };
}

export async function writeReport({ file, text }: ReturnType<typeof newReport>, signal: AbortSignal): Promise<void> {
  await writeDurableFile(file, Readable.from([Buffer.from(text)]), signal);
}

/** Removes a report of the operator's own. Throws a UsageError for one that comes with the program. */
export function removeReport({ origin, file, name }: Pick<Report, 'origin' | 'file' | 'name'>): void {
  if (origin !== 'own') throw new UsageError(`the report ${name} comes with admin-mirror and stays`);
  try {
    rmSync(file);
  } catch (error) {
    throw explainFileError(error, 'remove', file) ?? error;
  }
}

/** One line, in which nothing ends a cell of the header. */
function cell(text: string): string {
  return text.replaceAll(/[\s|]+/g, ' ').trim();
}

function reportText(snapshot: Snapshot, { title, subject, description, sql, parameters }: SavedQuery): string {
  const facts = snapshot.describe(sql);
  const columns = facts.columns.map((name) => `-- column: ${cell(name)} | mixed | ${cell(name)}`);
  const asked = facts.parameters.map((name) => {
    const { type = 'text', default: standing = '' } = parameters.get(name) ?? {};
    return `-- parameter: ${name} | ${type} | ${cell(standing) === '' ? 'required' : cell(standing)} | ${name}`;
  });
  return `${[
    `-- title: ${cell(title)}`,
    ...(cell(subject) === '' ? [] : [`-- subject: ${cell(subject)}`]),
    `-- description: ${cell(description)}`,
    ...asked,
    ...columns,
    `-- needs: ${needsOf(snapshot, sql)}`,
    // Comments above the statement would be taken for the header.
    ...(sql.trimStart().startsWith('--') ? ['/* */'] : []),
    sql.trim(),
  ].join('\n')}\n`;
}

/** The tables whose names are in the statement, as a header names them. */
function needsOf(snapshot: Snapshot, sql: string): string {
  const words = new Set(sql.toLowerCase().match(/\w+/g));
  const named = snapshot.relations().filter(({ name }) => words.has(name.toLowerCase()));
  const needs = named.map(({ name }) => {
    const related = relationTables.find(({ table }) => table === name);
    return related === undefined ? name : `${related.resource}.${related.relation}`;
  });
  return needs.length === 0 ? 'users' : needs.join(', ');
}
