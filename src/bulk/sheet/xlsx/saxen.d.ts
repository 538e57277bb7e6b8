/** The used part of the parser, which has no types of its own. */
declare module 'saxen' {
  export class Parser {
    on(
      event: 'openTag',
      handler: (
        name: string,
        attributes: () => Record<string, string> | false,
        decode: (text: string) => string,
      ) => void,
    ): this;
    on(
      event: 'closeTag' | 'text' | 'cdata' | 'comment' | 'attention' | 'question',
      handler: (text: string, decode: (text: string) => string) => void,
    ): this;
    on(event: 'error' | 'warn', handler: (error: Error) => void): this;
    write(xml: string): this;
    end(): Error | null;
  }
}
