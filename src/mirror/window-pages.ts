/** The pages of windows as a walk reads them: asked for, kept with the window's progress, and remembered. */
import { secondMs } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import { entriesOn, noRows, type MirrorPage } from './page.ts';
import type { PageMemory } from './page-memory.ts';
import { requestedRange } from './range.ts';
import type { PageRequest } from './source.ts';
import type { WalkPorts } from './walk.ts';
import type { VisitPorts } from './window-visitor.ts';

/** Pages that came again are counted together: a commit for each would cost more than reading it did. */
const samePagesAtOnce = 8;

export class WindowPages {
  readonly #ports: VisitPorts;
  readonly #signal: AbortSignal;
  #reportedStale = false;
  /** Records beyond which pages were seen to fail. */
  #readable = Infinity;

  constructor(ports: VisitPorts, signal: AbortSignal) {
    this.#ports = ports;
    this.#signal = signal;
  }

  /** What a walk of the window works with, in pages of that size. */
  walkPorts(window: Window, paginate: number, memory: PageMemory): WalkPorts {
    const { source, store, run, resource, capabilities, clock, progress, surplus, allowance } = this.#ports;
    const range = requestedRange(window, capabilities);
    const request = (page: number): PageRequest => ({ page, paginate, range });
    return {
      clock,
      pageSize: paginate,
      expected: window.serverTotal,
      surplus: surplus.of(window),
      past: surplus.pastEndOf(window),
      isOrdered: capabilities.sorts === 'kept',
      show: (records) => allowance.show(resource, window, records),
      read: async (number) => {
        const requested = request(number);
        const wanted = { known: memory.knownAt(requested), rowsOf: [window], keptOut: store.keptOut(resource) };
        const read = await source.page(resource, requested, capabilities, this.#signal, wanted);
        this.#reportStale(read);
        this.#allowSmaller();
        return memory.recognise(requested, read);
      },
      record: (page, seen) => {
        const { recalled } = page;
        if (recalled !== undefined) {
          if (memory.noteSame(request(page.page), page, recalled) >= samePagesAtOnce) this.countSame(memory);
          progress({ kind: 'page', resource, records: recalled.ids.length });
          return { unusable: 0, twins: [] };
        }
        const [rows = noRows()] = page.rows;
        memory.note(request(page.page), page, rows.ids.length + rows.unusable + rows.keptOut.length);
        const received = entriesOn(page).length;
        const recorded = store.recordPage(run, window, rows, received, seen);
        progress({ kind: 'page', resource, records: received });
        return recorded;
      },
    };
  }

  /** Puts on record what came again just as it was. */
  countSame(memory: PageMemory): void {
    const { store, run, resource } = this.#ports;
    const same = memory.takeSame();
    if (same.pages > 0) store.recordSamePages(run, resource, same);
  }

  /** Puts on record, once, that a cache in front of the server answers in its place. */
  #reportStale(page: MirrorPage): void {
    const ageMs = Math.max(...(page.parts ?? [page]).map((part) => part.ageMs ?? 0));
    if (ageMs === 0 || this.#reportedStale) return;
    this.#reportedStale = true;
    const { store, run, resource, source } = this.#ports;
    const detail = `a cache in front of the server gave a page that was ${ageMs / secondMs} s old, though asked not to`;
    store.recordEvent(run, { resource, kind: 'stale_page', subject: source.contact.address, detail });
  }

  /** More requests, where the server was seen to make smaller pages only. */
  #allowSmaller(): void {
    const { allowance, resource, source } = this.#ports;
    const size = source.readablePage(resource);
    if (size < this.#readable) allowance.allowSmaller(resource, size);
    this.#readable = size;
  }
}
