/** Writes a server into the text of a config file, and leaves its comments and other lines as they are. */
import { isMap, isScalar, parseDocument, stringify } from 'yaml';

interface ServerToWrite {
  /** Undefined for the common settings. */
  readonly profile: string | undefined;
  readonly baseUrl: string;
  readonly keyFile: string | null;
  readonly insecureHttp: boolean;
}

type Path = readonly [string, ...string[]];

/** Returns the text with the server in it. The text must be a valid config file. */
export function withServer(text: string, { profile, baseUrl, keyFile, insecureHttp }: ServerToWrite): string {
  const values: Record<string, string | boolean> = {
    base_url: baseUrl,
    ...(keyFile !== null && { key_file: keyFile }),
    ...(insecureHttp && { insecure_http: true }),
  };
  if (profile !== undefined && !parseDocument(text).has('profiles')) {
    const lines = Object.entries(values).map(([name, value]) => `      ${name}: ${plain(value)}\n`);
    return `${text.trimEnd()}\n\nprofiles:\n  ${profile}:\n    api:\n${lines.join('')}`.trimStart();
  }
  const section: Path = profile === undefined ? ['api'] : ['profiles', profile, 'api'];
  let changed = text;
  for (const [name, value] of Object.entries(values)) changed = withValue(changed, [...section, name], value);
  return keyFile === null ? without(changed, [...section, 'key_file']) : changed;
}

function withValue(text: string, path: Path, value: string | boolean): string {
  const document = parseDocument(text);
  const there: unknown = document.getIn(path, true);
  if (isScalar(there) && there.range) {
    const [start, end] = there.range;
    return `${text.slice(0, start)}${plain(value)}${text.slice(end)}`;
  }
  const [section, name, ...deeper] = path;
  // The shipped file shows unset settings as comments in their places. Replace the comment.
  const shown = new RegExp(String.raw`^(${section}:\n(?:(?:[ #].*)?\n)*?  )# (${name}: ).*$`, 'm');
  if (deeper.length === 0 && shown.test(text)) {
    return text.replace(shown, (_, before: string, own: string) => `${before}${own}${plain(value)}`);
  }
  // `api:` with nothing or only comments after it is not a map yet.
  for (let depth = 1; depth < path.length; depth += 1) {
    const outer = path.slice(0, depth);
    const there: unknown = document.getIn(outer, true);
    if (isMap(there)) continue;
    const section = document.createNode({});
    if (isScalar(there)) section.comment = there.comment ?? there.commentBefore ?? null;
    document.setIn(outer, section);
  }
  document.setIn(path, value);
  return document.toString({ lineWidth: 0 });
}

function without(text: string, path: Path): string {
  const document = parseDocument(text);
  if (!document.hasIn(path)) return text;
  document.deleteIn(path);
  return document.toString({ lineWidth: 0 });
}

function plain(value: string | boolean): string {
  return stringify(value, { lineWidth: 0 }).trimEnd();
}
