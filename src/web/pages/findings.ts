/** What a comparison with the server has found, as a page shows it. */
import type { VerifyReport } from '../../mirror/verify.ts';
import type { ResourceVerdict } from '../../mirror/verify-resource.ts';
import { counted, grouped } from '../../model/counted.ts';
import { html, type Html, nothing, type Part, stateTag, tableTag, timeTag } from '../html.ts';

const shown = 50;

/** The findings, where the report is that of a comparison; of any other, nothing. */
export function verdictTag(report: unknown): Html {
  if (!isVerifyReport(report)) return nothing;
  const { status, requests, fresh_as_of, resources, deep } = report;
  const kind = status === 'equal' ? 'good' : status === 'different' ? 'bad' : 'wait';
  return html`<h2>What was found</h2>
    <p>
      ${stateTag(status, kind)}
      ${deep ? 'Every record was compared.' : 'The numbers were compared, and the records where they differ.'}
      ${counted(requests, 'request')}.
    </p>
    ${
      status === 'equal'
        ? null
        : html`<p class="note">
            The mirror is as of ${timeTag(fresh_as_of)}: what changed on the server since then counts as a difference.
            The next sync compares these windows again.
          </p>`
    }
    ${tableTag<[string, ResourceVerdict]>(
      'What was found, by resource',
      [
        ['Resource', ([name]) => name],
        [
          'Result',
          ([, { status: each }]) => stateTag(each, each === 'equal' ? 'good' : each === 'different' ? 'bad' : 'wait'),
        ],
        ['In the mirror', ([, { live }]) => grouped(live), 'number'],
        ['On the server', ([, { server_total: total }]) => (total === null ? 'not counted' : grouped(total)), 'number'],
        ['Windows', ([, { windows }]) => grouped(windows), 'number'],
        ['Findings', ([, each]) => findingsOf(each)],
      ],
      Object.entries(resources),
    )}`;
}

function isVerifyReport(report: unknown): report is VerifyReport {
  return typeof report === 'object' && report !== null && 'deep' in report && 'resources' in report;
}

function findingsOf({ missing, extra, different, differing_windows: windows, problem }: ResourceVerdict): Part {
  return [
    listTag('On the server only', missing.map(String)),
    listTag('In the mirror only', extra.map(String)),
    listTag(
      'Different',
      different.map(({ id, fields }) => `${id} (${fields.join(', ')})`),
    ),
    listTag(
      'Windows whose numbers differ',
      windows.map(({ from, to, server, mirror }) => {
        const rows = typeof mirror === 'number' ? grouped(mirror) : mirror.map((each) => grouped(each)).join(' to ');
        return `${from}..${to}: ${grouped(server)} on the server, ${rows} in the mirror`;
      }),
    ),
    problem === null ? null : html`<p>Not compared: ${problem}</p>`,
  ];
}

function listTag(title: string, items: readonly string[]): Html | null {
  if (items.length === 0) return null;
  const rest = items.length > shown ? `, and ${grouped(items.length - shown)} more` : '';
  return html`<p>${title} (${grouped(items.length)}): ${items.slice(0, shown).join(', ')}${rest}</p>`;
}
