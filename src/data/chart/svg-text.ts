/** Text and tags of SVG. */
import { width } from '../text-width.ts';

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

/** Any text, so that XML takes it for text; what XML cannot hold at all becomes a sign that something was there. */
export function escaped(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\uFFFE\uFFFF]/gu, '\uFFFD')
    .replaceAll(/[&<>"']/g, (sign) => entities[sign] ?? sign);
}

type Attributes = Readonly<Record<string, string | number>>;

/** `<name …>content</name>`; the content is SVG already. */
export function tag(name: string, attributes: Attributes, content = ''): string {
  const list = Object.entries(attributes).map(([key, value]) => ` ${key}="${escaped(textOf(value))}"`);
  return content === '' ? `<${name}${list.join('')}/>` : `<${name}${list.join('')}>${content}</${name}>`;
}

/** A hundredth of a pixel is more than anybody sees. */
function textOf(value: string | number): string {
  return typeof value === 'string' ? value : String(Math.round(value * 100) / 100);
}

export function textTag(text: string, attributes: Attributes): string {
  return tag('text', attributes, escaped(text));
}

/** About how many pixels the text takes; rather too many, as nobody knows which font there will be. */
export function textWidth(text: string, size: number): number {
  return width(text) * size * 0.6;
}
