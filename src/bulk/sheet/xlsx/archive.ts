/** The parts of an .xlsx: what they are called, how they refer to each other, and their XML. */
import type { Buffer } from 'node:buffer';
import { posix } from 'node:path';
import { limits, megabytes } from '../limits.ts';
import { refusal } from '../refusal.ts';
import { XmlFault, type XmlHandlers, XmlScanner } from './xml.ts';
import { readDirectory, unpack, type ZipEntry } from './zip.ts';

export interface Relation {
  /** The end of its type, such as `worksheet`: what is before it differs between two editions of the standard. */
  readonly kind: string;
  /** The name of the part it leads to. */
  readonly target: string;
}

export class Archive {
  readonly file: string;
  readonly #bytes: Buffer;
  readonly #entries: ReadonlyMap<string, ZipEntry>;

  /** @throws UsageError where it is no archive that can be read */
  constructor(file: string, bytes: Buffer) {
    this.file = file;
    this.#bytes = bytes;
    this.#entries = readDirectory(file, bytes);
  }

  /**
   * Scans a part, which may be large if it is one of rows or texts.
   * @throws UsageError where it is missing, damaged or not plain XML
   */
  async scan(part: string, handlers: XmlHandlers, size: 'small' | 'large' = 'small'): Promise<void> {
    const entry = this.#entries.get(part);
    if (entry === undefined) throw refusal(this.file, `its part ${part} is missing`);
    if (size === 'small' && entry.unpacked > limits.smallPartBytes) {
      throw refusal(this.file, `its part ${part} has ${megabytes(entry.unpacked)}, more than it can need`);
    }
    const scanner = new XmlScanner(handlers);
    try {
      for await (const piece of unpack(this.file, this.#bytes, entry)) scanner.write(piece);
      scanner.end();
    } catch (error) {
      if (error instanceof XmlFault) throw refusal(this.file, `its part ${part} ${error.message}`, undefined, error);
      throw error;
    }
  }

  /** What a part refers to, by the id that it uses for it. */
  async relationsOf(part: string): Promise<ReadonlyMap<string, Relation>> {
    const { dir, base } = posix.parse(part);
    const relations = new Map<string, Relation>();
    await this.scan(posix.join(dir, '_rels', `${base}.rels`), {
      open: (name, attributes) => {
        if (name !== 'Relationship') return;
        const { Id: id, Type: type, Target: target, TargetMode: mode } = attributes();
        if (id === undefined || type === undefined || target === undefined || mode === 'External') return;
        // A target is meant from the part's own folder, or from the top where it begins with a slash.
        const path = posix.join('/', target.startsWith('/') ? '' : dir, target).slice(1);
        relations.set(id, { kind: type.slice(type.lastIndexOf('/') + 1), target: path });
      },
    });
    return relations;
  }
}
