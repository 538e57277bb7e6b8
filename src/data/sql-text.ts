/** Checks the operator's SQL before SQLite sees it: some statements take effect while they are prepared, even on a read-only connection. */
import { UsageError } from '../model/errors.ts';

interface Token {
  readonly kind: 'word' | 'quoted' | 'parameter' | 'symbol';
  readonly text: string;
  readonly at: number;
}

// Only these characters are blanks to SQLite; any other space is part of a name. Blanks and comments are dropped.
const patterns: readonly (readonly [Token['kind'] | 'nothing', RegExp])[] = [
  ['nothing', /[ \t\n\f\r]+|--[^\n]*|\/\*[^]*?\*\//y],
  ['quoted', /'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]/y],
  ['parameter', /\?\d*|[:@$#][\p{L}\w$]+/uy],
  ['word', /[\p{L}\w$]+/uy],
  ['symbol', /[^]/uy],
];

const openers = new Set(["'", '"', '`', '[']);

function tokensOf(sql: string, what: string): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < sql.length;) {
    const [kind, text] = tokenAt(sql, at);
    if (kind === 'symbol' && (openers.has(text) || sql.startsWith('/*', at))) {
      throw new UsageError(`${what} has ${text === '/' ? 'a comment' : `a ${text}`} that is never closed`);
    }
    if (kind !== 'nothing') tokens.push({ kind, text, at });
    at += text.length;
  }
  return tokens;
}

function tokenAt(sql: string, at: number): [Token['kind'] | 'nothing', string] {
  for (const [kind, pattern] of patterns) {
    pattern.lastIndex = at;
    const text = pattern.exec(sql)?.[0];
    if (text !== undefined) return [kind, text];
  }
  throw new Error('unreachable: the last pattern matches anything');
}

const reading = new Set(['SELECT', 'WITH', 'VALUES']);
const queryAdvice =
  'SELECT, WITH … SELECT, VALUES and EXPLAIN are run; nothing that changes, attaches or sets anything.';

/**
 * Throws a UsageError unless the text is one statement that reads. SQLite must still confirm that.
 * @param given names of bound parameters
 */
export function checkStatement(sql: string, given: readonly string[]): void {
  const tokens = tokensOf(sql, 'the SQL');
  const end = tokens.findIndex(({ text }) => text === ';');
  if (end !== -1 && tokens.slice(end).some(({ text }) => text !== ';')) {
    throw new UsageError('the SQL holds more than one statement', { advice: 'Run them one by one.' });
  }
  const words = tokens.slice(0, 4).map(({ text }) => text.toUpperCase());
  const skipped = words[0] !== 'EXPLAIN' ? 0 : words[1] === 'QUERY' && words[2] === 'PLAN' ? 3 : 1;
  const first = words[skipped];
  if (first === undefined || first === ';') throw new UsageError('there is no SQL to run', { advice: queryAdvice });
  if (!reading.has(first)) {
    const hint = first === 'PRAGMA' ? ' `admin-mirror schema` shows tables and columns.' : '';
    throw new UsageError(`only statements that read are run here; this one begins with ${tokens[skipped]?.text}`, {
      advice: queryAdvice + hint,
    });
  }
  checkParameters(tokens, 'the SQL', given);
}

/** Returns the parameters of a statement as they are written (`:from`), each once. */
export function parametersIn(sql: string): string[] {
  const tokens = tokensOf(sql, 'the SQL').filter(({ kind }) => kind === 'parameter');
  return [...new Set(tokens.map(({ text }) => text))];
}

/** Returns the statement without its closing semicolon, so that it can stand inside another. */
export function withoutEnd(sql: string): string {
  const [end] = tokensOf(sql, 'the SQL').filter(({ text }) => text === ';');
  return end === undefined ? sql : sql.slice(0, end.at);
}

/** Words that begin another clause. SQLite takes none of them as a bare name. */
const clauses = new Set(['LIMIT', 'UNION', 'INTERSECT', 'EXCEPT', 'GROUP', 'HAVING', 'ORDER', 'WHERE']);

/** Throws a UsageError unless the text is complete in itself, so that nothing in it can end the clause that it is put into. */
export function checkFragment(fragment: string, flag: string): void {
  const tokens = tokensOf(fragment, flag);
  if (tokens.length === 0) throw new UsageError(`${flag} is empty`);
  let depth = 0;
  for (const { kind, text } of tokens) {
    if (depth === 0 && kind === 'word' && clauses.has(text.toUpperCase())) {
      throw new UsageError(`${flag} must be one expression, without ${text.toUpperCase()}`);
    }
    if (text === ';') throw new UsageError(`${flag} must be one expression, without ";"`);
    if (text === '(') depth += 1;
    if (text === ')') depth -= 1;
    if (depth < 0) throw new UsageError(`${flag} closes a parenthesis that it does not open`);
  }
  if (depth > 0) throw new UsageError(`${flag} opens a parenthesis that it does not close`);
  checkParameters(tokens, flag);
}

function checkParameters(tokens: readonly Token[], what: string, given: readonly string[] = []): void {
  const known = new Set(given.map((name) => `:${name}`));
  const parameter = tokens.find(({ kind, text }) => kind === 'parameter' && !known.has(text));
  if (parameter === undefined) return;
  throw new UsageError(`${what} has the parameter ${parameter.text}, and nothing gives it a value`, {
    advice: 'Write the value itself; text goes in single quotes.',
  });
}
