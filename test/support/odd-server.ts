/** A server whose users are records of raw JSON; its other lists are empty. */
import { createServer } from 'node:http';
import { listening } from './listening.ts';

/** @param records the text or bytes of each record; their ids must differ */
export async function startOddServer(records: readonly (string | Buffer)[]): Promise<{ readonly url: string }> {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(answerTo(request.url ?? '', records));
  });
  return { url: await listening(server) };
}

function answerTo(path: string, records: readonly (string | Buffer)[]): Buffer {
  const query = new URL(path, 'http://localhost').searchParams;
  const shown = /\/users\?|\/users$/.test(path) && !path.includes('filter') ? records : [];
  const size = Number(query.get('paginate') ?? 15);
  const page = Number(query.get('page') ?? 1);
  const here = shown.slice((page - 1) * size, page * size);
  const { length: total } = shown;
  const head = {
    status: true,
    current_page: page,
    from: 1,
    last_page: Math.max(1, Math.ceil(total / size)),
    per_page: size,
  };
  const start = JSON.stringify({ ...head, to: total, total, links: [] }).slice(0, -1);
  const parts = here.flatMap((record, at) => [Buffer.from(at === 0 ? '' : ','), Buffer.from(record)]);
  return Buffer.concat([Buffer.from(`${start},"data":[`), ...parts, Buffer.from(']}')]);
}
