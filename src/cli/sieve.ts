/** The one way by which commands write to a terminal: nothing passes that could command it. Files and programs get it as it is. */
import { StringDecoder } from 'node:string_decoder';
import { forTerminal } from '../model/text.ts';

const behind = new WeakMap<NodeJS.WriteStream, NodeJS.WriteStream>();

/** The same stream; where it is a terminal, all that is written to it is made harmless first. */
export function sieved(stream: NodeJS.WriteStream): NodeJS.WriteStream {
  if (!stream.isTTY || behind.has(stream)) return stream;
  // A character may be cut in two by the end of a chunk.
  const decoder = new StringDecoder('utf8');
  const write = (chunk: Uint8Array | string, ...rest: unknown[]): boolean => {
    const text = typeof chunk === 'string' ? chunk : decoder.write(Buffer.from(chunk));
    const callback = rest.find((each) => typeof each === 'function') as (() => void) | undefined;
    return stream.write(forTerminal(text), callback);
  };
  const sieve = new Proxy(stream, {
    get: (target, name) => {
      if (name === 'write') return write;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  behind.set(sieve, stream);
  return sieve;
}

/** The terminal itself, for what moves its cursor. Text that is not ours must be made `harmless` before. */
export function screenOf(stream: NodeJS.WriteStream): NodeJS.WriteStream {
  return behind.get(stream) ?? stream;
}
