/**
 * Ends a test run with one plain line, `N passed, N failed`, for programs that read it.
 *
 * If TEST_COUNTS names a file, the fast part writes its counts there; the full part then skips the test files that it
 * would only repeat (test/vitest.config.ts), and adds their counts to its line.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';
import { isFull } from './part.ts';

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

const countsFile = process.env['TEST_COUNTS'];

/** The counts of the fast part by the path of the test file; empty if there are none. */
export function countedBefore(): ReadonlyMap<string, Counts> {
  if (!isFull || countsFile === undefined) return new Map();
  return new Map(Object.entries(JSON.parse(readFileSync(countsFile, 'utf8')) as Record<string, Counts>));
}

function countsOf(module: TestModule): Counts {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const tests = [...module.children.allTests()];
  for (const test of tests) {
    const state = test.result().state;
    if (state === 'passed' || state === 'failed' || state === 'skipped') counts[state] += 1;
  }
  // A file that cannot be loaded has no tests that fail.
  if (tests.length === 0 && !module.ok()) counts.failed += 1;
  return counts;
}

class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const now = new Map(modules.map((module) => [module.moduleId, countsOf(module)]));
    if (!isFull && countsFile !== undefined) writeFileSync(countsFile, JSON.stringify(Object.fromEntries(now)));
    const all = [...new Map([...countedBefore(), ...now]).values()];
    const sum = (state: keyof Counts) => all.reduce((total, counts) => total + counts[state], 0);
    const skipped = sum('skipped') > 0 ? `, ${sum('skipped')} skipped` : '';
    process.stdout.write(`\n${sum('passed')} passed, ${sum('failed') + unhandled.length} failed${skipped}\n`);
  }
}

// Vitest loads a reporter file through its default export.
export default CountReporter;
