/** The table of texts that the cells of a workbook share, and how texts are written in it. */
import { Budget, limits, refusal } from '../limits.ts';
import type { Archive } from './archive.ts';
import { XmlFault } from './xml.ts';

/** Characters that XML cannot hold are written `_x000D_`; a text that looks like one has its `_` written so. */
export function unescaped(text: string): string {
  if (!text.includes('_x')) return text;
  return text.replace(/_x([0-9a-f]{4})_/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

/** @throws XmlFault where the text is longer than a cell can be */
export function extended(text: string, more: string): string {
  if (text.length + more.length > limits.cellCharacters) {
    throw new XmlFault(`has a cell with more than ${limits.cellCharacters} characters`);
  }
  return text + more;
}

/** Gathers the text of an item: its runs one after the other, without the readings that stand above Asian text. */
export class TextRuns {
  #text = '';
  #reading = false;
  #taking = false;

  begin(): void {
    this.#text = '';
  }

  open(tag: string): void {
    if (tag === 'rPh') this.#reading = true;
    if (tag === 't') this.#taking = !this.#reading;
  }

  close(tag: string): void {
    if (tag === 'rPh') this.#reading = false;
    if (tag === 't') this.#taking = false;
  }

  add(text: string): void {
    if (this.#taking) this.#text = extended(this.#text, text);
  }

  end(): string {
    return unescaped(this.#text);
  }
}

/** @throws UsageError where it is more text than a sheet can need */
export async function readSharedTexts(archive: Archive, part: string): Promise<readonly string[]> {
  const texts: string[] = [];
  const runs = new TextRuns();
  const budget = new Budget(archive.file);
  await archive.scan(
    part,
    {
      open: (tag) => {
        if (tag === 'si') runs.begin();
        else runs.open(tag);
      },
      close: (tag) => {
        if (tag === 'si') {
          const text = runs.end();
          budget.spendText(text, null);
          if (texts.length >= limits.sharedTexts) {
            throw refusal(archive.file, `it has more than ${limits.sharedTexts} texts`, 'Split it into smaller files.');
          }
          texts.push(text);
        } else runs.close(tag);
      },
      text: (text) => runs.add(text),
    },
    'large',
  );
  return texts;
}
