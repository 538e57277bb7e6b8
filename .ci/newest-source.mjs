/**
 * When the last of what the bundle of the command is made of has changed, in ms. A folder changes when a file in it comes or
 * goes. One rule for the command, the set-up and the tests: a bundle is used only if it is newer.
 * @param files node:fs; the command hands it over, since importing it costs milliseconds
 * @param root the folder of the clone, with its last slash
 */
export function newestSource({ readdirSync, statSync }, root) {
  let newest = 0;
  const note = (path) => {
    newest = Math.max(newest, statSync(path).mtimeMs);
  };
  const visit = (folder) => {
    note(folder);
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) visit(`${folder}/${entry.name}`);
      else note(`${folder}/${entry.name}`);
    }
  };
  visit(`${root}src`);
  visit(`${root}.ci`);
  note(`${root}package-lock.json`);
  return newest;
}
