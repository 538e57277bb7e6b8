/** Where the rooms write what a person may want to read later; the command line brings pino. */

type Write = (fields: Readonly<Record<string, unknown>>, message: string) => void;

/** The part of a pino logger that we use. Fields never hold the key, a password or a whole answer. */
export interface Log {
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
}

/** Writes nothing: for tests, and for whoever uses a part as a library. */
export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
