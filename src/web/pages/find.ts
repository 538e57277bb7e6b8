/** Finds a person from the header of every page. */
import { foundColumns, mostFound } from '../../data/find-people.ts';
import { counted } from '../../model/text.ts';
import type { Row } from '../../data/reading-types.ts';
import { anchor, cellTag, type Column, html, sideOf, tableTag } from '../html.ts';
import { type ConsolePorts, page, redirect, type Reply, type Visit } from '../route.ts';
import { dataPath, linked } from './data.ts';
import { isMaskedFor } from './results.ts';

/** Opens the page of the person; with several, lists them. Whoever may not see data about people finds them by their ids alone. */
export async function findPage(visit: Visit, { readers }: ConsolePorts): Promise<Reply> {
  const { query, link, signal } = visit;
  const isMasked = isMaskedFor(visit);
  const text = (query.get('q') ?? '').trim().slice(0, 200);
  const how = html`<p class="soft">
    ${isMasked ? 'With your roles, a person is found by the id alone.' : 'A person is found by the id, by an email or its beginning, or by words of the names: "ann lee".'}
  </p>`;
  if (text === '') return page('Find a person', how);
  const found = await readers.part({ part: 'people', text }, isMasked, signal);
  const [only, second] = found;
  if (only !== undefined && second === undefined) return redirect(link(dataPath('users', String(only[0]))));
  const containing = new URLSearchParams({ field: 'email', is: 'contains', value: text });
  const all = html`<p>
    ${anchor(`${link(dataPath('users'))}?${containing.toString()}`, 'All emails that contain it')}
  </p>`;
  const shown = found.slice(0, mostFound);
  const columns = foundColumns.map((name, at): Column<Row> => {
    const type = name === 'id' ? 'integer' : name === 'balance' ? 'decimal' : undefined;
    return [name, (row) => linked(visit, 'users', name, row[at] ?? null, cellTag(row[at] ?? null, type)), sideOf(type)];
  });
  const count =
    found.length > mostFound
      ? `The first ${mostFound}. Type more to see fewer.`
      : counted(found.length, 'person', 'people');
  return page(
    `Search: ${text}`,
    html`${found.length === 0 ? null : html`<p class="soft">${count}</p>`}
    ${tableTag('People', columns, shown, 'Nobody of that name, email or id is in the mirror.')}
    ${found.length === 0 ? how : null} ${isMasked ? null : all}`,
  );
}
