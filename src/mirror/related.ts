/** Reads related records with each page, as far as the server gives them. Section "Related records" of docs/architecture.md. */
import type { ResourceName } from '../model/resources.ts';
import type { Source } from './source.ts';
import type { ResourceEnd, ResourcePorts } from './sync-resource.ts';

/** The related records to mirror, by resource. */
export type Includes = Readonly<Partial<Record<ResourceName, readonly string[]>>>;

type IncludePorts = Pick<ResourcePorts, 'source' | 'store' | 'resource' | 'signal'>;

/**
 * Returns a source that requests the related records with each page, after one request that shows whether the server gives them.
 * If it refuses them, the resource is read without them.
 */
export async function readIncludes(ports: IncludePorts, relations: readonly string[]) {
  const { source, store, resource, signal } = ports;
  const reason = relations.length === 0 ? undefined : await source.includeProblem(resource, relations, signal);
  if (reason !== undefined) store.abandonRelations(resource);
  else if (relations.length + store.includedRelations(resource).length > 0) store.includeRelations(resource, relations);
  const include = reason === undefined ? relations : [];
  const page: Source['page'] = (requested, request, ...others) =>
    source.page(requested, { ...request, include }, ...others);
  const advice = `change the setting resources.${resource}.include`;
  const problem = `${resource} are mirrored without their ${relations.join(', ')}: ${reason}; ${advice}`;
  return {
    source: { ...source, page },
    /** Adds to the resource's end that related records are missing. */
    endWith: (end: ResourceEnd): ResourceEnd =>
      reason === undefined || end.error !== null ? end : endWithProblem(end, problem),
  };
}

function endWithProblem(end: ResourceEnd, problem: string): ResourceEnd {
  return {
    ...end,
    status: end.status === 'complete' ? 'partial' : end.status,
    problem: end.problem === null ? problem : `${end.problem}; ${problem}`,
  };
}
