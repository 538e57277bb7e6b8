/**
 * How much of a sheet is read at most. Whoever hands in a file may not know what is in it, and what is in it may be made
 * to fill the memory of the machine: each of these is far above any sheet of people and amounts, and far below harm.
 */

const mebibyte = 1024 * 1024;

export const limits = {
  /** Of the file as it lies on the disk. */
  fileBytes: 100 * mebibyte,
  /** Of all parts of an .xlsx, unpacked. A million rows are about 400 MB of XML. */
  unpackedBytes: 1024 * mebibyte,
  /** Of each part that says how a workbook is made: a list of its sheets, its formats. */
  smallPartBytes: 32 * mebibyte,
  zipEntries: 10_000,
  /** Excel's own. */
  rows: 1_048_576,
  columns: 16_384,
  cellCharacters: 32_767,
  /** Of all cells together. */
  cells: 8_000_000,
  /** Each is kept until the sheet is read, whether a cell has it or not. */
  sharedTexts: 3_000_000,
  characters: 100_000_000,
  /** Of a row, and of a line of text. */
  rowCharacters: 4 * mebibyte,
  /** Of XML between two tags, and of tags within tags. */
  xmlTokenCharacters: 4 * mebibyte,
  xmlDepth: 100,
} as const;

/**
 * For the thread that unpacks and scans an .xlsx. They are the second line: a thread that reaches them may take the whole
 * process with it, so all that it gathers is counted as above.
 */
export const threadLimits = { maxOldGenerationSizeMb: 384, maxYoungGenerationSizeMb: 32 } as const;

/** `256 MiB`, for messages about the limits above. */
export const megabytes = (bytes: number): string => `${Math.ceil(bytes / mebibyte)} MiB`;
