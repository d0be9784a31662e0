"""drizzle-kit: a schema in TypeScript pushed into Tenon and into PostgreSQL, changed and pushed again, and pulled out of both as
TypeScript: what it reads of the two is the same."""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))
from servers import ROOT, Postgres  # noqa: E402

MODULES = ROOT / ".deps/node/node_modules"
KIT = MODULES / "drizzle-kit/bin.cjs"
OWN_NODE = ROOT / ".deps/venv/bin/node"

SCHEMA = """
import { sql } from "drizzle-orm";
import { bigint, bigserial, boolean, char, check, date, doublePrecision, foreignKey, index, inet, integer, interval, jsonb, numeric,
  pgEnum, pgMaterializedView, pgSequence, pgTable, pgView, primaryKey, real, serial, smallint, text, time, timestamp, unique,
  uniqueIndex, uuid, varchar } from "drizzle-orm/pg-core";

export const mood = pgEnum("mood", ["sad", "ok", "very happy"]);
export const ticket = pgSequence("ticket", { startWith: 100, increment: 5 });
export const customers = pgTable("customers", {
  id: integer().primaryKey().generatedByDefaultAsIdentity(),
  name: varchar({ length: 40 }).notNull(),
  email: text().unique(),
  mood: mood().default("ok"),
  balance: numeric({ precision: 12, scale: 2 }).default("0.00"),
  made: timestamp({ withTimezone: true, mode: "string" }).defaultNow(),
  tags: text().array(),
  grid: integer().array().array(),
  extra: jsonb().default({}),
  initials: char({ length: 3 }),
  key: uuid().defaultRandom(),
  born: date(),
  at: time({ precision: 3 }),
  known: boolean().default(false),
  part: real(),
  host: inet(),
  took: interval(),
}, (table) => [
  check("rich", sql`balance >= 0`),
  index("customers_name").on(table.name.desc().nullsLast()),
  uniqueIndex("customers_lower").on(sql`lower(name)`).where(sql`name IS NOT NULL`),
]);
export const orders = pgTable("orders", {
  id: bigserial({ mode: "number" }).primaryKey(),
  customer: integer().notNull().references(() => customers.id, { onDelete: "cascade", onUpdate: "restrict" }),
  day: date().notNull().default(sql`CURRENT_DATE`),
  price: doublePrecision(),
  twice: doublePrecision().generatedAlwaysAs(sql`price + price`),
  amount: smallint().default(1),
  MORE
}, (table) => [unique("once").on(table.customer, table.day), check("some", sql`amount > 0`)]);
export const places = pgTable("places", { a: integer().notNull(), b: text().notNull() }, (table) => [primaryKey({ columns: [table.a, table.b] })]);
export const counted = pgTable("counted", { id: serial().primaryKey(), order: bigint({ mode: "number" }) }, (table) => [
  foreignKey({ columns: [table.order], foreignColumns: [orders.id], name: "of_an_order" }).onDelete("set null"),
]);
export const named = pgView("named", { id: integer(), name: varchar({ length: 40 }) }).as(sql`SELECT id, name FROM customers`);
export const kept = pgMaterializedView("kept", { id: integer() }).as(sql`SELECT id FROM customers`);
"""


def kit(directory: Path, what: str, url: str, *more: str):
    config = directory / "config.json"
    settings = {"dialect": "postgresql", "schema": "./schema.ts", "out": "./out", "dbCredentials": {"url": url}}
    config.write_text(json.dumps(settings))
    done = subprocess.run(
        [str(OWN_NODE) if OWN_NODE.exists() else "node", KIT, what, "--config=config.json", *more],
        cwd=directory, env=os.environ | {"NODE_PATH": str(MODULES)}, capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0 and "rror" not in told, (what, url, told)


def pulled(url: str) -> list[str]:
    """The lines of the TypeScript that a database becomes. How an expression is written is the database's own affair."""
    with tempfile.TemporaryDirectory() as directory:
        kit(Path(directory), "pull", url)
        lines = (Path(directory) / "out/schema.ts").read_text() + (Path(directory) / "out/relations.ts").read_text()
    of_expressions = r"check\(|generatedAlwaysAs\(|\.as\(|ndex\("
    lines = "\n".join(
        re.sub("sql`[^`]*`", "sql`...`", line) if re.search(of_expressions, line) else line for line in lines.splitlines()
    )
    # It does not order what it reads.
    return sorted(line.strip() for line in lines.splitlines() if line.strip() and not line.startswith("import"))


def address(dsn: str) -> str:
    of = psycopg.conninfo.conninfo_to_dict(dsn)
    return f"postgres://{of['user']}@{of['host']}:{of['port']}/{of['dbname']}?sslmode=disable"


assert KIT.exists(), "no drizzle-kit: run scripts/install-test-deps.sh first"
with Postgres() as postgres, tempfile.TemporaryDirectory() as directory:
    directory = Path(directory)
    urls = [address(os.environ["TENON_DSN"]), address(postgres.dsn())]
    for more in ("note: text(),", "note: text().notNull().default('none'), checked: boolean().array(),"):
        (directory / "schema.ts").write_text(SCHEMA.replace("MORE", more))
        # PostgreSQL gets all at once.
        for url in urls[: 2 if "checked" in more else 1]:
            kit(directory, "push", url, "--force")
    found = [pulled(url) for url in urls]
    here, there = map(set, found)
    assert found[0] == found[1], f"Tenon alone: {sorted(here - there)}\nPostgreSQL alone: {sorted(there - here)}"
version = json.loads((MODULES / "drizzle-kit/package.json").read_text())["version"]
print(f"drizzle-kit {version}: ok, {len(found[0])} lines")
