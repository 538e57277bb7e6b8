/** A server that echoes everything that it receives, in headers, records, errors and web pages. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { listening } from './listening.ts';

/** The response to a write. */
type EchoManner = 'accepts' | 'refuses' | 'fails' | 'fails with a web page' | 'cuts the answer';

export const echoManners: readonly EchoManner[] = [
  'accepts',
  'refuses',
  'fails',
  'fails with a web page',
  'cuts the answer',
];

/** The password that the server generates if none is given. */
export const generatedPassword = 'Gen3rated-Xk9"Qz/7';
/** A password hash stored with each user, which a server should not serve. */
export const storedPassword = '$2y$10$Wq3eStoredHashZ81';

export async function startEchoingServer(manner: EchoManner): Promise<{ readonly url: string }> {
  const server = createServer((request, response) => {
    void text(request).then((body) => answer(request, response, body, manner));
  });
  return { url: await listening(server) };
}

function answer(request: IncomingMessage, response: ServerResponse, body: string, manner: EchoManner): void {
  const { authorization = '' } = request.headers;
  const given = body === '' ? {} : (JSON.parse(body) as { readonly password?: string });
  const { password = generatedPassword } = given;
  response.setHeader('x-debug', authorization);
  response.setHeader('content-type', 'application/json');
  const echo = {
    message: `${request.method} with ${authorization}: the password is ${given.password ?? 'set'}`,
    generated_password: password,
    trace: [`Authorization: ${authorization}`, body, JSON.stringify({ body })],
  };
  if (request.method === 'GET') {
    response.end(JSON.stringify(readAnswer(request.url ?? '', authorization)));
    return;
  }
  switch (manner) {
    case 'accepts':
      response.statusCode = 201;
      response.end(JSON.stringify({ data: { id: 7, email: 'a@example.com', newPassword: password }, ...echo }));
      return;
    case 'refuses':
      response.statusCode = 422;
      response.end(
        JSON.stringify({
          ...echo,
          errors: { password: [`${given.password ?? 'it'} is too weak`], key: authorization },
        }),
      );
      return;
    case 'fails':
      response.statusCode = 500;
      response.end(JSON.stringify(echo));
      return;
    case 'fails with a web page':
      response.statusCode = 502;
      response.setHeader('content-type', 'text/html');
      response.end(`<html>${authorization} Your password is <b>${given.password ?? ''}</b> ${body}</html>`);
      return;
    case 'cuts the answer':
      response.writeHead(200, { 'content-length': '100000' });
      response.write(JSON.stringify(echo), () => response.destroy());
      return;
    default:
      manner satisfies never;
  }
}

/** One user with secret fields; everything else is empty. */
function readAnswer(path: string, authorization: string): unknown {
  const user = {
    id: 7,
    email: 'ann@example.com',
    username: 'ann',
    created_at: '2026-01-05T10:00:00.000000Z',
    password: storedPassword,
    password_changed_at: '2026-01-06T10:00:00.000000Z',
    seen_with: authorization,
    seen_encoded: Buffer.from(`id: ${authorization}`).toString('base64'),
    meta: {
      plain_password: generatedPassword,
      passwd: storedPassword,
      pwd: storedPassword,
      passphrase: generatedPassword,
      PassWord: storedPassword,
    },
  };
  if (path.includes('/users/')) return { data: user };
  const filtered = path.includes('filter');
  const records = /\/users\?|\/users$/.test(path) && !filtered ? [user] : [];
  return {
    status: true,
    current_page: 1,
    data: records,
    from: 1,
    last_page: 1,
    links: [],
    per_page: 1000,
    to: records.length,
    total: records.length,
  };
}
