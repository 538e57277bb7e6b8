/**
 * The thread that a sync reads the server in: it sends the requests and makes rows of the pages, beside the thread that
 * writes them. src/api/remote-http.ts is its other side.
 */
import { parentPort } from 'node:worker_threads';
import { openReader } from './app.ts';

if (parentPort === null) throw new Error('reader-thread runs as a thread');
await openReader(parentPort);
