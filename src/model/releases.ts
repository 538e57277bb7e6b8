/** Whatever was opened, to be closed in any case. */
export class Releases {
  readonly #stack: (() => void | Promise<void>)[] = [];

  /** Returns the part, and closes it with the others. */
  add<T extends { close(): void | Promise<void> }>(part: T): T {
    this.#stack.push(() => part.close());
    return part;
  }

  /** Closes everything, the last opened first. Tries all, then throws the first failure. */
  async close(): Promise<void> {
    const failures: unknown[] = [];
    for (let release = this.#stack.pop(); release !== undefined; release = this.#stack.pop()) {
      try {
        // One after the other: what was opened later may still use what was opened before.
        await release();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}

/** Runs the work with a stack of its own, and closes what it opened however it ends. */
export async function withReleases<T>(work: (releases: Releases) => T | Promise<T>): Promise<T> {
  const releases = new Releases();
  let result: T;
  try {
    result = await work(releases);
  } catch (error) {
    // Throw the work's own failure, not that of closing.
    await releases.close().catch(() => {});
    throw error;
  }
  await releases.close();
  return result;
}
