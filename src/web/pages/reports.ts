/** Saved reports and SQL: a form, the rows, a picture, and downloads. The address of the page holds all parameters. */
import { text } from 'node:stream/consumers';
import { type ExportFormat, exportFormats } from '../../data/formats.ts';
import { inventory, type InventoryTable } from '../../data/inventory.ts';
import { openReports } from '../../data/open.ts';
import type { Preview } from '../../data/query.ts';
import type { ReadingJob } from '../../data/reading-child.ts';
import { parameterTypes, type Report, reportNamed, type ReportParameter } from '../../data/reports/reports.ts';
import { assumptionsWith, hasHistory, type ReportRequest, requestFor } from '../../data/reports/run.ts';
import { newReport, removeReport, writeReport } from '../../data/reports/save.ts';
import { counted, grouped } from '../../model/text.ts';
import { OperatorError } from '../../model/errors.ts';
import { dayOf, minuteMs } from '../../model/time.ts';
import {
  anchor,
  buttonForm,
  factsTag,
  html,
  type Html,
  optionTag,
  type Part,
  postForm,
  problemTag,
  prose,
  selectTag,
  tableTag,
  textField,
  timeField,
  refusalStatus,
  refusalTag,
} from '../html.ts';
import {
  actorOf,
  callerOf,
  type ConsolePorts,
  notFound,
  page,
  redirect,
  type Reply,
  timeIn,
  type Visit,
} from '../route.ts';
import { downloadOf, isMaskedFor, maskedNote } from './data.ts';

const maxShownRows = 200;

/** For a statement that a page waits for. */
const shownMs = minuteMs;
const downloadMs = 10 * minuteMs;

/** Whether the caller may use the report. With a text parameter, somebody who sees only masks could search for a person. */
function isOpenTo(visit: Visit, { parameters }: Report): boolean {
  return !isMaskedFor(visit) || parameters.every(({ type }) => type !== 'text');
}

export async function reportsPage(visit: Visit, { settings }: ConsolePorts): Promise<Reply> {
  const { link, offers } = visit;
  const { reports, broken, replaced } = await openReports(settings);
  const open = reports.filter((each) => isOpenTo(visit, each));
  const subjects = [...new Set(open.map(({ subject }) => subject))].toSorted();
  const ownWords = ({ origin, name }: Report): Part =>
    origin === 'own'
      ? html` <span class="soft">your own${replaced.includes(name) ? ', replaces one of admin-mirror' : ''}</span>`
      : null;
  const body = html`${isMaskedFor(visit) ? maskedNote : null}
  ${offers('GET', '/sql') ? html`<p><a class="button quiet" href="${link('/sql')}">Write SQL</a></p>` : null}
  ${(isMaskedFor(visit) ? [] : broken).map(({ file, problems }) => problemTag(`${file} is not a report: ${problems.join('; ')}`))}
  ${subjects.map(
    (subject) =>
      html`<h2>${subject}</h2>
        <ul class="reports">
          ${open
            .filter((each) => each.subject === subject)
            .map(
              (each) =>
                html`<li>
                  ${anchor(link(`/reports/${each.name}`), each.title)}${ownWords(each)}<br /><span class="soft"
                    >${prose(firstSentence(each))}</span
                  >
                </li>`,
            )}
        </ul>`,
  )}`;
  return page('Reports', body);
}

function firstSentence({ description }: Report): string {
  return /^.*?[.:](?=\s|$)/.exec(description)?.[0].replace(/:$/, '.') ?? description;
}

async function reportOf(visit: Visit, { settings }: ConsolePorts): Promise<Report> {
  const { report: name = '' } = visit.params;
  const reports = await openReports(settings);
  if (![...reports.reports, ...reports.broken].some((each) => each.name === name)) {
    throw notFound('there is no such report');
  }
  const found = reportNamed(reports, name);
  if (!isOpenTo(visit, found)) throw notFound('this report searches for a text, which your roles do not allow');
  return found;
}

/** Returns the parameters in the form. An empty field is left out, and gets its default. */
function givenIn(query: URLSearchParams, { parameters }: Report): Map<string, string> {
  return new Map(
    parameters.flatMap(({ name }): [string, string][] => {
      const text = query.get(`p.${name}`) ?? '';
      return text.trim() === '' ? [] : [[name, text]];
    }),
  );
}

function requestOf(report: Report, { query }: Visit, { clock }: ConsolePorts): ReportRequest {
  const asOf = hasHistory(report) ? timeIn(query, 'as_of', clock) : undefined;
  const part = asOf === undefined ? {} : { asOf };
  return requestFor(report, givenIn(query, report), part, clock.now());
}

export async function reportPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const report = await reportOf(visit, ports);
  const { query, link } = visit;
  const { name, title, description, parameters, columns, chart } = report;
  const here = `/reports/${name}`;
  const given: Record<string, string> = Object.fromEntries(
    [...givenIn(query, report)].map(([key, value]) => [`p.${key}`, value]),
  );
  const asOf = query.get('as_of') ?? '';
  if (asOf !== '') given['as_of'] = asOf;
  const isAsked = parameters.length > 0 || hasHistory(report);
  const isComplete = Object.keys(given).length > 0 || parameters.every((each) => each.default !== undefined);
  const form = html`<p>${prose(description)}</p>
    ${isMaskedFor(visit) ? maskedNote : null}
    <form method="get" action="${link(here)}" class="fields">
      ${parameters.map((each) => parameterTag(each, query.get(`p.${each.name}`) ?? ''))}
      ${hasHistory(report) ? timeField('as of, else now', 'as_of', query) : null}
      ${isAsked ? html`<button>Show</button>` : null}
    </form>
    ${toolsTag(visit, report)}`;
  if (!isComplete) return page(title, form);
  const { shown, more } = await shownOrWhyNot(ports, async () => {
    const request = requestOf(report, visit, ports);
    const { preview, warnings } = await previewOf(visit, ports, request);
    const money = new Set(columns.filter(({ type }) => type === 'money').map((each) => each.name));
    return html`${assumptionsWith(report, request.values).map((words) => html`<p class="soft">Assumed: ${words}</p>`)}
      ${warnings.map((words) => html`<p class="note">${words}</p>`)}
      ${chart === null || preview.rows.length === 0 ? null : pictureTag(link(`${here}/picture`, given), `${title}: ${chart.y.join(', ')} by ${chart.x}`)}
      ${downloadsTag((format) => link(`${here}/download`, { ...given, format }))} ${previewTag(title, preview, money)}
      <h2>Columns</h2>
      ${factsTag(columns.map((column) => [column.name, column.meaning]))}`;
  });
  return page(title, html`${form} ${shown}`, more);
}

/** Shows the result; or the reason why there is none, so that the form stays on the page and can be corrected. */
async function shownOrWhyNot(ports: ConsolePorts, show: () => Promise<Html>) {
  try {
    return { shown: await show(), more: {} };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { shown: refusalTag(error, ports), more: { status: refusalStatus(error) } };
  }
}

/** What analysts may do with the report itself. */
function toolsTag({ link, offers }: Visit, { name, origin, sql }: Report): Part {
  if (!offers('GET', '/sql')) return null;
  const remove = origin === 'own' && offers('POST', '/reports/:report/remove');
  return html`<details>
    <summary>SQL</summary>
    <pre>${sql}</pre>
    <p>${anchor(link('/sql', { sql }), 'Open it as SQL')}</p>
    ${remove ? buttonForm(link(`/reports/${name}/remove`), 'Remove this report', 'danger') : null}
  </details>`;
}

export async function removeSaved(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const report = await reportOf(visit, ports);
  removeReport(report);
  await ports.journal.by(actorOf(visit, ports)).reportChanged('report_removed', report.name);
  return redirect(visit.link('/reports'));
}

function parameterTag({ name, type, default: standing, meaning }: ReportParameter, value: string): Html {
  const need = standing === undefined ? html`required` : null;
  const field =
    type === 'flag'
      ? html`<select name="p.${name}">
          ${['', '0', '1'].map((each) => optionTag(each, value, each === '' ? `default (${standing ?? 'none'})` : each))}
        </select>`
      : html`<input name="p.${name}" value="${value}" placeholder="${standing ?? ''}" ${need} />`;
  return html`<label>${name} ${meaning === name ? null : html`<span class="soft">${meaning}</span>`} ${field}</label>`;
}

export async function reportPicture(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return pictureOf(visit, ports, requestOf(await reportOf(visit, ports), visit, ports));
}

export async function reportDownload(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const report = await reportOf(visit, ports);
  return downloadOf(visit, ports, report.name, requestOf(report, visit, ports), downloadMs);
}

/** Saves the statement as a report, and opens that. */
export async function saveQuery(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { settings, readers, clock, signal } = ports;
  const { form, link } = visit;
  const field = (name: string): string => form.get(name)?.trim() ?? '';
  const parameters = new Map(
    form.getAll('parameter').map((name) => {
      const type = parameterTypes.find((each) => each === form.get(`type.${name}`)) ?? 'text';
      return [name, { type, default: field(`default.${name}`) }] as const;
    }),
  );
  const { reports, broken } = await openReports(settings);
  const taken = [...reports, ...broken].map(({ name }) => name);
  const saved = `Saved by ${callerOf(visit).account.name} on ${dayOf(clock.now())}.`;
  const description = `${field('description')} ${saved}`;
  const query = { title: field('title'), subject: field('subject'), description, sql: field('sql'), parameters };
  const report = readers.read((snapshot) => newReport(snapshot, settings.export.reports, query, taken));
  await writeReport(report, signal);
  await ports.journal.by(actorOf(visit, ports)).reportChanged('report_saved', report.name);
  return redirect(link(`/reports/${report.name}`));
}

/** @param parameters those of the statement */
function saveForm({ link, form }: Visit, sql: string, parameters: readonly string[]): Html {
  const typed = (name: string): Part => html`value="${form.get(name)}"`;
  return html`<details ${parameters.length > 0 || form.has('title') ? html`open` : null}>
    <summary>Save as a report</summary>
    ${postForm(
      link('/sql'),
      html`<input type="hidden" name="sql" value="${sql}" />
        ${textField('Title', 'title', html`required maxlength="60" ${typed('title')}`)}
        ${textField('Subject, such as Money', 'subject', html`maxlength="40" ${typed('subject')}`)}
        ${textField('What it shows', 'description', html`maxlength="500" ${typed('description')}`)}
        ${parameters.map(
          (name) =>
            html`<div class="fields" role="group" aria-label="Parameter ${name}">
              <input type="hidden" name="parameter" value="${name}" />
              ${selectTag(
                `:${name} is a`,
                `type.${name}`,
                parameterTypes.map((type) =>
                  optionTag(type, form.get(`type.${name}`) ?? (dayNames.has(name) ? 'date' : 'text')),
                ),
              )}
              <label>Default, such as 30d <input name="default.${name}" ${typed(`default.${name}`)} /></label>
            </div>`,
        )}
        <p>
          <button>Save</button>
          <span class="soft">Everybody who may see reports sees it, with what their roles mask.</span>
        </p>`,
    )}
  </details>`;
}

/** Parameters of these names are taken for days, until somebody says otherwise. */
const dayNames: ReadonlySet<string> = new Set(['from', 'to', 'day', 'since', 'until']);

export async function sqlPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { query, link } = visit;
  const sql = visit.form.get('sql') ?? query.get('sql') ?? '';
  const { shown, more } = await shownOrWhyNot(ports, () => sqlTag(visit, ports, sql));
  const form = html`<form method="get" action="${link('/sql')}">
    <label
      >One statement that reads
      <textarea class="sql" name="sql" rows="8" maxlength="8000" spellcheck="false" required>${sql}</textarea>
    </label>
    <p class="fields">
      <button name="do" value="run">Run</button>
      <button name="do" value="picture" class="quiet">Draw it</button>
      <span class="soft">Ctrl+Enter runs it</span>
    </p>
  </form>`;
  const tables = inventory(ports.readers.read((snapshot) => snapshot.relations()));
  const body = html`<div class="beside">
    <div>${form} ${shown}</div>
    <aside aria-label="Tables and columns">
      <h2>Tables and columns</h2>
      ${tables.filter((each) => each.in_file === true).map(tableEntryTag)}
    </aside>
  </div>`;
  return page('SQL', body, more);
}

/** The result of the button that was pressed. */
async function sqlTag(visit: Visit, ports: ConsolePorts, sql: string): Promise<Html> {
  const { query, link } = visit;
  if (sql.trim() === '') {
    return html`<p class="soft">You cannot change anything here: only statements that read are run.</p>`;
  }
  const parameters = ports.readers.read((snapshot) => [...new Set(snapshot.describe(sql).parameters)]);
  const save = visit.offers('POST', '/sql') ? saveForm(visit, sql, parameters) : null;
  if (parameters.length > 0) {
    const names = parameters.map((name) => `:${name}`).join(', ');
    return html`<p class="note">The form of a report asks for ${names}: save the statement as one.</p>
      ${save}`;
  }
  if (query.get('do') === 'picture') {
    // Drawn once here, so that an error appears as text.
    await textOf(visit, ports, { kind: 'chart', what: { sql }, now: ports.clock.now() });
    return html`${pictureTag(link('/sql/picture', { sql }), `The picture of: ${sql.slice(0, 300)}`)} ${save}`;
  }
  const { preview } = await previewOf(visit, ports, { sql });
  return html`${downloadsTag((format) => link('/sql/download', { sql, format }))} ${previewTag('Result', preview)}
  ${save}`;
}

function tableEntryTag({ name, kind, summary, columns }: InventoryTable): Html {
  return html`<details>
    <summary><code>${name}</code> ${kind === 'view' ? html`<span class="soft">view</span>` : null}</summary>
    <p class="soft">${summary}</p>
    <ul>
      ${columns.map((each) => html`<li title="${each.meaning}"><code>${each.name}</code> <span class="soft">${each.type}</span></li>`)}
    </ul>
  </details>`;
}

/** Returns the statement in the address; without one, a redirect to the form. */
function sqlOr({ query, link }: Visit): string | Reply {
  const sql = query.get('sql') ?? '';
  return sql.trim() === '' ? redirect(link('/sql')) : sql;
}

export async function sqlPicture(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const sql = sqlOr(visit);
  return typeof sql === 'string' ? pictureOf(visit, ports, { sql }) : sql;
}

export async function sqlDownload(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const sql = sqlOr(visit);
  return typeof sql === 'string' ? downloadOf(visit, ports, 'query', { sql }, downloadMs) : sql;
}

type Query = { readonly sql: string } | ReportRequest;

/** Returns the whole output of the job. The jobs here limit their output. */
async function textOf(
  visit: Visit,
  { readers }: ConsolePorts,
  job: ReadingJob,
  onWarning?: (words: string) => void,
): Promise<string> {
  const run = { signal: visit.signal, timeoutMs: shownMs, ...(onWarning !== undefined && { onWarning }) };
  return text(readers.chunks({ ...job, isMasked: isMaskedFor(visit) }, run));
}

async function previewOf(
  visit: Visit,
  ports: ConsolePorts,
  what: Query,
): Promise<{ preview: Preview; warnings: string[] }> {
  const warnings: string[] = [];
  const job: ReadingJob = { kind: 'preview', what, rows: maxShownRows };
  const preview = JSON.parse(await textOf(visit, ports, job, (words) => void warnings.push(words))) as Preview;
  return { preview, warnings };
}

async function pictureOf(visit: Visit, ports: ConsolePorts, what: Query): Promise<Reply> {
  return { kind: 'picture', svg: await textOf(visit, ports, { kind: 'chart', what, now: ports.clock.now() }) };
}

function pictureTag(source: string, words: string): Html {
  return html`<p><img class="picture" src="${source}" alt="${words}" width="880" height="480" /></p>`;
}

function downloadsTag(link: (format: ExportFormat) => string): Html {
  return html`<p>
    Download: ${exportFormats.map((format) => html`<a href="${link(format)}" download>${format}</a> `)}
  </p>`;
}

const amounts = new Intl.NumberFormat('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** @param money columns with amounts, which are shown to the cent */
function previewTag(
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
