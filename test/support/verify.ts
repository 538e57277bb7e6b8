/** A comparison of a mirror with a sandbox in this process, wired as the command wires it. */
import { openVerifyEngine, recordDifferences as noteDifferences } from '../../src/mirror/open.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import type { Source } from '../../src/mirror/source.ts';
import type { VerifyRequest, VerifyResult } from '../../src/mirror/verify.ts';
import { resourceNames } from '../../src/model/resources.ts';
import type { Sandbox } from './bent/sandbox.ts';
import { testClient } from './mirror.ts';

export interface VerifyTry extends Partial<VerifyRequest> {
  readonly signal?: AbortSignal;
  /** Wraps the source between the comparison and the server. */
  readonly source?: (source: Source) => Source;
}

export async function verifyMirror(sandbox: Sandbox, file: string, tried: VerifyTry = {}): Promise<VerifyResult> {
  const { source: overSource = (source: Source) => source, signal = new AbortController().signal, ...request } = tried;
  const clock = { now: () => sandbox.control.now() };
  const client = testClient(sandbox);
  const options = { client, file, clock, signal, pageSize: 1_000, progress: () => {} };
  const engine = openVerifyEngine({ ...options, overSource });
  try {
    return await engine.run({ resources: resourceNames, deep: false, concurrency: 8, ...request });
  } finally {
    engine.close();
    await client.close();
  }
}

/** Notes the windows that a comparison found to differ, as the command does. */
export function recordDifferences(file: string, differing: VerifyResult['differing']): void {
  const store = openMirrorStore(file);
  noteDifferences(store, 'a-run', differing);
  store.close();
}
