/** Breaks one file of a way at a time, for the tests that hold the ways in docs/architecture.md to the code. */
import { vi } from 'vitest';

type Whole = Record<string, unknown>;

/** Makes the exports that take the place of a file's own. */
type Break = (file: Whole) => object;

/** The files of a way, in its order. */
export type Breaks = Readonly<Record<string, Break>>;

export const brokenWords = 'broken on purpose';

export function broken(): never {
  throw new Error(brokenWords);
}

/** Breaks a function that the file exports. */
export const exported =
  (name: string): Break =>
  () => ({ [name]: broken });

/** Breaks a method of a class that the file exports. */
export const method =
  (name: string, of: string): Break =>
  (file) => {
    class Broken extends (file[name] as new (...given: never[]) => object) {}
    Object.defineProperty(Broken.prototype, of, { value: broken });
    return { [name]: Broken };
  };

/** Does the work while the file is broken, for what is imported from then on. @param path from the project's folder */
export async function withBroken<T>(path: string, change: Break, work: () => Promise<T>): Promise<T> {
  const file = `../../${path}`;
  vi.doMock(file, async (original) => {
    const whole = await original<Whole>();
    return { ...whole, ...change(whole) };
  });
  try {
    return await work();
  } finally {
    vi.doUnmock(file);
  }
}
