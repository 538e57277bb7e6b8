/** When a worker waits for its turn, and when it works. */
import { describe, expect, test } from 'vitest';
import { type Membership, takeTurns } from '../../src/worker/fleet.ts';
import { LockHeldError, UsageError } from '../../src/model/errors.ts';

/** A membership whose heartbeats find the place free, taken, or the store away. Time passes only while the worker sleeps. */
function fleet(looks: readonly (boolean | Error)[], work: () => Promise<void>) {
  const stop = new AbortController();
  const rests: number[] = [];
  const said: string[] = [];
  let at = 0;
  const membership: Membership = {
    leaseMs: 45_000,
    clock: { now: () => 0 },
    heartbeat: async () => {
      const found = looks[at++];
      if (found === undefined) stop.abort();
      if (found instanceof Error) throw found;
      return found ?? false;
    },
    head: async () => undefined,
    hasStep: async () => true,
    close: async () => {},
  };
  const write = (_: object, message: string) => void said.push(message);
  const done = takeTurns({
    membership,
    remember: async () => {},
    work,
    sleep: async (ms) => void rests.push(ms),
    signal: stop.signal,
    log: { debug: write, info: write, warn: write, error: write },
    onTrouble: () => {},
  });
  return { done, rests, said };
}

const [taken, free] = [false, true];

describe('a worker among others', () => {
  test('checks every fifteenth of a lease while another is active, and says so once', async () => {
    const { done, rests, said } = fleet([taken, taken, taken], async () => {});
    await done;
    expect(rests).toEqual([3_000, 3_000, 3_000]);
    expect(said).toEqual([expect.stringMatching('another worker is active')]);
  });

  test('that is replaced waits for its next turn', async () => {
    let turns = 0;
    const { done, said } = fleet([free, taken, free, taken], async () => {
      turns += 1;
      throw new LockHeldError('another has it');
    });
    await done;
    expect([turns, said[0]]).toEqual([2, 'this worker is no longer active: another has it']);
  });

  test('that cannot start waits for a minute, and reports an unreachable store once', async () => {
    const away = new UsageError('the store is away');
    const { done, rests, said } = fleet([away, away, free, taken, taken], async () => {
      throw new UsageError('the mirror cannot be restored');
    });
    await done;
    expect(said.slice(0, 2)).toEqual(['the store is away', 'the mirror cannot be restored']);
    expect(rests).toContain(60_000);
  });
});
