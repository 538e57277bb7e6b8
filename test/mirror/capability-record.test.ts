import { expect, onTestFinished, test } from 'vitest';
import type { Capabilities } from '../../src/api/capabilities.ts';
import { recordCapabilities, storedCapabilities } from '../../src/mirror/server-check.ts';
import { eraEnd, eraStart } from '../../src/model/era.ts';
import { timestampOf } from '../../src/model/time.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

type Rules = Pick<Capabilities, 'ranges' | 'rangeEnd' | 'dayShiftMinutes'>;

function capabilities(rules: Rules): Capabilities {
  return { pageSize: 100, sorts: 'kept', notes: [], ...rules };
}

const exact: Rules = { ranges: 'iso', rangeEnd: 'exclusive', dayShiftMinutes: 0 };
const wide: Rules = { ranges: 'iso', rangeEnd: 'unknown', dayShiftMinutes: 'unknown' };

test.each([
  ['stays read if the rules are the same', exact, exact, false],
  ['stays read if it was read widely enough for the new rules', wide, exact, false],
  ['stays read if its old ranges reached a day further', exact, { ...exact, rangeEnd: 'inclusive' }, false],
  ['stays read if days had counted as shifted', { ...exact, dayShiftMinutes: 60 }, exact, false],
  ['must be read again if the last day may be missing', { ...exact, rangeEnd: 'inclusive' }, exact, true],
  ['must be read again if the end of a range is no longer known', { ...exact, rangeEnd: 'inclusive' }, wide, true],
  ['must be read again if days are shifted after all', exact, { ...exact, dayShiftMinutes: 60 }, true],
  ['must be read again if days are written in another format', exact, { ...exact, ranges: 'dmy' }, true],
  ['must be read again if ranges do not work', exact, { ...exact, ranges: 'none' }, true],
] as const)('a resource %s', (_, before, now, again) => {
  const store = openMirrorStore(`${temporaryFolder()}/mirror.db`);
  onTestFinished(() => store.close());
  const read = { from: eraStart, to: eraEnd, state: 'settled', serverTotal: 0, freshAsOf: timestampOf(0) } as const;
  store.resetWindows('users', [read]);
  recordCapabilities(store, 'users', capabilities(before));
  expect(store.windows('users')).toMatchObject([{ state: 'settled' }]);
  expect(recordCapabilities(store, 'users', capabilities(now))).toBe(again);
  expect(store.windows('users')).toMatchObject([{ state: again ? 'pending' : 'settled' }]);
  expect(storedCapabilities(store, 'users')?.capabilities).toEqual(capabilities(now));
});

test.each([
  ['a format of days', { date_format: 'dmy', date_unreadable: 'error' }, { date_format: 'iso' }],
  ['a size of pages', {}, { page_max: 30, page_over: 'refuse' }],
] as const)(
  '%s that the server comes to refuse is measured again, even if the list is empty by now',
  async (_, before, after) => {
    const sandbox = await startSandbox({ users: 3, behaviour: before });
    const file = `${temporaryFolder()}/mirror.db`;
    const shape = { resources: ['users'], pageSize: 50, allowDeletions: true } as const;
    await sync(sandbox, file, shape);
    for (const { id } of sandbox.control.dump('users')) sandbox.control.remove('users', Number(id));
    sandbox.control.setBehaviour(after);
    const { report } = await sync(sandbox, file, shape);
    expect(report.resources.users).toMatchObject({ status: 'complete', live: 0, problem: null });
  },
);
