/** A line between a client and a server, on which the test decides what passes. */
import { connect, createServer } from 'node:net';
import { listening } from './listening.ts';

/** What happens to one connection; without these, everything passes. */
interface Passing {
  /** Whether these bytes of the client pass. */
  readonly toServer?: (bytes: Buffer) => boolean;
  /** Whether these bytes of the server pass. */
  readonly toClient?: (bytes: Buffer) => boolean;
  /** Whether neither side notices the other: nothing passes, and no end. */
  readonly isCut?: () => boolean;
}

/** @param passing is called for each connection, with what ends it */
export async function openLine(
  server: { readonly port: number; readonly host?: string },
  passing: (end: () => void) => Passing,
) {
  const ends = new Set<() => void>();
  const proxy = createServer((client) => {
    const upstream = connect(server.port, server.host ?? '127.0.0.1');
    const end = (): void => {
      client.destroy();
      upstream.destroy();
    };
    ends.add(end);
    const { toServer = () => true, toClient = () => true, isCut = () => false } = passing(end);
    client.on('data', (bytes: Buffer) => void (!isCut() && toServer(bytes) && upstream.write(bytes)));
    upstream.on('data', (bytes: Buffer) => void (!isCut() && toClient(bytes) && client.write(bytes)));
    for (const side of [client, upstream]) side.on('error', () => {}).on('close', () => void (isCut() || end()));
  });
  return {
    port: Number(new URL(await listening(proxy)).port),
    endAll: () => {
      for (const end of ends) end();
      ends.clear();
    },
  };
}

/** The address with another port of this machine. */
export function atPort(address: string, port: number): string {
  const url = new URL(address);
  url.port = String(port);
  return url.href;
}
