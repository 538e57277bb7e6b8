import { expect, test } from 'vitest';
import { escapedHtml as html, Html, type Part } from '../../src/model/markup.ts';

test('everything that is interpolated is escaped, in text and in attributes', () => {
  const text = `<script>"it's" & more</script>`;
  const escaped = '&lt;script&gt;&quot;it&#39;s&quot; &amp; more&lt;/script&gt;';
  expect(String(html`<p title="${text}">${text}</p>`)).toBe(`<p title="${escaped}">${escaped}</p>`);
});

test('markup in markup is escaped once, at any depth, and in lists', () => {
  const items = ['<a>', 'b&c'].map((each) => html`<li>${each}</li>`);
  // Not in a list of the template itself, in which the formatter would put spaces.
  const bold = html`<li>${html`<b>${'<'}</b>`}</li>`;
  const list = html`<p>${items}${[['"'], bold]}</p>`;
  expect(String(list)).toBe('<p><li>&lt;a&gt;</li><li>b&amp;c</li>&quot;<li><b>&lt;</b></li></p>');
});

test('nothing is printed for what is missing, and numbers as they are', () => {
  expect(String(html`${null}|${undefined}|${[]}|${0}|${-1.5}`)).toBe('|||0|-1.5');
});

test('what only looks like markup is text', () => {
  const forged = JSON.parse('["<b>", {"text": "<i>"}]') as Part;
  expect(() => String(html`${forged}`)).toThrow(TypeError);
  expect(String(html`${'<b>x</b>'}`)).toBe('&lt;b&gt;x&lt;/b&gt;');
  expect(String(html`${new Html('<b>x</b>')}`)).toBe('<b>x</b>');
});
