/** The client that sends by itself, in this thread. */
import { type Client, type ClientOptions, openClientOver } from './client.ts';
import { openHttp } from './http.ts';

/** Opens the client; nothing is sent before the first call. Throws a UsageError for an address or key of no use. */
export function openClient(options: ClientOptions): Client {
  return openClientOver(openHttp, options);
}
