/** The result of a report, a statement or a filter: its rows, its picture, its downloads, masked for those who see no data about people. */
import { text } from 'node:stream/consumers';
import { type ExportFormat, exportFormats, contentTypes } from '../../data/formats.ts';
import type { Preview } from '../../data/query.ts';
import type { ReadingJob } from '../../data/reading-child.ts';
import { type ReportRequest } from '../../data/reports/run.ts';
import { counted, grouped } from '../../model/text.ts';
import { OperatorError, UsageError } from '../../model/errors.ts';
import { minuteMs, dayOf } from '../../model/time.ts';
import { html, type Html, tableTag, refusalStatus, refusalTag } from '../html.ts';
import { type ConsolePorts, type Reply, type Visit } from '../route.ts';
import type { SourceRequest } from '../../data/source.ts';
import { seesPeople } from '../../model/actor.ts';

type Query = { readonly sql: string } | ReportRequest;

const maxShownRows = 200;

/** For a statement that a page waits for. */
const shownMs = minuteMs;

export const downloadMs = 10 * minuteMs;

/** Shows the result; or the reason why there is none, so that the form stays on the page and can be corrected. */
export async function shownOrWhyNot(ports: ConsolePorts, show: () => Promise<Html>) {
  try {
    return { shown: await show(), more: {} };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { shown: refusalTag(error, ports), more: { status: refusalStatus(error) } };
  }
}

/** Returns the whole output of the job. The jobs here limit their output. */
export async function textOf(
  visit: Visit,
  { readers }: ConsolePorts,
  job: ReadingJob,
  onWarning?: (words: string) => void,
): Promise<string> {
  const run = { signal: visit.signal, timeoutMs: shownMs, ...(onWarning !== undefined && { onWarning }) };
  return text(readers.chunks({ ...job, isMasked: isMaskedFor(visit) }, run));
}

export async function previewOf(
  visit: Visit,
  ports: ConsolePorts,
  what: Query,
): Promise<{ preview: Preview; warnings: string[] }> {
  const warnings: string[] = [];
  const job: ReadingJob = { kind: 'preview', what, rows: maxShownRows };
  const preview = JSON.parse(await textOf(visit, ports, job, (words) => void warnings.push(words))) as Preview;
  return { preview, warnings };
}

export async function pictureOf(visit: Visit, ports: ConsolePorts, what: Query): Promise<Reply> {
  return { kind: 'picture', svg: await textOf(visit, ports, { kind: 'chart', what, now: ports.clock.now() }) };
}

export function pictureTag(source: string, words: string): Html {
  return html`<p><img class="picture" src="${source}" alt="${words}" width="880" height="480" /></p>`;
}

export function downloadsTag(link: (format: ExportFormat) => string): Html {
  return html`<p>
    Download: ${exportFormats.map((format) => html`<a href="${link(format)}" download>${format}</a> `)}
  </p>`;
}

const amounts = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** @param money columns with amounts, which are shown to the cent */
export function previewTag(
  title: string,
  { columns, rows, more, isCut }: Preview,
  money: ReadonlySet<string> = new Set(),
): Html {
  const all = rows.length + more;
  const count =
    more === 0
      ? counted(rows.length, 'row')
      : `The first ${grouped(rows.length)} of ${isCut ? `more than ${grouped(all)}` : counted(all, 'row')}. The downloads have all of them.`;
  return html`<p class="soft">${count}</p>
    ${tableTag<Preview['rows'][number]>(
      title,
      columns.map(({ name, isNumber }, at) => [
        name,
        (row) => cellTag(row[at] ?? null, isNumber && money.has(name)),
        isNumber ? 'number' : undefined,
        html`<bdi>${name}</bdi>`,
      ]),
      rows,
      'The result has no rows.',
    )}`;
}

function cellTag(cell: string | null, isMoney: boolean): Html {
  if (cell === null) return html`<span class="none">–</span>`;
  // <bdi>: the text cannot change the text direction beside it.
  return isMoney ? html`${amounts.format(Number(cell))}` : html`<bdi>${cell}</bdi>`;
}

/** Whether data about people is masked for the caller. */
export function isMaskedFor({ caller }: Visit): boolean {
  return !seesPeople(caller?.account.roles ?? []);
}

export const maskedNote = html`<p class="note">
  With your roles, data about people is masked, here and in downloads. An admin can give you another role.
</p>`;

/** The rows as a file in the format that the address names. @param timeoutMs limit for reading the mirror */
export async function downloadOf(
  visit: Visit,
  { readers, clock }: ConsolePorts,
  name: string,
  what: SourceRequest,
  timeoutMs?: number,
): Promise<Reply> {
  const asked = visit.query.get('format') ?? 'csv';
  const format = exportFormats.find((each) => each === asked);
  if (format === undefined) {
    throw new UsageError(`there is no format "${asked}"`, { advice: `Use one of: ${exportFormats.join(', ')}.` });
  }
  const form = { format, raw: false, compression: null, bom: format === 'csv' };
  const job = { kind: 'export', request: { what, form }, isMasked: isMaskedFor(visit) } as const;
  const chunks = readers.chunks(job, { signal: visit.signal, timeoutMs });
  // Read before the response begins, so that a mistake in the request becomes a page, not a broken file.
  const first = await chunks.next();
  const file = `${name}-${dayOf(clock.now())}.${format}`;
  return { kind: 'file', name: file, type: contentTypes[format], chunks: withFirst(first, chunks) };
}

async function* withFirst(
  first: IteratorResult<Uint8Array>,
  rest: AsyncGenerator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    if (first.done !== true) yield first.value;
    yield* rest;
  } finally {
    await rest.return(undefined);
  }
}
