/** A comparison of a mirror with a sandbox in this process, wired as the command wires it. */
import { apiSource } from '../../src/mirror/api-source.ts';
import type { Source } from '../../src/mirror/source.ts';
import { verify, type VerifyRequest, type VerifyResult } from '../../src/mirror/verify.ts';
import { resourceNames } from '../../src/model/resources.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { openVerifyStore } from '../../src/mirror/store/verify-store.ts';
import { testClient } from './mirror.ts';

export interface VerifyTry extends Partial<VerifyRequest> {
  readonly signal?: AbortSignal;
  /** What stands between the comparison and the server. */
  readonly source?: (source: Source) => Source;
}

export async function verifyMirror(sandbox: Sandbox, file: string, tried: VerifyTry = {}): Promise<VerifyResult> {
  const { source: between = (source: Source) => source, signal = new AbortController().signal, ...request } = tried;
  const clock = { now: () => sandbox.control.clock().now };
  const client = testClient(sandbox);
  const store = openVerifyStore(file);
  try {
    const source = between(apiSource(client, 1_000, clock));
    return await verify(
      { source, store, clock, signal, progress: () => {}, counts: () => client.counters },
      { resources: resourceNames, deep: false, concurrency: 8, ...request },
    );
  } finally {
    store.close();
    await client.close();
  }
}
