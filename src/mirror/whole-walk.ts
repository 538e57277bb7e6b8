/** Walks of windows that give trouble: answers too large to be taken, more records than planned, an order that changes. */
import { PageTooLarge } from '../api/errors.ts';
import { collectWindow, walkWindow, type Verdict, type WalkPorts } from './walk.ts';

/** What to walk with, for pages of that size. */
export type PortsOf = (pageSize: number) => WalkPorts;

/** Passes over a window whose order changes with every request, before it is left as it is. */
const collectPasses = 40;

/** Walks the window, in smaller pages where the answers are too large to be taken. */
export async function walkInReadablePages(portsOf: PortsOf, pageSize: number, most: number): Promise<Verdict> {
  for (let size = pageSize; ; size = Math.ceil(size / 2)) {
    try {
      return await walkWindow(portsOf(size), most);
    } catch (error) {
      if (!(error instanceof PageTooLarge) || size === 1) throw error;
    }
  }
}

/** What is left to try with a window that cannot be cut: read it though it is large, unite what many passes show. */
export async function insistOnWindow(portsOf: PortsOf, pageSize: number, verdict: Verdict): Promise<Verdict> {
  const walked = verdict.kind === 'large' ? await walkInReadablePages(portsOf, pageSize, Infinity) : verdict;
  if (walked.kind !== 'unstable' || !walked.constant) return walked;
  return collectWindow(portsOf(pageSize), collectPasses);
}
