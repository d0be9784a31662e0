// postgres.js: tagged templates, types found by Describe, bulk inserts, transactions with savepoints, cursors, COPY, LISTEN.
"use strict";
const assert = require("node:assert");
const { Readable } = require("node:stream");
const { pipeline } = require("node:stream/promises");
const postgres = require("postgres");

const parts = Object.fromEntries(process.env.TENON_DSN.split(" ").map((part) => part.split("=", 2)));
const sql = postgres({ host: parts.host, port: Number(parts.port), user: parts.user, database: parts.dbname, max: 3, onnotice: () => {} });

async function fails(promise, code) {
  const error = await promise.then(() => null, (error) => error);
  assert.strictEqual(error?.code, code, error?.message ?? "should have failed");
}

async function main() {
  await sql`CREATE TABLE people (id int PRIMARY KEY, name varchar(20), born date, tags text[], about jsonb, score float8, big bigint)`;
  const born = new Date(Date.UTC(1990, 4, 17));
  const people = [
    { id: 1, name: "Ann", born, tags: ["a", 'b "c"'], about: { k: [1, { x: null }] }, score: 1.5, big: "9007199254740993" },
    { id: 2, name: null, born: null, tags: [], about: null, score: -0.25, big: null },
  ];
  const made = await sql`INSERT INTO people ${sql(people)} RETURNING *`;
  assert.strictEqual(made.count, 2);
  assert.deepStrictEqual({ ...made[0] }, people[0]);
  assert.deepStrictEqual({ ...made[1] }, people[1]);
  assert.deepStrictEqual(made.columns.map((column) => column.type), [23, 1043, 1082, 1009, 3802, 701, 20]);

  const names = await sql`SELECT ${sql(["id", "name"])} FROM people WHERE id IN ${sql([1, 2, 3])} AND id = ANY(${[1, 2]}) ORDER BY id`;
  assert.deepStrictEqual(names.map((row) => ({ ...row })), [{ id: 1, name: "Ann" }, { id: 2, name: null }]);
  await sql`UPDATE people SET ${sql({ name: "Bob", score: 2 }, "name", "score")} WHERE id = ${2}`;
  const described = await sql`SELECT id, tags FROM people WHERE id = ${1} AND born < ${new Date()}`.describe();
  assert.deepStrictEqual([described.types, described.columns.map((column) => column.name)], [[23, 1184], ["id", "tags"]]);
  assert.deepStrictEqual((await sql`SELECT name, score FROM people WHERE id = 2`.values())[0], ["Bob", 2]);
  for (let i = 0; i < 10; i++) {
    const [row] = await sql`SELECT ${i}::int + 1 AS next, count(*)::int AS n FROM people WHERE id <= ${i}`;
    assert.deepStrictEqual({ ...row }, { next: i + 1, n: Math.min(i, 2) });
  }

  await sql.begin(async (tx) => {
    await tx`INSERT INTO people (id) VALUES (3)`;
    await tx.savepoint((save) => save`INSERT INTO people (id) VALUES (3)`).catch((error) => assert.strictEqual(error.code, "23505"));
    await tx`INSERT INTO people (id) VALUES (4)`;
  });
  await fails(sql.begin(async (tx) => [await tx`DELETE FROM people`, await tx`SELECT 1 / 0`]), "22012");
  assert.deepStrictEqual((await sql`SELECT array_agg(id ORDER BY id) AS ids FROM people`)[0].ids, [1, 2, 3, 4]);
  const level = await sql.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY", (tx) => tx`SHOW transaction_isolation`);
  assert.strictEqual(level[0].transaction_isolation, "repeatable read");
  await fails(sql.begin("READ ONLY", (tx) => tx`DELETE FROM people`), "25006");

  // Portals: rows come in pieces, and reading may stop.
  const sizes = [];
  await sql`SELECT i FROM generate_series(1, 25) AS t(i)`.cursor(10, (rows) => {
    sizes.push(rows.length);
  });
  assert.deepStrictEqual(sizes, [10, 10, 5]);
  let read = 0;
  for await (const [row] of sql`SELECT i FROM generate_series(1, 1000000) AS t(i)`.cursor()) {
    if ((read = row.i) === 3) break;
  }
  assert.strictEqual(read, 3);

  await pipeline(Readable.from(["10\tten\n", "11\t\\N\n"]), await sql`COPY people (id, name) FROM STDIN`.writable());
  let copied = "";
  for await (const chunk of await sql`COPY (SELECT id, name FROM people WHERE id >= 10 ORDER BY id) TO STDOUT`.readable()) {
    copied += chunk;
  }
  assert.strictEqual(copied, "10\tten\n11\t\\N\n");

  const heard = new Promise((resolve) => {
    sql.listen("news", resolve).then(() => sql.notify("news", "it is out"));
  });
  assert.strictEqual(await heard, "it is out");
  const slow = sql`SELECT pg_sleep(30)`.execute();
  setTimeout(() => slow.cancel(), 100);
  await fails(slow, "57014");
  const several = await sql`SELECT 1 AS a; SELECT 2 AS b`.simple();
  assert.deepStrictEqual(several.map((rows) => ({ ...rows[0] })), [{ a: 1 }, { b: 2 }]);
  await sql.end();
  console.log("postgres.js: ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
