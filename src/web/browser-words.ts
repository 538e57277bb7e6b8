/** Messages that name a command or a flag of the command line, in words for somebody who has a browser. */
const words: readonly (readonly [RegExp, string])[] = [
  [/admin-mirror bulk resolve (\S+) --row (\d+) --applied --reason "…"\.?/g, 'on the page of row $2 of batch $1.'],
  [/`?admin-mirror bulk resume with --again --reason "…"`?/g, 'say why beside the button Go on'],
  [/runs `admin-mirror bulk approve (\S+?)`/g, 'approves it on the page of batch $1'],
  [/admin-mirror bulk (?:resume|status) (\S+)\./g, 'the page of batch $1.'],
  [/Run `admin-mirror bulk resume \S+?`/g, 'Press “Go on”'],
  [/(?:by|with) `admin-mirror bulk (?:status|results|resume) (\S+?)`/g, 'on the page of batch $1'],
  [/`admin-mirror bulk status`/g, 'The page Batches'],
  [/`admin-mirror bulk resume`/g, 'the button Go on'],
  [/`admin-mirror bulk (?:status|results|resume|apply|submit|approve) (\S+?)`/g, 'the page of batch $1'],
  // What is left is for whoever has a terminal.
  [/`(admin-mirror [^`]+)`(?! on the command line)/g, '`$1` on the command line (an operator can run it)'],
  [
    /(?:To send it a second time on purpose|or send it again with):? --again --reason "…"\.?/g,
    'To send it again on purpose, say why under "More" beside the sheet.',
  ],
  [/, as many as --max-errors allows/g, ', as many as are allowed in one go'],
  [/say what stands before its decimals with --decimal comma or --decimal point, or write it as/g, 'write it as'],
  [/(Say how you know|Say why): --reason "…"\.?/g, '$1.'],
  [/Add --resend to send it again\./g, 'It can be sent again.'],
  [/Raise --timeout/g, 'Choose a longer time'],
  [/Leave --(?:sheet|resend) out\./g, 'Leave that out.'],
  [/with --sheet|--sheet names/g, 'under "More" beside the sheet'],
];

/** The text as it reads in a browser. */
export function inBrowser(text: string): string {
  const said = words.reduce((so, [from, to]) => so.replaceAll(from, to), text);
  return said.replaceAll(/(^|[.!?] )the page of batch/g, '$1The page of batch');
}
