/**
 * A process that sends a batch and kills itself at one exact moment: before, during or after a step of the journal, or
 * at a socket event. bulk-kill.test.ts starts it. If it survives, it prints the names of all moments.
 */
import { subscribe } from 'node:diagnostics_channel';
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import { openJournal } from '../support/journal-file.ts';
import { actorOf } from '../../src/model/actor.ts';
import { openBulkClient, send } from '../support/bulk.ts';
import { watched } from './watched-journal.ts';

export interface ChildTask {
  readonly url: string;
  readonly key: string;
  readonly journal: string;
  readonly batch: string;
  /** The moment to die at, counted from 1; 0 means never. */
  readonly killAt: number;
  readonly settleAfterMs: number;
}

const task = JSON.parse(process.argv[2] ?? '{}') as ChildTask;
let moments = 0;
const names: string[] = [];

function moment(name: string): void {
  moments += 1;
  names.push(name);
  // SIGKILL takes effect at once: nothing after this line runs.
  if (moments === task.killAt) process.kill(process.pid, 'SIGKILL');
}

const socketEvents = [
  'undici:client:beforeConnect',
  'undici:client:connected',
  'undici:client:sendHeaders',
  'undici:request:bodySent',
  'undici:request:headers',
  'undici:request:trailers',
  'undici:request:error',
];
for (const name of socketEvents) subscribe(name, () => moment(name));

const prepare = Reflect.get(SqliteDatabase.prototype, 'prepare') as (sql: string) => Statement;
Object.assign(SqliteDatabase.prototype, {
  prepare(this: Database, sql: string): Statement {
    const statement = prepare.call(this, sql);
    if (sql !== 'commit') return statement;
    // All of the step is done, and nothing of it is on the disk.
    const run = statement.run.bind(statement);
    return Object.assign(statement, { run: (...given: unknown[]) => (moment('before the commit'), run(...given)) });
  },
});

const journal = await openJournal(task.journal, actorOf(process.env));
const client = openBulkClient(task);
await send(watched(journal, moment), client, task.batch, { settleAfterMs: task.settleAfterMs });
await client.close();
await journal.close();
process.stdout.write(JSON.stringify(names));
