/** Related records, which a server may refuse or ignore. Section "Related records" of docs/architecture.md. */
import { OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import type { ResourceEnd } from './resource-run.ts';
import { isRefusal, type Source } from './source.ts';

/** Related records to be mirrored, by resource; none where a resource is left out. */
export type Includes = Readonly<Partial<Record<ResourceName, readonly string[]>>>;

interface IncludePorts {
  readonly source: Source;
  readonly store: Pick<MirrorStore, 'includedRelations' | 'includeRelations' | 'abandonRelations'>;
  readonly resource: ResourceName;
  readonly signal: AbortSignal;
}

/** What was not read before is tried in one request: a server that refuses it costs no more in each run. */
export async function readIncludes(ports: IncludePorts, wanted: readonly string[]) {
  const { source, store, resource } = ports;
  let include = wanted;
  let problem: string | null = null;

  function goOnWith(left: readonly string[], reason: string): void {
    const missing = wanted.filter((name) => !left.includes(name)).join(', ');
    problem = `${resource} are mirrored without their ${missing}: ${reason}; change the setting resources.${resource}.include`;
    include = left;
  }

  const included = store.includedRelations(resource);
  if (wanted.some((name) => !included.includes(name))) {
    const reason = await refusalOf(ports, wanted);
    if (reason !== undefined) {
      // Those were given before; whether they still are, the pages show.
      goOnWith(
        wanted.filter((name) => included.includes(name)),
        reason,
      );
    }
  }
  if (include.length + included.length > 0) store.includeRelations(resource, include);

  const page: Source['page'] = async (requested, request, capabilities, signal, wanted) => {
    if (include.length === 0) return source.page(requested, request, capabilities, signal, wanted);
    try {
      return await source.page(requested, { ...request, include }, capabilities, signal, wanted);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // Where it is not the related records that are refused, this is refused as well.
      const plain = await source.page(requested, request, capabilities, signal, wanted);
      if (include.length > 0) {
        goOnWith([], error.message);
        store.abandonRelations(resource);
      }
      return plain;
    }
  };

  return {
    /** Requests the related records with each page, for as long as the server gives them. */
    source: { ...source, page },
    endWith: (end: ResourceEnd): ResourceEnd =>
      problem === null || end.error !== null ? end : endWithProblem(end, problem),
  };
}

/** Why the server does not send the related records; undefined where it does. */
async function refusalOf({ source, resource, signal }: IncludePorts, wanted: readonly string[]) {
  try {
    return await source.includeProblem(resource, wanted, signal);
  } catch (error) {
    signal.throwIfAborted();
    // What else is wrong with the server is reported by the reading itself.
    if (error instanceof OperatorError) return error.message;
    throw error;
  }
}

function endWithProblem(end: ResourceEnd, problem: string): ResourceEnd {
  return {
    ...end,
    status: end.status === 'complete' ? 'partial' : end.status,
    problem: end.problem === null ? problem : `${end.problem}; ${problem}`,
  };
}
