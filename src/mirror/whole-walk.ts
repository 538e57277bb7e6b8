/** Walks of windows that give trouble: more records than planned, an order that changes. */
import { walkWindow, type PortsOf, type Verdict } from './walk.ts';

/** Passes over a window that cannot be cut and whose order changes with every request, before it is left as it is. */
const collectPasses = 40;

/** What is left to try with a window that cannot be cut: read it though it is large, unite what many passes show. */
export async function insistOnWindow(portsOf: PortsOf, pageSize: number, verdict: Verdict): Promise<Verdict> {
  const walked = verdict.kind === 'large' ? await walkWindow(portsOf, pageSize, Infinity) : verdict;
  if (walked.kind !== 'unstable' || walked.shown === undefined) return walked;
  return walkWindow(portsOf, pageSize, Infinity, collectPasses, walked);
}
