/**
 * A server behind TLS, for the name panel.example.com and with a certificate that only `caFile` verifies; and a proxy
 * to it.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { projectFolder } from './documents.ts';
import { listening } from './listening.ts';

const folder = join(projectFolder, 'test/fixtures/tls');
export const caFile = join(folder, 'ca.pem');
export const certificateFiles = { certificate: join(folder, 'server.pem'), key: join(folder, 'server.key') };

function joined(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.on('error', () => to.destroy()).pipe(to);
  }
}

/** Self-signed certificates with wrong dates: one has expired, one is not valid yet. */
export const timedCertificates = { expired: join(folder, 'expired.pem'), early: join(folder, 'early.pem') };

/** TLS in front of the plain server at that address; returns the port. */
export async function tlsInFrontOf(url: string, { certificate, key: keyFile } = certificateFiles): Promise<number> {
  const [key, cert] = [keyFile, certificate].map((file) => readFileSync(file));
  const server = createTlsServer({ key, cert }, (socket) =>
    joined(socket, connect(Number(new URL(url).port), '127.0.0.1')),
  );
  return Number(new URL(await listening(server)).port);
}

/** A proxy that connects every host to that port of this machine; `asked` has the requested hosts. */
export async function proxyTo(port: number) {
  const asked: { readonly host: string; readonly authorization: string | undefined }[] = [];
  const server = createServer();
  server.on('connect', ({ url = '', headers }, client: Socket) => {
    asked.push({ host: url, authorization: headers['proxy-authorization'] });
    const upstream = connect(port, '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n');
      joined(client, upstream);
    });
  });
  return { url: await listening(server), asked };
}
