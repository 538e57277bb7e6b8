/** Answers to questions on a terminal: when the expected words appear, the keys are typed. */

/** The words to wait for, and the keys typed then. */
export type Exchange = readonly [words: string, keys: string];

export const enter = '\r';

/** Reads the output piece by piece, and types each answer once, in order. */
export function dialogue(exchanges: readonly Exchange[], type: (keys: string) => void): (printed: string) => void {
  const left = [...exchanges];
  let heard = '';
  return (printed) => {
    heard += printed;
    const [next] = left;
    if (next === undefined || !heard.includes(next[0])) return;
    left.shift();
    heard = '';
    // The prompt reads keys only after it is drawn.
    setImmediate(() => type(next[1]));
  };
}
