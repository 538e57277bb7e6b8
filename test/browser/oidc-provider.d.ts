/** Types for the part of the package that the tests use; it has none of its own. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  interface Grant {
    addOIDCScope(scope: string): void;
    save(): Promise<string>;
  }

  interface Context {
    readonly oidc: {
      readonly client?: { readonly clientId: string };
      readonly session?: { readonly accountId?: string };
      readonly provider: {
        readonly Grant: new (of: { readonly clientId: string; readonly accountId: string }) => Grant;
      };
    };
  }

  export class Provider {
    constructor(
      issuer: string,
      configuration: {
        readonly findAccount: (context: Context, id: string) => { accountId: string; claims(use: string): object };
        readonly loadExistingGrant: (context: Context) => Promise<Grant>;
        readonly interactions: { url(context: Context, interaction: { readonly uid: string }): string };
        readonly [other: string]: unknown;
      },
    );
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
    interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>;
  }
}
