import { describe, expect, test } from 'vitest';
import { mapRows, PackedRows } from '../../../src/bulk/sheet/rows.ts';

interface Row {
  readonly row: number;
  readonly text: string | null;
  readonly more: { readonly list: readonly string[] };
}

const rowOf = (at: number): Row => ({
  row: at,
  text: at % 3 === 0 ? null : `é東😀 "${at}"\r\n`,
  more: { list: at % 2 === 0 ? [] : ['a', ''] },
});

describe('packed rows', () => {
  test.each([0, 1, 99, 100, 101, 1_000, 1_234])('%i of them are read back unchanged, as often as needed', (count) => {
    const all = Array.from({ length: count }, (_, at) => rowOf(at));
    const packed = new PackedRows<Row>();
    for (const each of all) packed.add(each);
    expect(packed).toHaveLength(count);
    expect([...packed]).toEqual(all);
    expect([...packed]).toEqual(all);
  });

  test.each([0, 1, 100, 1_234])('%i of them are gone once they are drained', (count) => {
    const all = Array.from({ length: count }, (_, at) => rowOf(at));
    const packed = new PackedRows<Row>();
    for (const each of all) packed.add(each);
    expect([...packed.drain()]).toEqual(all);
    expect([...packed]).toEqual([]);
    expect(packed).toHaveLength(0);
  });

  test('are unpacked only as far as they are read', () => {
    const packed = new PackedRows<Row>();
    for (let at = 0; at < 500; at += 1) packed.add(rowOf(at));
    const read: number[] = [];
    const rows = mapRows(packed, ({ row }) => {
      read.push(row);
      return row;
    });
    for (const row of rows) if (row === 150) break;
    expect(rows).toHaveLength(500);
    expect(read).toHaveLength(151);
  });
});
