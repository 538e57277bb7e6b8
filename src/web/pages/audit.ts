/** Who did what, from the steps of the journal, and whether their chain is whole. */
import { type Act, newestActs } from '../../journal/acts.ts';
import type { AuditEntry, AuditFilter } from '../../journal/audit.ts';
import { actorText } from '../../model/actor.ts';
import { UsageError } from '../../model/errors.ts';
import { writtenId } from '../../model/records.ts';
import { counted, grouped } from '../../model/text.ts';
import { unlessAborted } from '../../model/time.ts';
import { anchor, html, type Html, type Part, problemTag, stateTag, tableTag, timeField, timeTag } from '../html.ts';
import { type ConsolePorts, page, type Reply, timeIn, type Visit } from '../route.ts';

/** Only the newest steps are read, and the newest acts shown. A shorter period or `admin-mirror audit` shows the others. */
const maxRead = 2_000;
const maxShown = 500;
/** Of one act. The page of the batch and `admin-mirror audit` have all. */
const maxSteps = 50;

export async function auditPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { query, link, refusal } = visit;
  const text = (name: string): string => query.get(name)?.trim() ?? '';
  const form = html`<form method="get" action="${link('/audit')}" class="fields">
    ${timeField('From', 'since', query)} ${timeField('Until', 'until', query)}
    <label>Person <input name="person" value="${text('person')}" /></label>
    <label>Batch <input name="batch" value="${text('batch')}" /></label>
    <label>User <input name="user" inputmode="numeric" value="${text('user')}" /></label>
    <button class="quiet">Show</button>
  </form>`;
  if (refusal !== null) return page('Audit', form);
  const since = timeIn(query, 'since', ports.clock);
  const until = timeIn(query, 'until', ports.clock, 'day end');
  const user = text('user') === '' ? undefined : userIn(text('user'));
  const filter: AuditFilter = {
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    ...(text('person') !== '' && { person: text('person') }),
    ...(text('batch') !== '' && { batch: text('batch') }),
    ...(user !== undefined && { user }),
  };
  const read = await newestActs(ports.journal.audit(filter, 'desc'), maxRead, ports.settings.bulk.currency);
  const acts = read.acts.toReversed();
  const shown = acts.slice(0, maxShown);
  const head = await ports.journal.head();
  const body = html`${form}
    ${read.isMore || acts.length > maxShown ? html`<p class="note">These are the newest ${counted(shown.length, 'act')}. Choose a shorter period to see older ones.</p>` : null}
    ${tableTag<Act>(
      'Who did what, the newest first',
      [
        [
          'What',
          ({ words, steps }) =>
            steps.length === 1
              ? linked(visit, words, steps[0])
              : html`<details>
                  <summary>${words} <span class="soft">${counted(steps.length, 'step')}</span></summary>
                  ${linked(visit, 'Open its page', steps[0])} ${stepsTag(visit, steps.slice(0, maxSteps))}
                  ${steps.length > maxSteps ? html`<p class="soft">… and ${grouped(steps.length - maxSteps)} more.</p>` : null}
                </details>`,
        ],
        ['When', ({ steps: [{ at }] }) => timeTag(at)],
        [
          'Who',
          ({ steps: [{ actor }] }) => html`<span title="${actorText(actor)}">${actor.account ?? actor.name}</span>`,
        ],
      ],
      shown,
      'Nothing was found.',
    )}
    <h2>The chain</h2>
    <p>
      Each step holds the hash of the one before it. The newest is step ${head?.step ?? 0}:
      <code>${head?.hash ?? 'none'}</code>
    </p>
    <form method="get" action="${link('/audit/verify')}"><button class="quiet">Check the whole chain</button></form>`;
  return page('Audit', body);
}

function linked({ link }: Visit, words: string, { batch, user }: AuditEntry): Part {
  if (batch !== null) return anchor(link(`/batches/${batch}`), words);
  return user === null ? words : anchor(link(`/data/users/${user}`), words);
}

function stepsTag({ link }: Visit, steps: readonly AuditEntry[]): Html {
  return tableTag<AuditEntry>(
    'Steps, in their order',
    [
      ['Step', ({ step }) => step, 'number'],
      ['When', ({ at }) => timeTag(at)],
      ['Who', ({ actor }) => actorText(actor)],
      [
        'What',
        ({ kind, action }) => [
          kind.replaceAll('_', ' '),
          action === null ? null : html` <span class="soft">${action}</span>`,
        ],
      ],
      ['Row', ({ row }) => row, 'number'],
      ['User', ({ user: of }) => (of === null ? null : anchor(link(`/data/users/${of}`), of)), 'number'],
      ['Amount', ({ type, amount }) => (amount === null ? null : `${type ?? ''} ${amount}`), 'number'],
      [
        'State now',
        ({ state, evidence }) => [state?.replaceAll('_', ' '), evidence === null ? null : `, by ${evidence}`],
      ],
      ['Note', ({ note }) => note],
    ],
    steps,
  );
}

function userIn(text: string): number {
  const id = writtenId(text);
  if (typeof id === 'number') return id;
  throw new UsageError(`"${text}" is not the id of a user`, { advice: 'An id is a whole number above 0.' });
}

export async function chainPage({ link, signal }: Visit, { journal }: ConsolePorts): Promise<Reply> {
  const { steps, head, status, problems } = await unlessAborted(journal.verifyChain(), signal);
  const good = html`<p>${stateTag('The chain is whole.', 'good')} ${counted(steps, 'step')} and the tables agree.</p>`;
  const body = html`${status === 'whole' ? good : problems.map((problem) => problemTag(problem))}
    <p>
      Newest step: <code>${head?.hash ?? 'none'}</code>. Keep a copy of it where nobody who can write the journal can
      change it.
    </p>
    <p><a href="${link('/audit')}">Back to the audit</a></p>`;
  return page('The chain', body);
}
