/**
 * A server of four lists with records of a given length, which makes each page on request: a child process for
 * bench/large-records.ts. Arguments: records in each list, bytes of a record. Prints its address.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resourceNames, resourceOf, type Field, type ResourceName } from '../src/model/resources.ts';
import { dayMs, startOfDay, timestampOf, type Day } from '../src/model/time.ts';

const [records = 1_000, bytes = 60_000] = process.argv.slice(2).map(Number);
const start = Date.parse('2023-03-11T00:00:00Z');
const step = (1_000 * dayMs) / records;
const at = (index: number): number => Math.floor(start + index * step);

/** Text like that of an email: not all characters are one byte in memory. */
const text = 'Grüße aus der Werkstatt – “quoted” <p>and so on</p> '.repeat(Math.ceil(bytes / 50)).slice(0, bytes);
const longFields: Readonly<Record<ResourceName, string>> = {
  users: 'data',
  packages: 'description',
  emails: 'content',
  coupons: 'data',
};

function valueOf(resource: ResourceName, { name, type }: Field, index: number): unknown {
  if (name === longFields[resource]) return type === 'object' ? { notes: `${index} ${text}` } : `${index} ${text}`;
  if (name.endsWith('_at')) return timestampOf(at(index));
  switch (type) {
    case 'integer':
      return index + 1;
    case 'flag':
      return 1;
    case 'number':
      return 12.5;
    case 'object':
      return {};
    case 'strings':
      return [];
    case 'any':
      return null;
    case 'string':
    case 'timestamp':
      return `${name} ${String(index).padStart(9, '0')}`;
  }
}

function recordOf(resource: ResourceName, index: number): unknown {
  return Object.fromEntries(resourceOf(resource).fields.map((field) => [field.name, valueOf(resource, field, index)]));
}

function firstFrom(day: string): number {
  const index = Math.ceil((startOfDay(day as Day) - start) / step);
  return Math.max(0, Math.min(records, index));
}

function listOf(resource: ResourceName, query: URLSearchParams): unknown {
  const perPage = Math.min(1_000, Number(query.get('paginate') ?? 15));
  const page = Number(query.get('page') ?? 1);
  const [first, last] = query.get('date')?.split(',') ?? [];
  const from = first === undefined ? 0 : firstFrom(first);
  const day = last === undefined ? undefined : timestampOf(startOfDay(last as Day) + dayMs).slice(0, 10);
  const to = day === undefined ? records : firstFrom(day);
  const total = Math.max(0, to - from);
  const isFalling = [...query].some(([name, value]) => name.startsWith('sort') && value === 'desc');
  const places = Array.from({ length: Math.max(0, Math.min(perPage, total - (page - 1) * perPage)) }, (_, place) => {
    const offset = (page - 1) * perPage + place;
    return isFalling ? to - 1 - offset : from + offset;
  });
  const data = places.map((index) => recordOf(resource, index));
  return { current_page: page, per_page: perPage, last_page: Math.max(1, Math.ceil(total / perPage)), total, data };
}

function answerOf({ url = '/' }: IncomingMessage): unknown {
  const { pathname, searchParams } = new URL(url, 'http://localhost');
  const name = resourceNames.find((each) => pathname === resourceOf(each).path);
  if (name !== undefined) return listOf(name, searchParams);
  const [, user] = /^\/api\/v1\/users\/(\d+)$/.exec(pathname) ?? [];
  if (user !== undefined) return recordOf('users', Number(user) - 1);
  return { id: 1, username: 'owner' };
}

const server = createServer((request: IncomingMessage, response: ServerResponse) => {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(answerOf(request)));
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
