/** The list of tables and views of the mirror. */
import { type InventoryTable, inventory } from '../../data/inventory.ts';
import { grouped } from '../../model/text.ts';
import { anchor, html, type Part, tableTag } from '../html.ts';
import { type ConsolePorts, page, type Reply, type Visit } from '../route.ts';
import { isMaskedFor, maskedNote } from './results.ts';
import { dataPath, laterTag } from './data.ts';

export async function dataPage(visit: Visit, { readers }: ConsolePorts): Promise<Reply> {
  const { link } = visit;
  const isMasked = isMaskedFor(visit);
  const tables = inventory(readers.read((snapshot) => snapshot.relations())).filter((each) => each.in_file);
  const sizes = await readers.beside({ part: 'sizes' }, isMasked, visit.query.has('whole'));
  const shown = (kind: InventoryTable['kind'], isOwn: boolean): readonly InventoryTable[] =>
    tables.filter((each) => each.kind === kind && each.name.startsWith('mirror_') === isOwn);
  const list = (caption: string, entries: readonly InventoryTable[], hasSizes: boolean): Part =>
    entries.length === 0
      ? null
      : [
          html`<h2>${caption}</h2>`,
          tableTag<InventoryTable>(
            caption,
            [
              ['Name', ({ name }) => anchor(link(dataPath(name)), name)],
              ...(hasSizes ? [['Rows', sizeIn(sizes), 'number'] as const] : []),
              ['What it holds', ({ summary }) => summary],
            ],
            entries,
          ),
        ];
  const lists = html`${list('Tables', shown('table', false), true)} ${list('Views', shown('view', false), false)}
  ${list('Records of the mirror itself', [...shown('table', true), ...shown('view', true)], true)}`;
  const counted =
    sizes === undefined
      ? laterTag('tables', link('/data', { whole: 1 }), lists)
      : html`<div id="tables">${lists}</div>`;
  return page('Data', html`${isMasked ? maskedNote : null} ${counted}`);
}

function sizeIn(sizes: ReadonlyMap<string, number> | undefined): (entry: InventoryTable) => Part {
  return ({ name }) => {
    const size = sizes?.get(name);
    return size === undefined ? html`<span class="none">–</span>` : grouped(size);
  };
}
