// node-postgres: parameters, types, prepared statements, errors, transactions in a pool, LISTEN, cancelled queries.
"use strict";
const assert = require("node:assert");
const { Client, Pool } = require("pg");

const parts = Object.fromEntries(process.env.TENON_DSN.split(" ").map((part) => part.split("=", 2)));
const config = { host: parts.host, port: Number(parts.port), user: parts.user, database: parts.dbname };

async function fails(promise, code) {
  const error = await promise.then(() => null, (error) => error);
  assert.strictEqual(error?.code, code, error?.message ?? "should have failed");
  return error;
}

async function values(client) {
  const result = await client.query(
    "SELECT $1::int AS i, $2::bigint AS big, $3::numeric AS n, $4::text AS t, $5::boolean AS b, $6::timestamptz AS at, " +
      "$7::jsonb AS j, $8::int[] AS list, $9::bytea AS raw, $10::float8 AS f, $11::date AS d, NULL::text AS none",
    [7, "9007199254740993", "12.50", "it's ü", true, new Date(Date.UTC(2024, 1, 29, 12, 30, 15, 250)), { a: [1, null] },
      [1, 2, null], Buffer.from([0, 255]), 0.1, "2024-02-29"],
  );
  const row = result.rows[0];
  assert.deepStrictEqual(result.fields.map((field) => [field.name, field.dataTypeID]), [
    ["i", 23], ["big", 20], ["n", 1700], ["t", 25], ["b", 16], ["at", 1184], ["j", 3802], ["list", 1007], ["raw", 17],
    ["f", 701], ["d", 1082], ["none", 25],
  ]);
  assert.strictEqual(row.i, 7);
  assert.strictEqual(row.big, "9007199254740993");
  assert.strictEqual(row.n, "12.50");
  assert.strictEqual(row.t, "it's ü");
  assert.strictEqual(row.b, true);
  assert.strictEqual(row.at.toISOString(), "2024-02-29T12:30:15.250Z");
  assert.deepStrictEqual(row.j, { a: [1, null] });
  assert.deepStrictEqual(row.list, [1, 2, null]);
  assert.deepStrictEqual([...row.raw], [0, 255]);
  assert.strictEqual(row.f, 0.1);
  assert.deepStrictEqual([row.d.getFullYear(), row.d.getMonth(), row.d.getDate()], [2024, 1, 29]);
  assert.strictEqual(row.none, null);
  const binary = await client.query({ text: "SELECT 1::int4, 'x'::text, true", binary: true, rowMode: "array" });
  assert.deepStrictEqual(binary.rows, [[1, "x", true]]);
  const several = await client.query("SELECT 1 AS a; SELECT 2 AS b, 3 AS c");
  assert.deepStrictEqual(several.map((one) => one.rows), [[{ a: 1 }], [{ b: 2, c: 3 }]]);
}

async function changes(client) {
  await client.query("CREATE TABLE items (id serial PRIMARY KEY, name text NOT NULL UNIQUE, price numeric(8, 2), made timestamptz DEFAULT now())");
  const made = await client.query("INSERT INTO items (name, price) VALUES ($1, $2), ($3, $4) RETURNING id, made", ["a", 1.5, "b", null]);
  assert.deepStrictEqual([made.command, made.rowCount, made.rows.map((row) => row.id)], ["INSERT", 2, [1, 2]]);
  assert.ok(Math.abs(made.rows[0].made - Date.now()) < 3600_000);
  const upsert = "INSERT INTO items (name, price) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET price = excluded.price RETURNING id, price";
  assert.deepStrictEqual((await client.query(upsert, ["b", 9])).rows, [{ id: 2, price: "9.00" }]);
  assert.strictEqual((await client.query("UPDATE items SET price = price + $1 WHERE id = ANY($2)", [1, [1, 2]])).rowCount, 2);
  assert.deepStrictEqual((await client.query("SELECT id, price FROM items ORDER BY id")).rows,
    [{ id: 1, price: "2.50" }, { id: 2, price: "10.00" }]);
  const twice = await fails(client.query("INSERT INTO items (name) VALUES ('a')"), "23505");
  assert.deepStrictEqual([twice.table, twice.constraint, twice.detail],
    ["items", "items_name_key", "Key (name)=(a) already exists."]);
  const missing = await fails(client.query("SELECT nothing FROM items"), "42703");
  assert.strictEqual(missing.position, "8");
  await fails(client.query("SELECT 1 / $1::int", [0]), "22012");
}

async function prepared(client) {
  for (let i = 0; i < 12; i++) {
    const query = { name: "by-id", text: "SELECT name, $2::int + 1 AS next FROM items WHERE id = $1", values: [(i % 2) + 1, i] };
    assert.deepStrictEqual((await client.query(query)).rows, [{ name: i % 2 ? "b" : "a", next: i + 1 }]);
  }
  const kept = await client.query("SELECT name FROM pg_prepared_statements");
  assert.deepStrictEqual(kept.rows, [{ name: "by-id" }]);
}

async function pooled() {
  const pool = new Pool({ ...config, max: 4 });
  const counts = await Promise.all([...Array(20).keys()].map((i) => pool.query("SELECT count(*)::int AS n FROM generate_series(1, $1::int)", [i])));
  assert.deepStrictEqual(counts.map((one) => one.rows[0].n), [...Array(20).keys()]);
  assert.ok(pool.totalCount <= 4);
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    await client.query("INSERT INTO items (name) VALUES ('gone')");
    await fails(client.query("INSERT INTO items (name) VALUES (NULL)"), "23502");
    await fails(client.query("SELECT 1"), "25P02");
    await client.query("ROLLBACK");
    assert.strictEqual((await client.query("SELECT count(*)::int AS n FROM items")).rows[0].n, 2);
  } finally {
    client.release();
  }
  await pool.end();
}

async function told(client) {
  const other = new Client(config);
  await other.connect();
  const heard = new Promise((resolve) => other.on("notification", resolve));
  await other.query("LISTEN news");
  await client.query("SELECT pg_notify('news', 'it is out')");
  const message = await heard;
  assert.deepStrictEqual([message.channel, message.payload], ["news", "it is out"]);
  const notice = new Promise((resolve) => other.on("notice", resolve));
  await other.query("DROP TABLE IF EXISTS nosuch");
  assert.strictEqual((await notice).message, 'table "nosuch" does not exist, skipping');
  await fails(other.query("SET statement_timeout = 50; SELECT pg_sleep(30)"), "57014");
  await other.end();
}

async function main() {
  const client = new Client(config);
  await client.connect();
  await values(client);
  await changes(client);
  await prepared(client);
  await pooled();
  await told(client);
  await client.end();
  console.log(`node-postgres ${require("pg/package.json").version}: ok`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
