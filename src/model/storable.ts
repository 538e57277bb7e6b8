/** The text as every database gives it back: PostgreSQL has no character NUL, and neither has half a surrogate pair. */
export function storable(text: string): string {
  return text.isWellFormed() && !text.includes('\0') ? text : text.toWellFormed().replaceAll('\0', '\u{FFFD}');
}
