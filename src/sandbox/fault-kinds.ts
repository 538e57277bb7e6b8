/** Every way in which the sandbox can fail to answer as it should, with what a client then sees. */

/** Faults of answers to GET. */
export const readFaults = {
  error_500: 'answers 500 with a JSON message and a debug trace',
  error_502: 'answers 502 with a JSON message',
  error_503: 'answers 503 with Retry-After',
  too_many: 'answers 429 with Retry-After although no limit was reached',
  html: 'answers with an HTML page of a proxy in front (see html_status, html_content_type)',
  reset_before: 'resets the connection before the first byte',
  reset_middle: 'resets the connection in the middle of the body',
  truncated: 'cuts the JSON short in a well-framed answer',
  hang: 'never answers',
  empty_body: 'answers 200 without a body',
  empty_list: 'answers 200 with an empty list and a total of 0 (lists only)',
  redirect: 'answers 302 to another host (see redirect_to)',
  oversized: 'answers with a body of oversized_bytes',
} as const;

/** Faults of answers to POST, PUT and DELETE. Those that begin with `commit_` happen after the write was made. */
export const writeFaults = {
  error_500: 'answers 500, nothing was written',
  error_502: 'answers 502, nothing was written',
  error_503: 'answers 503 with Retry-After, nothing was written',
  too_many: 'answers 429 with Retry-After, nothing was written',
  html: 'answers with an HTML page of a proxy in front, nothing was written',
  reset_before: 'resets the connection, nothing was written',
  hang: 'never answers, nothing was written',
  redirect: 'answers 302 to another host, nothing was written',
  lost: 'answers that it was done, nothing was written',
  commit_reset: 'writes, then resets the connection before the first byte',
  commit_500: 'writes, then answers 500',
  commit_html: 'writes, then answers with an HTML page of a proxy in front',
  commit_truncated: 'writes, then cuts the JSON of the answer short',
  commit_empty: 'writes, then answers 200 without a body',
  commit_hang: 'writes, then never answers',
  commit_refused: 'writes, then answers that it failed ({"success": false})',
  commit_429: 'writes, then answers 429 with Retry-After',
  commit_503: 'writes, then answers 503 with Retry-After',
  commit_late: 'resets the connection, and writes late_commit_ms afterwards',
  commit_twice: 'writes twice, as a proxy that replays the request would',
} as const;

export type ReadFault = keyof typeof readFaults;
export type WriteFault = keyof typeof writeFaults;
export type Fault = ReadFault | WriteFault;

export const readFaultNames = Object.keys(readFaults) as ReadFault[];
export const writeFaultNames = Object.keys(writeFaults) as WriteFault[];

export function isFault(name: string): name is Fault {
  return name in readFaults || name in writeFaults;
}
