/** What must hold for a batch whatever happened, judged by the sandbox's own ledger. */
import { expect } from 'vitest';
import { countNameOf, countsOf } from '../../src/bulk/intent.ts';
import type { SendingEnd } from '../../src/bulk/send-batch.ts';
import type { Sandbox } from './bent/sandbox.ts';
import type { Journal } from '../../src/journal/port.ts';
import { intentsOf, madeWith, sendsTo } from './bulk.ts';
import { traceProblems } from './trace.ts';

/**
 * @param sent how the last run ended

 */
export async function expectAccounted(
  sandbox: Sandbox,
  journal: Journal,
  batch: string,
  sent: Pick<SendingEnd, 'error'>,
  label: string,
): Promise<void> {
  expect(await traceProblems(journal), `${label}: the steps are those of the model`).toEqual([]);
  const intents = await intentsOf(journal, batch);
  const steps = await journal.steps(batch);
  const perUser = new Map<number, number>();
  for (const { row, user, token, state } of intents) {
    const made = madeWith(sandbox, token);
    const name = countNameOf(state);
    const where = `${label}, row ${row}, ${state}`;
    if (name === 'applied') expect(made, `${where}: applied is exactly once on the server`).toBe(1);
    else if (name !== 'unknown') expect(made, `${where}: what is not applied or unknown is not on the server`).toBe(0);
    const decided = steps.filter(
      (step) => step.row === row && step.kind === 'planned' && step.note?.startsWith('decided by a person') === true,
    ).length;
    if (user !== null) perUser.set(user, (perUser.get(user) ?? 0) + 1 + decided);
  }
  for (const [user, rows] of perUser) {
    expect(sendsTo(sandbox, user), `${label}: no second request for a token, user ${user}`).toBeLessThanOrEqual(rows);
  }
  const counts = countsOf(await journal.counts(batch));
  const sum = Object.values(counts).reduce((a, b) => a + b, 0);
  expect(sum, `${label}: counts sum`).toBe(intents.length);
  if (counts.unknown > 0) expect(sent.error, `${label}: no exit 0 while anything is unknown`).not.toBeNull();
  const all = intents.length === counts.applied && intents.every(({ discrepancy }) => discrepancy === null);
  expect(sent.error === null, `${label}: exit 0 where all was applied and nothing contradicts, and only there`).toBe(
    all,
  );
}
