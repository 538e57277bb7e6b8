/** Checks the steps of a run in the journal: only what the model of the money allows (docs/proof.md). */
import { isOpen, mayFollow, intentStates } from '../../src/bulk/intent.ts';
import type { IntentState, Journal, JournalStep } from '../../src/journal/port.ts';

interface TracedRow {
  readonly subject: string | null;
  /** The current state, and the state after its steps so far. */
  readonly now: IntentState;
  readonly attempts: number;
  readonly place: { readonly batch: string; readonly row: number };
  /** A person decided about it since it was last sent. */
  isDecided: boolean;
  state: IntentState;
  sent: number;
}

/** Reasons why steps of the journal do not fit the model, in words. */
export async function traceProblems(journal: Journal): Promise<string[]> {
  const rows = new Map<string, TracedRow>();
  const steps: (JournalStep & { readonly batch: string })[] = [];
  for (const { batch } of await journal.batches()) {
    for (const step of await journal.steps(batch)) steps.push({ ...step, batch });
    for await (const { row, subject, state: now, attempts } of journal.intents(batch)) {
      const state = now === 'invalid' ? now : 'planned';
      const place = { batch, row };
      rows.set(`${batch} ${row}`, { subject, now, attempts, place, isDecided: false, state, sent: 0 });
    }
  }
  const problems: string[] = [];
  const claimed = new Set<string>();
  for (const { step, batch, row: number, kind, note } of steps.sort((a, b) => a.step - b.step)) {
    if (kind === 'claimed') claimed.add(batch);
    const row = number === null ? undefined : rows.get(`${batch} ${number}`);
    const to = kind === 'adopted' ? 'applied' : intentStates.find((each) => each === kind);
    if (row === undefined || to === undefined) continue;
    const { state: from } = row;
    const problem = (why: string): void =>
      void problems.push(`step ${step}: row ${number} of batch ${batch} from ${from} to ${to}: ${why}`);
    if (kind !== 'adopted' && !mayFollow(from, to)) problem('no such step');
    if (to === 'sending') {
      row.sent += 1;
      if (!claimed.has(batch)) problem('nobody has claimed it');
      const held = [...rows.values()].find((each) => holdsBack(each, row));
      if (held !== undefined) problem(`row ${held.place.row}, an earlier one of the same user, was sent and not made`);
    }
    const isByPerson = note?.startsWith('decided by a person') === true;
    if (isByPerson || to === 'sending') row.isDecided = isByPerson;
    // A row is sent again by a person's decision, or because nothing was done.
    const isAgain = to === 'planned' && from !== 'sending' && from !== 'blocked';
    if (isAgain && !isByPerson) problem('nobody decided that');
    if (isOpen(to) && !isOpen(from)) {
      const other = [...rows].find(([, each]) => each !== row && each.subject === row.subject && isOpen(each.state));
      if (other !== undefined) problem(`row ${other[0]} of the same user is open`);
    }
    row.state = to;
  }
  for (const [name, { state, now, sent, attempts }] of rows) {
    if (state !== now) problems.push(`row ${name} is ${now}, and its steps end with ${state}`);
    if (sent !== attempts) problems.push(`row ${name} was sent ${attempts} times, and its steps say ${sent}`);
  }
  return problems;
}

function holdsBack(each: TracedRow, { subject, place }: TracedRow): boolean {
  const isBefore = each.subject === subject && each.place.batch === place.batch && each.place.row < place.row;
  return isBefore && !each.isDecided && (each.state === 'rejected' || each.state === 'not_applied');
}
