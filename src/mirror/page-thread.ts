/** The thread that makes pages of responses. src/mirror/page-reader.ts is its other side. */
import { parentPort } from 'node:worker_threads';
import { servePages } from './page-reader.ts';

if (parentPort === null) throw new Error('page-thread runs as a thread');
servePages(parentPort);
