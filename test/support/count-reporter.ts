/** Ends a test run with one plain line, `N passed, N failed`, for whoever reads it by program. */
import type { Reporter, TestModule } from 'vitest/node';

class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly unknown[]): void {
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 };
    for (const module of modules) {
      const tests = [...module.children.allTests()];
      for (const test of tests) {
        const state = test.result().state;
        if (state === 'passed' || state === 'failed' || state === 'skipped') counts[state] += 1;
      }
      // A file that cannot even be loaded has no tests to fail.
      if (tests.length === 0 && !module.ok()) counts.failed += 1;
    }
    const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : '';
    process.stdout.write(`\n${counts.passed} passed, ${counts.failed} failed${skipped}\n`);
  }
}

// Vitest loads a reporter file through its default export.
export default CountReporter;
