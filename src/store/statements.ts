/** Statements over one connection of the mirror: each is prepared once, and its values are bound by name. */
import type { Database, Statement } from 'better-sqlite3';

/** Cells by the names of their columns or parameters. */
type Values = Readonly<Record<string, string | number | bigint | null | undefined>>;

export class Statements {
  readonly #database: Database;
  readonly #prepared = new Map<string, Statement<[Values]>>();

  constructor(database: Database) {
    this.#database = database;
  }

  run(sql: string, values: Values = {}): void {
    this.#statement(sql).run(values);
  }

  all<Row>(sql: string, values: Values = {}): Row[] {
    return this.#statement(sql).all(values) as Row[];
  }

  /** Inserts a row. @param end what follows its values, such as ON CONFLICT */
  insert(table: string, row: Values, end = ''): void {
    const names = namesOf(row);
    this.run(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(bound).join(', ')}) ${end}`, row);
  }

  /** Sets these columns in the rows that have the values of `where`, which are other columns. */
  update(table: string, set: Values, where: Values): void {
    const equal = (values: Values) => namesOf(values).map((name) => `${name} = ${bound(name)}`);
    const sql = `UPDATE ${table} SET ${equal(set).join(', ')} WHERE ${equal(where).join(' AND ')}`;
    this.run(sql, { ...set, ...where });
  }

  #statement(sql: string): Statement<[Values]> {
    let statement = this.#prepared.get(sql);
    if (statement === undefined) this.#prepared.set(sql, (statement = this.#database.prepare<[Values]>(sql)));
    return statement;
  }
}

/** What is undefined is left as it is. */
function namesOf(values: Values): string[] {
  return Object.keys(values).filter((name) => values[name] !== undefined);
}

function bound(name: string): string {
  return `@${name}`;
}
