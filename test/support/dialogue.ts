/** Answers to questions on a terminal: when the words of the next one appear, its keys are typed. */

/** The words that are waited for, and what is typed then. */
export type Exchange = readonly [words: string, keys: string];

export const enter = '\r';
export const down = '\u{1b}[B';

/** Takes what is printed, piece by piece, and types each answer once, in order. */
export function dialogue(exchanges: readonly Exchange[], type: (keys: string) => void): (printed: string) => void {
  const left = [...exchanges];
  let heard = '';
  return (printed) => {
    heard += printed;
    const [next] = left;
    if (next === undefined || !heard.includes(next[0])) return;
    left.shift();
    heard = '';
    // The question is listened to only after it is drawn.
    setImmediate(() => type(next[1]));
  };
}
