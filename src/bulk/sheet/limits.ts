/**
 * How much of a sheet is read at most. Whoever hands in a file may not know what is in it, and what is in it may be made
 * to fill the memory of the machine: each of these is far above any sheet of people and amounts, and far below harm.
 */

const mebibyte = 1024 * 1024;

export const limits = {
  /** Of the file as it lies on the disk. */
  fileBytes: 256 * mebibyte,
  /** Of all parts of an .xlsx, unpacked. A million rows are about 400 MB of XML. */
  unpackedBytes: 1024 * mebibyte,
  /** Of the parts that are held whole: what the workbook is made of, not its rows. */
  smallPartBytes: 8 * mebibyte,
  zipEntries: 10_000,
  /** Excel's own. */
  rows: 1_048_576,
  columns: 16_384,
  cellCharacters: 32_767,
  /** Of all cells together. */
  cells: 10_000_000,
  characters: 200_000_000,
  /** Of XML between two tags, and of tags within tags. */
  xmlTokenCharacters: 4 * mebibyte,
  xmlDepth: 100,
} as const;

/** For the thread that unpacks and scans an .xlsx; what it keeps is the table of shared texts. */
export const threadLimits = { maxOldGenerationSizeMb: 384, maxYoungGenerationSizeMb: 32 } as const;

/** `256 MB`, for messages about the limits above. */
export const megabytes = (bytes: number): string => `${Math.ceil(bytes / mebibyte)} MB`;
