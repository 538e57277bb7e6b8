/**
 * A process that sends a batch of a shared journal and stops itself at one exact moment, until another process
 * continues it. failover.test.ts starts it. It prints `paused`, and at its end the names of all moments and how it ended.
 */
import { subscribe } from 'node:diagnostics_channel';
import { openJournalOver } from '../../src/journal/journal.ts';
import { noRules } from '../../src/journal/approval.ts';
import { openSharedBackend } from '../../src/journal/postgres.ts';
import { actorOf } from '../../src/model/actor.ts';
import { systemClock } from '../../src/model/time.ts';
import { openBulkClient, send } from '../support/bulk.ts';
import { storeOf } from '../support/shared.ts';
import { watched } from './watched-journal.ts';

export interface PauseTask {
  readonly url: string;
  readonly key: string;
  readonly database: { readonly url: string; readonly password: string };
  readonly schema: string;
  readonly leaseMs: number;
  readonly sendMarginMs: number;
  readonly batch: string;
  /** The moment to stop at, counted from 1; 0 means never. */
  readonly pauseAt: number;
}

const task = JSON.parse(process.argv[2] ?? '{}') as PauseTask;
const names: string[] = [];

function moment(name: string): void {
  names.push(name);
  if (names.length !== task.pauseAt) return;
  process.stdout.write('paused\n');
  process.kill(process.pid, 'SIGSTOP');
}

for (const event of ['connected', 'sendHeaders']) subscribe(`undici:client:${event}`, () => moment(event));
for (const event of ['bodySent', 'headers', 'trailers']) subscribe(`undici:request:${event}`, () => moment(event));

const store = { ...storeOf(task.database, task.schema), leaseMs: task.leaseMs };
const journal = await openJournalOver(await openSharedBackend(store, systemClock), actorOf(process.env), noRules);
const client = openBulkClient(task, 30_000);
let end = 'complete';
try {
  const { error } = await send(watched(journal, moment), client, task.batch, { sendMarginMs: task.sendMarginMs });
  end = error?.name ?? end;
} catch (error) {
  end = error instanceof Error ? error.name : String(error);
}
await client.close();
await journal.close();
process.stdout.write(`${JSON.stringify({ names, end })}\n`);
