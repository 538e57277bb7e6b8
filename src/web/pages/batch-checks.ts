/** Comparisons of the journal with the server, each a command in a run of its own; and what is wrong with a sheet. */
import type { Finding } from '../../bulk/differences.ts';
import { type BatchReport } from '../../bulk/report.ts';
import { batchOf } from '../../bulk/claim.ts';
import { counted } from '../../model/text.ts';
import { FileError } from '../../model/errors.ts';
import type { CommandCall } from '../../model/job.ts';
import { anchor, type Html, html, nothing, postForm, problemTag, stateTag, tableTag, timeTag, prose } from '../html.ts';
import { type ConsolePorts, page, type Reply, type Visit } from '../route.ts';
import { begin } from './runs.ts';

const maxShown = 100;

/** Explains the comparison and its cost, and starts it. */
export async function comparePage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { link, query, offers } = visit;
  const { mirror } = await ports.status();
  const pages =
    mirror instanceof FileError ? null : Math.ceil(mirror.resources.users.live / ports.settings.api.pageSize);
  const batch = query.get('batch');
  const named = batch === null ? null : html`<input type="hidden" name="batch" value="${batch}" />`;
  const back = html`<a class="button quiet" href="${link('/batches')}">Back</a>`;
  const body = html`<p>
      ${batch === null ? 'Every change of a balance in the journal' : html`Batch <code>${batch}</code>`} is compared
      with the transactions on the server: each mark must be there once, with the right
      amount${batch === null ? '; and there must be none that the journal does not know' : ''}.
    </p>
    <p>
      It reads the users with their
      transactions${batch === null && pages !== null ? `: about ${counted(Math.max(1, pages), 'request')}` : ''}. It
      changes nothing on the server.
    </p>
    ${
      offers('POST', '/batches/compare')
        ? postForm(link('/batches/compare'), html`${named} <button>Compare</button> ${back}`)
        : null
    }
    ${
      offers('POST', '/batches/adopt')
        ? html`<h2>The journal is behind the server</h2>
            <p>
              A journal that was lost, or restored from a copy, does not know what was sent since. Adopting records what
              the server shows, so that nobody is paid twice. It sends nothing. Your name stays on record.
            </p>
            ${postForm(link('/batches/adopt'), html`${named} <button class="quiet">Compare and adopt</button>`)}`
        : null
    }`;
  return page('Compare with the server', body);
}

export function startAdopting(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return startComparing(visit, ports, { adopt: true });
}

export async function startComparing(
  visit: Visit,
  ports: ConsolePorts,
  options: CommandCall['options'] = {},
): Promise<Reply> {
  const name = visit.form.get('batch');
  const batch = name === null ? [] : [(await batchOf(ports.journal, name)).batch];
  return begin(visit, ports, { name: 'reconcile', call: { path: ['bulk', 'reconcile'], operands: batch, options } });
}

/** The output of `bulk reconcile --json`. */
interface ReconcileReport {
  readonly status: 'equal' | 'different' | 'incomplete';
  readonly rows: number;
  readonly users: number;
  readonly requests: number;
  readonly adopted?: { readonly batch: string | null; readonly rows: number; readonly recorded: number };
  readonly differences: readonly Finding[];
  readonly problems: readonly string[];
}

/** The result of a comparison, for those who may see batches; nothing for any other report. */
export function checkTag(visit: Visit, report: unknown): Html {
  if (typeof report !== 'object' || report === null || !visit.offers('GET', '/batches')) return nothing;
  return 'differences' in report ? reconcileTag(visit, report as ReconcileReport) : nothing;
}

export function problemsTable(problems: BatchReport['problems']): Html {
  return tableTag(
    'What is wrong, cell by cell',
    [
      ['Row', ({ row }) => row, 'number'],
      ['Column', ({ column }) => column],
      ['What is wrong, and how to correct it', ({ problem }) => prose(problem)],
    ],
    problems,
    'No cell is wrong.',
  );
}

function reconcileTag(
  { link }: Visit,
  { status, rows, users, requests, adopted, differences, problems }: ReconcileReport,
): Html {
  return html`<h2>What was found</h2>
    <p>${stateTag(status)} ${counted(rows, 'row')} of ${counted(users, 'user')}, ${counted(requests, 'request')}.</p>
    ${
      adopted === undefined
        ? null
        : html`<p>
            ${counted(adopted.recorded, 'row')} that the journal knew ${adopted.recorded === 1 ? 'is' : 'are'} recorded
            as done, ${counted(adopted.rows, 'row')} that it did not
            know${adopted.batch === null ? null : html` ${adopted.rows === 1 ? 'is' : 'are'} in batch <a href="${link(`/batches/${adopted.batch}`)}">${adopted.batch}</a>`}.
          </p>`
    }
    ${problems.map((problem) => problemTag(problem))}
    ${tableTag<Finding>(
      'What differs',
      [
        ['Kind', ({ kind }) => kind.replaceAll('_', ' ')],
        ['User', ({ user_id: user }) => anchor(link(`/data/users/${user}`), user), 'number'],
        [
          'Batch',
          ({ batch, row }) =>
            batch === null ? null : anchor(link(`/batches/${batch}/rows/${row}`), `${batch}, row ${row}`),
        ],
        ['In the journal', ({ type, amount, state }) => [type, ' ', amount, ' ', state], 'number'],
        [
          'On the server',
          ({ server_type: type, server_amount: amount, times }) => [
            type,
            ' ',
            amount,
            times > 1 ? `, ${times} times` : null,
          ],
          'number',
        ],
        ['When', ({ at }) => timeTag(at)],
        ['Note', ({ note }) => prose(note)],
      ],
      differences.slice(0, maxShown),
      'Nothing differs.',
    )}`;
}
