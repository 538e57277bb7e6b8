/** Responses that refuse, in the shapes of the API's family: one class, and a maker for each kind. */
import type { JsonRecord } from './envelope.ts';

/** Thrown by whatever handles a request; the server turns it into the response. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly body: JsonRecord;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: JsonRecord, headers: Readonly<Record<string, string>> = {}) {
    super(`${status} ${JSON.stringify(body)}`);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

export const unauthenticated = (): Refusal => new Refusal(401, { message: 'Unauthenticated.' });

export const forbidden = (): Refusal => new Refusal(403, { message: 'This action is unauthorized.' });

export const notFound = (model: string, id: string | number): Refusal =>
  new Refusal(404, { message: `No query results for model [App\\Models\\${model}] ${id}` });

export const noSuchRoute = (path: string): Refusal =>
  new Refusal(404, { message: `The route ${path.replace(/^\//, '')} could not be found.` });

export const badRequest = (message: string): Refusal => new Refusal(400, { message });

/** A parameter breaks a rule: each field with what is wrong with it. */
export function invalid(errors: Readonly<Record<string, readonly string[]>>): Refusal {
  const all = Object.values(errors).flat();
  const more = all.length - 1;
  const rest = more > 0 ? ` (and ${more} more error${more === 1 ? '' : 's'})` : '';
  return new Refusal(422, { message: `${all[0] ?? 'The given data was invalid.'}${rest}`, errors });
}

/** A rule of the application forbids it. */
export const refused = (status: number, errors: readonly string[]): Refusal =>
  new Refusal(status, { success: false, errors });

/** An error of the server itself, with the kind of trace that a debug mode shows. */
export const serverError = (message = 'Server Error'): Refusal =>
  new Refusal(500, {
    message,
    exception: 'Illuminate\\Database\\QueryException',
    file: '/var/www/app/Http/Controllers/Api/V1/Controller.php',
    line: 117,
    trace: [{ file: '/var/www/vendor/framework/Routing/Router.php', line: 690, function: 'callAction' }],
  });
