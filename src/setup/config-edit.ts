/** Writes a server into the text of a config file, and leaves its comments and other settings as they are. */
import { isMap, isScalar, parseDocument } from 'yaml';

interface ServerToWrite {
  /** Undefined for the common settings. */
  readonly profile: string | undefined;
  readonly baseUrl: string;
  readonly keyFile: string | null;
  readonly insecureHttp: boolean;
  /** The related records to mirror; undefined to leave what is there. */
  readonly related?: Related | undefined;
}

/** The section `resources`. */
export type Related = Readonly<Record<string, { readonly include: readonly string[] }>>;

/** Returns the text with the server in it. The text must be a valid config file. */
export function withServer(text: string, { profile, baseUrl, keyFile, insecureHttp, related }: ServerToWrite): string {
  const document = parseDocument(text);
  const place = profile === undefined ? [] : ['profiles', profile];
  const section = [...place, 'api'];
  // A section with nothing or only comments after its colon is not a map yet.
  for (const [at] of section.entries()) {
    const path = section.slice(0, at + 1);
    const there: unknown = document.getIn(path, true);
    if (isMap(there)) continue;
    const own = document.createNode({});
    if (isScalar(there)) own.comment = there.comment ?? there.commentBefore ?? null;
    document.setIn(path, own);
  }
  document.setIn([...section, 'base_url'], baseUrl);
  if (keyFile === null) document.deleteIn([...section, 'key_file']);
  else document.setIn([...section, 'key_file'], keyFile);
  if (insecureHttp) document.setIn([...section, 'insecure_http'], true);
  if (related !== undefined) document.setIn([...place, 'resources'], document.createNode(related));
  return document.toString({ lineWidth: 0 });
}

/** Returns a new config file: the lines that a newcomer needs. An editor finds the settings by its first line. @param schema as a path */
export function newFile(schema: string, server: ServerToWrite): string {
  const head = `# yaml-language-server: $schema=${schema}
# A flag or an environment variable outranks this file. \`admin-mirror config\` shows what is in force and where it came from.
# docs/settings.md lists every setting, config/admin-mirror.example.yaml explains each.

`;
  const files = '\nstore:\n  mirror: data/mirror.db\n  journal: data/journal.db\n';
  return head + withServer('', server) + (server.profile === undefined ? files : '');
}
