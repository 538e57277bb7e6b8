/** The mirror and the journal that the settings name, to be copied. Apart from what is read, since copying loads far more. */
import { type Clock, systemClock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { journalToCopy, mirrorToCopy } from './copy-source.ts';

/** The mirror, to be copied; it need not be there yet. */
export function openMirrorToCopy(settings: Settings, clock: Clock = systemClock) {
  return mirrorToCopy(settings.store.mirror, clock);
}

/** The mirror and the journal, to be copied; neither need be there. A journal in a shared store is no file. */
export function openFilesToCopy(settings: Settings) {
  const journal = journalToCopy(settings.store.journal);
  const isFile = settings.store.shared === undefined;
  return { mirror: openMirrorToCopy(settings), journal: isFile ? journal : { ...journal, size: () => undefined } };
}
