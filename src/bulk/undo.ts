/** The rows that take a batch back: each once, and only what was applied. They are planned like any others. */
import { counted } from '../model/counted.ts';
import { UsageError } from '../model/errors.ts';
import type { Batch, Intent, Journal } from '../journal/port.ts';
import type { Action, Parameters } from './action.ts';
import type { ReadRow, ReadRows } from './read-rows.ts';
import { targetOf } from './sending.ts';

/** Throws a UsageError where nothing of the batch can be taken back, or all of it was. */
export async function undoRows(journal: Journal, batch: Batch, action: Action): Promise<ReadRows> {
  if (action.target !== 'user') throw new UsageError(`what "${action.name}" did cannot be taken back by a batch`);
  const undone = await journal.undoneRows(batch.batch);
  const columns = ['user_id', ...action.columns.map(({ name }) => name)];
  const rows: ReadRow[] = [];
  const notes: string[] = [];
  let taken = 0;
  // The last change of a user is taken back first: a `set` stands on the balance that came before it.
  for (const intent of (await Array.fromAsync(journal.intents(batch.batch, ['applied']))).reverse()) {
    if (undone.has(intent.row)) {
      taken += 1;
      continue;
    }
    const inverse = action.inverse(targetOf(intent), intent);
    if (typeof inverse === 'string') notes.push(`row ${intent.row} cannot be taken back: ${inverse}`);
    else rows.push(undoRow(intent, inverse, columns, rows.length + 2));
  }
  if (taken > 0)
    notes.unshift(
      `${counted(taken, 'row was', 'rows were')} taken back before, or are about to be: ${[...new Set(undone.values())].join(', ')}`,
    );
  if (rows.length === 0) {
    throw new UsageError(`nothing of batch ${batch.batch} is left to be taken back`, {
      advice: notes[0] ?? 'No row of it was applied.',
    });
  }
  return { columns, rows, problems: [], notes };
}

function undoRow(intent: Intent, parameters: Parameters, columns: readonly string[], row: number): ReadRow {
  const user = String(intent.user);
  const cells = columns.map((name) => (name === 'user_id' ? user : textOf(parameters[name])));
  return { row, cells, key: { column: 'user_id', value: user }, parameters, problems: [], undoOfRow: intent.row };
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : '';
}
