/** The memory of this process. A module of its own, because loading node:v8 takes two milliseconds of every start. */
import { setFlagsFromString } from 'node:v8';

/**
 * By default, the heap may grow to many times what is alive. This keeps the space for young objects at its size after loading,
 * and collects old objects each time the heap has grown by this percentage. It takes up to 5% more processor time.
 */
export function keepHeapSmall(growthPercent: number): void {
  keepYoungHeapSmall();
  setFlagsFromString(`--heap-growing-percent=${growthPercent}`);
}

/** The half of `keepHeapSmall` that costs nothing. Otherwise the space for young objects doubles whenever a few survive. */
export function keepYoungHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/**
 * Frees the memory at once; nobody may read the bytes afterwards. The collector does not count memory outside its heap and lets
 * half-megabytes pile up by the hundred. Shared buffers are left alone.
 */
export function releaseBytes({ buffer, byteLength }: Uint8Array): void {
  if (buffer.byteLength === byteLength) (buffer as ArrayBuffer).transfer(0);
}

/**
 * A response body is scanned in texts of this many bytes. For each text that is much longer, V8 maps new memory and returns it
 * to the system afterwards, which takes longer than scanning a page of half a megabyte.
 */
export const pieceBytes = 50_000;
