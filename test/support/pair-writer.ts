/**
 * A process that moves money between users of a mirror until it is stopped; each transaction changes two rows, and
 * counts itself in a third place. Argument: the file. Prints "writing" when it starts.
 */
import { openMirrorFile } from '../../src/store/open.ts';

const [file = ''] = process.argv.slice(2);
const database = openMirrorFile(file);
// Often, so that pages are checkpointed into the file while it is copied.
database.pragma('wal_autocheckpoint = 40');
const users = database.prepare<[], number>('SELECT count(*) FROM users').pluck().get() ?? 0;
const move = database.prepare('UPDATE users SET balance = balance + ? WHERE id = ?');
const count = database.prepare('UPDATE mirror_server SET address = CAST(address AS INTEGER) + 1');
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
