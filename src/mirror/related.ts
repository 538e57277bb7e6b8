/** Reads related records with each page, as far as the server gives them. Section "Related records" of docs/architecture.md. */
import { OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { isRefusal, type Source } from './source.ts';
import type { ResourceEnd, ResourcePorts } from './sync-resource.ts';

/** The related records to mirror, by resource. */
export type Includes = Readonly<Partial<Record<ResourceName, readonly string[]>>>;

type IncludePorts = Pick<ResourcePorts, 'source' | 'store' | 'resource' | 'signal'>;

/**
 * Returns a source that requests the related records with each page. Relations that were not read before are tried first, in one
 * request: so a server that refuses them costs no more than that in each run.
 */
export async function readIncludes(ports: IncludePorts, relations: readonly string[]) {
  const { source, store, resource } = ports;
  let include = relations;
  let problem: string | null = null;

  function keepOnly(kept: readonly string[], reason: string): void {
    const missing = relations.filter((name) => !kept.includes(name)).join(', ');
    problem = `${resource} are mirrored without their ${missing}: ${reason}; change the setting resources.${resource}.include`;
    include = kept;
  }

  const included = store.includedRelations(resource);
  if (relations.some((name) => !included.includes(name))) {
    const reason = await refusalOf(ports, relations);
    const readBefore = relations.filter((name) => included.includes(name));
    // The server gave these before. The pages will show whether it still does.
    if (reason !== undefined) keepOnly(readBefore, reason);
  }
  if (include.length + included.length > 0) store.includeRelations(resource, include);

  const page: Source['page'] = async (requested, request, profile, signal, wanted) => {
    if (include.length === 0) return source.page(requested, request, profile, signal, wanted);
    try {
      return await source.page(requested, { ...request, include }, profile, signal, wanted);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // If the related records are not the reason, this request is refused, too.
      const plain = await source.page(requested, request, profile, signal, wanted);
      if (include.length > 0) {
        keepOnly([], error.message);
        store.abandonRelations(resource);
      }
      return plain;
    }
  };

  return {
    source: { ...source, page },
    /** Adds to the resource's end that related records are missing. */
    endWith: (end: ResourceEnd): ResourceEnd =>
      problem === null || end.error !== null ? end : endWithProblem(end, problem),
  };
}

/** Returns why the server does not send the related records; undefined if it does. */
async function refusalOf({ source, resource, signal }: IncludePorts, relations: readonly string[]) {
  try {
    return await source.includeProblem(resource, relations, signal);
  } catch (error) {
    signal.throwIfAborted();
    // Reading the pages will report what else is wrong with the server.
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
