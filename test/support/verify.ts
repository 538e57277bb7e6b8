/** A comparison of a mirror with a sandbox in this process, wired as the command wires it. */
import { openVerifyEngine } from '../../src/mirror/open.ts';
import type { PageReader } from '../../src/mirror/page-reader.ts';
import type { Source } from '../../src/mirror/source.ts';
import type { VerifyRequest, VerifyResult } from '../../src/mirror/verify.ts';
import { resourceNames } from '../../src/model/resources.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { testClient } from './mirror.ts';

export interface VerifyTry extends Partial<VerifyRequest> {
  readonly signal?: AbortSignal;
  /** What stands between the comparison and the server. */
  readonly source?: (source: Source) => Source;
  /** What makes pages of responses; the thread of the command unless told. */
  readonly readPages?: PageReader;
}

export async function verifyMirror(sandbox: Sandbox, file: string, tried: VerifyTry = {}): Promise<VerifyResult> {
  const { source: overSource = (source: Source) => source, readPages, ...others } = tried;
  const { signal = new AbortController().signal, ...request } = others;
  const clock = { now: () => sandbox.control.clock().now };
  const client = testClient(sandbox);
  const options = { client, file, clock, signal, pageSize: 1_000, progress: () => {} };
  const engine = openVerifyEngine({ ...options, overSource, ...(readPages === undefined ? {} : { readPages }) });
  try {
    return await engine.run({ resources: resourceNames, deep: false, concurrency: 8, ...request });
  } finally {
    engine.close();
    await client.close();
  }
}
