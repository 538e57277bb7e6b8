/** A statement that somebody writes: its result, and saving it as a report. */
import { inventory, type InventoryTable } from '../../data/inventory.ts';
import { openReports } from '../../data/open.ts';
import { parameterTypes } from '../../data/reports/reports.ts';
import { newReport, writeReport } from '../../data/reports/save.ts';
import { dayOf } from '../../model/time.ts';
import { html, type Html, optionTag, type Part, postForm, selectTag, textField } from '../html.ts';
import { actorOf, callerOf, type ConsolePorts, page, redirect, type Reply, type Visit } from '../route.ts';
import {
  downloadMs,
  shownOrWhyNot,
  textOf,
  previewOf,
  pictureOf,
  pictureTag,
  downloadsTag,
  previewTag,
  downloadOf,
} from './results.ts';

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
