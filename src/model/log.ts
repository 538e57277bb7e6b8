/** The log that all rooms write to. The command line brings pino. */

type Write = (fields: Readonly<Record<string, unknown>>, message: string) => void;

/** The part of a pino logger that we use. Fields never hold the key, a password or a whole response. */
export interface Log {
  readonly debug: Write;
  readonly info: Write;
  readonly warn: Write;
  readonly error: Write;
}

/** Returns the log with more fields in every line. `fields` is called for each line. */
export function logWith(log: Log, fields: () => Readonly<Record<string, unknown>>): Log {
  return {
    debug: (own, message) => log.debug({ ...fields(), ...own }, message),
    info: (own, message) => log.info({ ...fields(), ...own }, message),
    warn: (own, message) => log.warn({ ...fields(), ...own }, message),
    error: (own, message) => log.error({ ...fields(), ...own }, message),
  };
}

/** Writes nothing: for tests, and for those who use a part as a library. */
export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
