/** Plain requests to a sandbox, without the project's own client, to see the raw responses. */
import { request } from 'undici';
import type { Sandbox as UsualSandbox } from '../../src/sandbox/sandbox.ts';

/** What a request needs to know of a sandbox. */
type Sandbox = Pick<UsualSandbox, 'url' | 'key'>;

export type Json = Record<string, unknown>;

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

export interface Call {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH';
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** The response as text; rejects if the connection breaks. Redirects are not followed. */
export async function call(sandbox: Sandbox, path: string, options: Call = {}): Promise<Reply> {
  const { statusCode, headers, body } = await request(`${sandbox.url}${path}`, {
    method: options.method ?? 'GET',
    headers: options.headers ?? {
      authorization: `Bearer ${sandbox.key}`,
      accept: 'application/json',
      'content-type': 'application/json',
    },
    ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
  return { status: statusCode, headers, text: await body.text() };
}

/** The JSON of the response, whatever its status. */
export async function json(sandbox: Sandbox, path: string, options: Call = {}): Promise<Json> {
  return JSON.parse((await call(sandbox, path, options)).text) as Json;
}

export interface Page {
  readonly status: boolean;
  readonly current_page: number;
  readonly data: readonly Json[];
  readonly first_page_url: string;
  readonly from: number | null;
  readonly last_page: number;
  readonly last_page_url: string;
  readonly links: readonly { readonly url: string | null; readonly label: string; readonly active: boolean }[];
  readonly next_page_url: string | null;
  readonly path: string;
  readonly per_page: number;
  readonly prev_page_url: string | null;
  readonly to: number | null;
  readonly total: number;
}

/** A page of a list; throws if the status is not 200. */
export async function page(sandbox: Sandbox, path: string): Promise<Page> {
  const reply = await call(sandbox, `/api/v1/${path}`);
  if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${reply.text}`);
  return JSON.parse(reply.text) as Page;
}

/** One value of every record on a page. */
export async function column(sandbox: Sandbox, path: string, name: string): Promise<unknown[]> {
  return (await page(sandbox, path)).data.map((record) => record[name]);
}

export async function ids(sandbox: Sandbox, path: string): Promise<number[]> {
  return (await column(sandbox, path, 'id')) as number[];
}

/** The errors of undici if the other side broke the connection. */
export const broken = /ECONNRESET|other side closed|terminated|aborted/;

/** Whether the text is JSON. */
export function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
