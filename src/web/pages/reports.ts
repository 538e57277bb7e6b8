/** Saved reports: a form, the rows, a picture, and downloads. The address of the page holds all parameters. */
import { openReports } from '../../data/open.ts';
import { type Report, reportNamed, type ReportParameter } from '../../data/reports/reports.ts';
import { assumptionsWith, hasHistory, type ReportRequest, requestFor } from '../../data/reports/run.ts';
import { removeReport } from '../../data/reports/save.ts';
import {
  anchor,
  buttonForm,
  factsTag,
  html,
  type Html,
  optionTag,
  type Part,
  problemTag,
  prose,
  timeField,
} from '../html.ts';
import { actorOf, type ConsolePorts, notFound, page, redirect, type Reply, timeIn, type Visit } from '../route.ts';
import {
  downloadMs,
  shownOrWhyNot,
  previewOf,
  pictureOf,
  pictureTag,
  downloadsTag,
  previewTag,
  downloadOf,
  isMaskedFor,
  maskedNote,
} from './results.ts';

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
