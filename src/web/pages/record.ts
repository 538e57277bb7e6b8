/** One record: its fields, history and related records, and a comparison with the server. */
import { recordIn } from '../../api/body.ts';
import { NotFound } from '../../api/errors.ts';
import { openApi } from '../../api/open.ts';
import { withoutCache } from '../../bulk/actions/user-with.ts';
import type { ReportedChange } from '../../data/changes.ts';
import { type ColumnType, declaredTypes } from '../../data/column-type.ts';
import { inventory } from '../../data/inventory.ts';
import { isPersonal } from '../../data/personal.ts';
import { recordLimits, recordOf, type RecordField, type RelatedRecords } from '../../data/record.ts';
import { isRecord, type RecordKey, recordKey, type ServedRecord, writtenId } from '../../model/records.ts';
import { withReleases } from '../../model/releases.ts';
import { isResourceName, type ResourceName, resourceOf } from '../../model/resources.ts';
import { timestampOf } from '../../model/time.ts';
import type { UserRow } from '../../journal/port.ts';
import type { Cell, Relation, Row } from '../../data/reading-types.ts';
import { cellOf, jsonText } from '../../mirror/cell.ts';
import { parameterWords } from '../../bulk/review.ts';
import {
  anchor,
  cellTag,
  type Column,
  html,
  type Html,
  type Part,
  postForm,
  sideOf,
  stateTag,
  tableTag,
  timeField,
  timeTag,
} from '../html.ts';
import { type ConsolePorts, notFound, page, type Reply, timeIn, type Visit } from '../route.ts';
import { balanceTag } from './balance.ts';
import { amountIn } from './batch-head.ts';
import { dataPath, linked, noteView } from './data.ts';
import { isMaskedFor, maskedNote } from './results.ts';

interface RecordId {
  readonly resource: ResourceName;
  readonly id: RecordKey;
}

function recordIdIn({ params }: Visit): RecordId {
  const { relation = '', id: text = '' } = params;
  const id = writtenId(text);
  if (!isResourceName(relation)) {
    throw notFound(`only users, packages, emails and coupons have a page for each record; "${relation}" has none`);
  }
  if (id === undefined) throw notFound(`"${text}" is not an id`);
  return { resource: relation, id };
}

export async function recordPage(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { resource, id } = recordIdIn(visit);
  const { readers, journal } = ports;
  const { link } = visit;
  const isMasked = isMaskedFor(visit);
  const at = timeIn(visit.query, 'at', ports.clock) ?? null;
  const { record, relations } = readers.read(
    (snapshot) => ({ record: recordOf(snapshot, resource, id, at), relations: snapshot.relations() }),
    isMasked,
  );
  const { singular } = resourceOf(resource);
  if (record === undefined) throw notFound(`the mirror has never held a ${singular} ${id}`);
  await noteView(visit, ports, resource, personIn({ resource, id }, record.fields));
  const rows = resource === 'users' && !isMasked && typeof id === 'number' ? await journal.rowsOfUser(id, 100) : [];
  const { fields, isLive, changes, related, warning } = record;
  const held = fields?.find(({ name }) => name === 'balance')?.value ?? null;
  const isOwn = resource === 'users' && !isMasked && typeof id === 'number' && at === null && isLive;
  const body = html`${isMasked ? maskedNote : null}
    <form method="get" action="${link(dataPath(resource, id))}" class="fields">
      ${timeField('As it was at', 'at', visit.query)} <button class="quiet">Show</button>
      <a class="button quiet" href="${link(dataPath(resource, id))}">Now</a>
    </form>
    ${warning === null ? null : html`<p class="note">${warning}</p>`}
    ${isLive ? null : html`<p class="note">${stateTag('The server no longer has this record.', 'bad')}</p>`}
    ${isOwn ? await balanceTag(visit, ports, id, held, rows) : null} ${stateOf(fields, at)}
    ${fields === null ? null : fieldsTag(resource, fields, relations, visit)}
    ${isMasked ? null : postForm(link(dataPath(resource, id, 'live')), readLive)}
    ${related.map((each) => relatedTag(each, id, relations, visit))}
    ${resource === 'users' && !isMasked ? rowsTag(rows, visit, ports) : null} ${changesTag(resource, changes)}`;
  return page(`${singular} ${id}`, body);
}

function personIn({ resource, id }: RecordId, fields: readonly RecordField[] | null): RecordKey | undefined {
  const owner = fields?.find(({ name }) => name === 'user_id')?.value;
  return resource === 'users' ? id : typeof owner === 'bigint' ? writtenId(String(owner)) : undefined;
}

function stateOf(fields: readonly RecordField[] | null, at: string | null): Html {
  if (at === null) {
    return fields === null ? html`<p>Its last state is at the top of its history below.</p>` : html``;
  }
  const then = timeTag(at);
  return fields === null
    ? html`<p class="note">The mirror did not have it at ${then}.</p>`
    : html`<p class="note">As the mirror had it at ${then}.</p>`;
}

function fieldsTag(
  resource: ResourceName,
  fields: readonly RecordField[],
  relations: readonly Relation[],
  visit: Visit,
): Html {
  const table = inventory(relations).find(({ name }) => name === resource);
  const columns = fields.map(({ name }) => ({ name, table: resource, origin: name }));
  const types = new Map(
    declaredTypes(columns, relations, { relation: resource }).map((type, at) => [columns[at]?.name ?? '', type]),
  );
  return tableTag<RecordField>(
    'Fields',
    [
      ['Field', ({ name }) => html`<code>${name}</code>`],
      [
        'Value',
        ({ name, value }) => {
          const tag = html`<span class="lines">${cellTag(value, types.get(name), true)}</span>`;
          return name === 'id' ? tag : linked(visit, resource, name, value, tag);
        },
      ],
      [
        'Meaning',
        ({ name }) => [
          table?.columns.find((each) => each.name === name)?.meaning ?? null,
          isPersonal(resource, name) ? ' (personal)' : null,
        ],
      ],
    ],
    fields,
  );
}

function relatedTag(
  { relation, parentColumn, columns, rows, hasMore }: RelatedRecords,
  id: RecordKey,
  relations: readonly Relation[],
  visit: Visit,
): Html {
  const types = declaredTypes(columns, relations, { relation });
  const all = `${visit.link(dataPath(relation))}?${new URLSearchParams({ field: parentColumn, is: 'is', value: String(id) }).toString()}`;
  return html`<h2>${relation}</h2>
    ${tableTag<Row>(
      `Related records: ${relation}`,
      columns.map(({ name }, at): Column<Row> => [
        name,
        (row) => linked(visit, relation, name, row[at] ?? null, cellTag(row[at] ?? null, types[at])),
        sideOf(types[at]),
      ]),
      rows,
    )}
    <p>
      <a href="${all}">${hasMore ? `Show all, not only these ${rows.length}` : 'Show them in a separate table'}</a>
    </p>`;
}

function rowsTag(rows: readonly UserRow[], { link, offers }: Visit, ports: ConsolePorts): Html {
  const { currency } = ports.settings.bulk;
  return html`<h2>Rows of batches</h2>
    ${tableTag<UserRow>(
      'Rows of batches, open and past',
      [
        [
          'Batch',
          ({ batch, title }) => (offers('GET', '/batches/:batch') ? anchor(link(`/batches/${batch}`), title) : title),
        ],
        ['State', ({ state }) => stateTag(state)],
        ['Planned', ({ createdAt }) => timeTag(createdAt)],
        ['Row', ({ row }) => row, 'number'],
        ['Action', ({ action }) => action],
        [
          'What',
          ({ parameters }) => (parameters === null ? null : cellTag(parameterWords(parameters, currency), 'text')),
        ],
        ['Before', (row) => amountIn(ports, row)(row.before), 'number'],
        ['After', (row) => amountIn(ports, row)(row.after), 'number'],
      ],
      rows,
      'No batch has a row for this user.',
    )}`;
}

interface ChangedField {
  readonly change: ReportedChange;
  readonly field: string | null;
  readonly before: Cell;
  readonly after: Cell;
}

function changesTag(resource: ResourceName, changes: readonly ReportedChange[]): Html {
  const rows = changes.flatMap((change): ChangedField[] =>
    change.change === 'inserted'
      ? [{ change, field: null, before: null, after: null }]
      : change.fields.map(({ field, old, new: next }) => ({ change, field, before: old.cell, after: next.cell })),
  );
  const types = new Map<string, ColumnType>(
    resourceOf(resource).fields.map(({ name, type }) => [
      name,
      type === 'timestamp' ? 'time' : type === 'number' ? 'decimal' : 'text',
    ]),
  );
  const value = (field: string | null, cell: Cell): Part => (field === null ? null : cellTag(cell, types.get(field)));
  const words = { inserted: 'came into the mirror', updated: 'changed', deleted: 'was deleted' } as const;
  return html`<h2>History</h2>
    ${changes.length < recordLimits.changes ? null : html`<p class="note">These are the newest ${changes.length} changes.</p>`}
    ${tableTag<ChangedField>(
      'History, the newest first',
      [
        ['When the mirror saw it', ({ change }) => timeTag(change.at)],
        ['What', ({ change }) => words[change.change]],
        ['Field', ({ field }) => (field === null ? null : html`<code>${field}</code>`)],
        ['Before', ({ field, before }) => value(field, before)],
        ['After', ({ field, change, after }) => (change.change === 'deleted' ? null : value(field, after))],
      ],
      rows,
      'No changes are known.',
    )}`;
}

const readLive = html`<button class="quiet">Read it from the server</button>
  <span class="soft">This costs one request.</span>`;

/** Reads the record from the server with one request, and shows it beside the mirror's. */
export async function liveRecord(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { resource, id } = recordIdIn(visit);
  const { readers, clock } = ports;
  const { singular } = resourceOf(resource);
  const served = await servedRecord(resource, id, visit.signal, ports);
  const held = readers.read((snapshot) => recordOf(snapshot, resource, id, null))?.fields ?? null;
  await noteView(visit, ports, resource, personIn({ resource, id }, held));
  const back = html`<p><a href="${visit.link(dataPath(resource, id))}">Back to the record in the mirror</a></p>`;
  const title = `${singular} ${id} on the server`;
  if (served === 'absent' || served === 'not shown') {
    const words =
      served === 'absent'
        ? `The server has no such ${singular}.`
        : `The server's response does not show this ${singular}, and does not say whether it exists.`;
    return page(
      title,
      html`<p class="note">${words}</p>
        ${back}`,
    );
  }
  const body = html`<p class="note">
      Read at ${timeTag(timestampOf(clock.now()))} with one request. Nothing was stored.
    </p>
    ${tableTag(
      'The record on the server and in the mirror',
      [
        ['Field', ({ name }) => html`<code>${name}</code>`],
        ['On the server', ({ there, type }) => cellTag(there, type, true)],
        ['In the mirror', ({ here, type }) => cellTag(here, type)],
        ['', ({ isSame }) => (isSame ? null : stateTag('differs', 'wait'))],
      ],
      compared(resource, served, held),
    )}
    ${back}`;
  return page(title, body);
}

/** Each field as the server and the mirror have it, including fields of the server that the mirror does not know. */
function compared(resource: ResourceName, served: ServedRecord, held: readonly RecordField[] | null) {
  const { fields } = resourceOf(resource);
  const known = new Set(fields.map(({ name }) => name));
  const others = Object.keys(served).filter((name) => !known.has(name));
  const hereOf = (field: string): Cell => held?.find(({ name }) => name === field)?.value ?? null;
  return [
    ...fields.map((field) => {
      const { name, type } = field;
      const value = served[name];
      const { cell, stray } = value === undefined ? { cell: null } : cellOf(field)(value);
      const [here, there] = [hereOf(name), stray === true ? jsonText(value) : cell];
      const shown = type === 'timestamp' ? ('time' as const) : ('text' as const);
      return { name, here, there, isSame: String(here) === String(there), type: shown };
    }),
    ...others.map((name) => ({
      name,
      here: hereOf(name),
      there: jsonText(served[name]),
      isSame: true,
      type: 'text' as const,
    })),
  ];
}

/** Few attempts, because somebody is waiting in front of a browser. */
const retries = { attempts: 2 };

/** Requests the record. `absent`: the server says that it does not exist. `not shown`: the response has something else. */
async function servedRecord(
  resource: ResourceName,
  id: RecordKey,
  signal: AbortSignal,
  { settings, log, clock }: ConsolePorts,
): Promise<ServedRecord | 'absent' | 'not shown'> {
  return withReleases(async (releases) => {
    // No cache: people use this page to decide the outcome of an open row.
    const client = withoutCache(openApi({ settings, log, clock }, releases));
    if (resource !== 'users') {
      const filters = [{ key: 'id', value: id }] as const;
      const { records, total } = await client.list(resource, { filters, paginate: 15 }, signal, retries);
      return records.find((each) => recordKey(each) === id) ?? (total === 0 ? 'absent' : 'not shown');
    }
    try {
      const record = recordIn((await client.getUser(id, [], signal, retries)).body);
      return isRecord(record) && recordKey(record) === id ? record : 'not shown';
    } catch (error) {
      if (error instanceof NotFound) return 'absent';
      throw error;
    }
  });
}
