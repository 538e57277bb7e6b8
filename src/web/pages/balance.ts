/** The balance of one user: what is known of it, and the form that changes it by a batch of one row. */
import { type BalanceParameters, resultOf } from '../../bulk/actions/balance-judge.ts';
import { isOpen } from '../../bulk/intent.ts';
import type { UserRow } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';
import { amountWords, moneyOf, moneyText } from '../../model/money.ts';
import { balanceChangeTypes } from '../../model/operations.ts';
import { writtenId } from '../../model/records.ts';
import { counted } from '../../model/text.ts';
import type { Timestamp } from '../../model/time.ts';
import type { Cell } from '../../data/reading-types.ts';
import { html, type Html, optionTag, reasonField, selectTag, textField, timeTag } from '../html.ts';
import { actorOf, type ConsolePorts, notFound, redirect, type Reply, type Visit } from '../route.ts';

/** A change that was sent after the mirror was last fresh. `after`: what it left; null if nobody knows. */
interface Sent {
  readonly at: Timestamp;
  readonly after: string | null;
  readonly isKnown: boolean;
}

/** @param held the balance as the mirror has it */
export async function balanceTag(
  visit: Visit,
  ports: ConsolePorts,
  user: number,
  held: Cell,
  rows: readonly UserRow[],
): Promise<Html> {
  const { currency } = ports.settings.bulk;
  const balance = moneyOf(held);
  const asOf = await freshAsOf(ports);
  const sent = asOf === null ? [] : await sentSince(ports, user, rows, asOf);
  const last = sent.findLast(({ after }) => after !== null)?.after;
  const open = sent.filter(({ isKnown }) => !isKnown).length;
  return html`<p class="lead">
      Balance <span class="big">${amountWords(last ?? balance ?? 'unknown', currency)}</span>
    </p>
    <p>
      ${balance === null ? 'The mirror has no balance' : `${amountWords(balance, currency)} in the mirror`}, as of
      ${timeTag(asOf)}; ${sent.length === 0 ? 'no change was' : counted(sent.length, 'change was', 'changes were')} sent
      from here since.${open === 0 ? null : html` <strong>The outcome of ${open} of them is not known.</strong>`}
    </p>
    ${visit.offers('POST', '/data/:relation/:id/balance') ? formTag(visit, user) : null}`;
}

async function freshAsOf(ports: ConsolePorts): Promise<Timestamp | null> {
  const { mirror } = await ports.status();
  return mirror instanceof Error ? null : mirror.resources.users.fresh_as_of;
}

/** In the order in which they were sent. */
async function sentSince(
  { journal }: ConsolePorts,
  user: number,
  rows: readonly UserRow[],
  asOf: Timestamp,
): Promise<Sent[]> {
  const ofRows = rows.flatMap(({ action, state, sentAt, after }): Sent[] => {
    const isKnown = state === 'applied';
    if (action !== 'balance' || sentAt === null || sentAt <= asOf || !(isKnown || isOpen(state))) return [];
    return [{ at: sentAt, after: isKnown ? after : null, isKnown }];
  });
  const writes = await journal.balanceWrites(user, asOf);
  const ofWrites = writes.flatMap(({ at, state, body, balance }): Sent[] => {
    const isKnown = state === 'done';
    if (!isKnown && state !== 'unknown' && state !== 'sending') return [];
    const { type, amount } = JSON.parse(body) as BalanceParameters;
    const after =
      isKnown && balance !== null ? moneyText(resultOf({ type, amount } as BalanceParameters, balance)) : null;
    return [{ at, after, isKnown }];
  });
  return [...ofRows, ...ofWrites].sort((a, b) => (a.at < b.at ? -1 : 1));
}

function formTag({ link, form, refusal }: Visit, user: number): Html {
  return html`<details ${form.get('amount') === null ? null : html`open`}>
    <summary>Change the balance</summary>
    <p>
      This plans a batch of one row. You see the balance before and after, and nothing is sent before you say so there.
    </p>
    <form method="post" action="${link(`/data/users/${user}/balance`)}">
      <p>
        ${selectTag(
          'What',
          'type',
          balanceChangeTypes.map((type) => optionTag(type, form.get('type'))),
        )}
      </p>
      ${textField('Amount', 'amount', html`required inputmode="decimal" maxlength="30" value="${form.get('amount')}"`)}
      ${textField('Reason, which the user sees', 'reason', html`required maxlength="200" value="${form.get('reason')}"`)}
      <details ${refusal === null ? null : html`open`}>
        <summary>It was sent before</summary>
        ${reasonField('Reason for sending it again, which stays on record', 'again')}
      </details>
      <button>Plan the change</button>
    </form>
  </details>`;
}

/** What the file of a change is called that nobody wrote into a file. */
export const typedFile = 'typed-in-the-console.jsonl';

/** Plans a batch of one row: with its bounds, its approval, its record and its proof, and nobody is paid twice by a second click. */
export async function changeBalance(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { form, params, link } = visit;
  const user = writtenId(params['id'] ?? '');
  if (params['relation'] !== 'users' || typeof user !== 'number') throw notFound();
  const given = (name: string): string => form.get(name)?.trim() ?? '';
  const type = balanceChangeTypes.find((each) => each === form.get('type'));
  const amount = given('amount');
  if (type === undefined || !/^[-+]?\d[\d.,' ]*$/.test(amount)) {
    throw new UsageError('that is no amount; nothing was planned', { advice: 'Write a plain number, as 1234.56.' });
  }
  if (given('reason') === '') {
    throw new UsageError('a reason is needed; nothing was planned', { advice: 'Say why. The user sees it.' });
  }
  const row = JSON.stringify({ user_id: user, type, amount, description: given('reason') });
  const choices = {
    action: 'balance',
    title: `Balance of user ${user}: ${type} ${amount}`,
    sheet: null,
    again: given('again') || null,
    allowForce: false,
  };
  const bytes = (async function* () {
    yield Buffer.from(`${row}\n`);
  })();
  const planned = await ports.uploads.take(bytes, typedFile, choices, actorOf(visit, ports), visit.signal);
  return redirect(link(typeof planned === 'string' ? `/batches/${planned}` : `/batches/uploads/${planned.id}`));
}
