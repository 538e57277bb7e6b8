/** The tests as `npm test` runs them, but only the files that MUTATION_TESTS names, in that order: the quick ones first. */
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import base from '../vitest.config.ts';

const include = (process.env['MUTATION_TESTS'] ?? '').split(' ');

class AsNamed extends BaseSequencer {
  override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => include.findIndex((name) => moduleId.endsWith(name));
    return Promise.resolve(files.toSorted((a, b) => place(a) - place(b)));
  }
}

// None of these tests starts the command as a process.
const { globalSetup: _globalSetup, reporters: _reporters, ...test } = base.test ?? {};

export default defineConfig({
  ...base,
  test: { ...test, include, sequence: { sequencer: AsNamed } },
});
