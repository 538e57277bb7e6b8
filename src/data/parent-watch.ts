/** Ends the process when its parent is gone, which closes standard input. A thread of its own, because a statement blocks the other. */
import { Socket } from 'node:net';

const end = (): void => void process.kill(process.pid, 'SIGKILL');

new Socket({ fd: 0 }).on('error', end).on('close', end).resume();
