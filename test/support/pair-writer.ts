/**
 * A process that moves money between users of a mirror, two rows in each transaction and the count of them in a third
 * place, until it is stopped. Argument: the file. Says "writing" once it does.
 */
import { openMirrorFile } from '../../src/store/open.ts';

const [file = ''] = process.argv.slice(2);
const database = openMirrorFile(file);
// Often, so that pages are folded into the file while it is copied.
database.pragma('wal_autocheckpoint = 40');
const users = database.prepare<[], number>('SELECT count(*) FROM users').pluck().get() ?? 0;
const move = database.prepare('UPDATE users SET balance = balance + ? WHERE id = ?');
const count = database.prepare(
  "UPDATE mirror_capabilities SET value = CAST(value AS INTEGER) + 1 WHERE name = 'moves'",
);
const note = database.prepare('UPDATE packages SET global_quantity = global_quantity + 1 WHERE id = 1');
const transfer = database.transaction((from: number, to: number) => {
  move.run(-1n, from);
  note.run();
  move.run(1n, to);
  count.run();
});
for (let round = 0; ; round += 1) {
  transfer.immediate(1 + ((round * 7919) % users), 1 + ((round * 104_729 + 1) % users));
  if (round === 20) process.stdout.write('writing\n');
}
