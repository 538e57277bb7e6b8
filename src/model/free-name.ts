/** The first of the names that is not taken: with no number, then with 2, 3 and so on. */
export function firstFree(isTaken: (name: string) => boolean, nameWith: (number: number | null) => string): string {
  for (let number: number | null = null; ; number = (number ?? 1) + 1) {
    const name = nameWith(number);
    if (!isTaken(name)) return name;
  }
}
