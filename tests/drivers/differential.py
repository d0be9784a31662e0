"""Random tables and random queries, answered by Tenon and by DuckDB: the answers must be equal.

TENON_SEED repeats a run, TENON_SECONDS bounds it (20 by default). A difference prints the tables and the query.
"""
import datetime as dt
import os
import random
import sys
import time
from decimal import Decimal

import duckdb
import psycopg

SEED = int(os.environ.get("TENON_SEED") or random.SystemRandom().randrange(2**32))
SECONDS = float(os.environ.get("TENON_SECONDS", "20"))
TYPES = {"i": "integer", "b": "bigint", "n": "numeric(8,2)", "s": "varchar", "d": "date", "f": "double precision"}


class Table:
    def __init__(self, rng, name):
        self.name = name
        kinds = ["i", "i"] + [rng.choice("ibnsdf") for _ in range(rng.randint(1, 4))]
        # Names repeat from table to table: what is looked up by its bare name goes wrong.
        self.columns = [(f"c{k}{kind}", kind) for k, kind in enumerate(kinds)]
        count = rng.choice([0, 1, 5, 40, 40, 300])
        domain = rng.choice([3, 10, 50])
        self.rows = [tuple(self.value(rng, kind, domain) for _, kind in self.columns) for _ in range(count)]

    def value(self, rng, kind, domain):
        if rng.random() < 0.12:
            return None
        x = rng.randint(-2, domain)
        return {"i": x, "b": x * 10**9, "n": Decimal(x) / 4, "s": f"v{x}" if x else "", "f": x / 8,
                "d": dt.date(2024, 1, 1) + dt.timedelta(days=x)}[kind]

    def ddl(self):
        return f"create table {self.name} ({', '.join(f'{c} {TYPES[k]}' for c, k in self.columns)})"

    def inserts(self):
        for at in range(0, len(self.rows), 100):
            yield f"insert into {self.name} values {', '.join('(' + ', '.join(map(literal, r)) + ')' for r in self.rows[at:at + 100])}"


def literal(value):
    if value is None:
        return "null"
    if isinstance(value, (str, dt.date)):
        return f"'{value}'"
    return str(value)


def constant(rng, kind):
    x = rng.randint(-2, 20)
    return {"i": f"{x}", "b": f"{x * 10**9}", "n": f"{x}.25", "s": f"'v{x}'", "d": f"date '2024-01-{x % 28 + 1:02}'",
            "f": f"cast({x}.125 as double precision)"}[kind]


def condition(rng, columns, depth=2):
    roll = rng.random()
    if depth and roll < 0.3:
        op = rng.choice(["and", "or"])
        return f"({condition(rng, columns, depth - 1)} {op} {condition(rng, columns, depth - 1)})"
    if depth and roll < 0.37:
        return f"(not {condition(rng, columns, depth - 1)})"
    column, kind = rng.choice(columns)
    if roll < 0.45:
        return f"{column} is {rng.choice(['', 'not '])}null"
    if roll < 0.55:
        return f"{column} {rng.choice(['in', 'not in'])} ({', '.join(constant(rng, kind) for _ in range(rng.randint(1, 4)))})"
    if roll < 0.62:
        return f"{column} between {constant(rng, kind)} and {constant(rng, kind)}"
    same = [c for c, k in columns if k == kind and c != column]
    other = rng.choice(same) if same and rng.random() < 0.4 else constant(rng, kind)
    return f"{column} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {other}"


def on(rng, left, right):
    pairs = [(a, b) for a, ka in left for b, kb in right if ka == kb or {ka, kb} == {"i", "b"}]
    parts = []
    for a, b in rng.sample(pairs, min(len(pairs), rng.choice([1, 1, 2]))):
        parts.append(f"({a} {'=' if rng.random() < 0.8 else rng.choice(['<', '>=', '<>', 'is not distinct from'])} {b})")
    if rng.random() < 0.2:
        parts.append(condition(rng, left + right, 1))
    return " and ".join(parts)


def query(rng, tables):
    used = rng.sample(tables, rng.randint(1, min(3, len(tables))))
    columns = [(f"{t.name}.{c}", k) for t in used[:1] for c, k in t.columns]
    source, pairs = used[0].name, len(used[0].rows)
    for table in used[1:]:
        fresh = [(f"{table.name}.{c}", k) for c, k in table.columns]
        pairs *= len(table.rows)
        if pairs < 5000 and rng.random() < 0.15:  # Without keys: all pairs, or those in some order.
            same = [(a, b) for a, ka in columns for b, kb in fresh if ka == kb]
            a, b = rng.choice(same)
            source += rng.choice([f" cross join {table.name}", f" join {table.name} on {a} {rng.choice(['<', '>='])} {b}"])
            columns += fresh
            continue
        kind = rng.choice(["join", "join", "left join", "right join", "full join"])
        clause = on(rng, columns, fresh)
        if kind == "full join":  # PostgreSQL wants an equality there; so does this generator.
            a, b = next((a, b) for a, ka in columns for b, kb in fresh if ka == kb == "i")
            clause = f"{a} = {b}"
        source += f" {kind} {table.name} on {clause}"
        columns += fresh
    where = []
    if rng.random() < 0.6:
        where.append(condition(rng, columns))
    if rng.random() < 0.35:
        inner = rng.choice(tables)
        names = [(f"q.{c}", k) for c, k in inner.columns]
        pairs = [(a, b) for a, ka in columns for b, kb in names if ka == kb]
        a, b = rng.choice(pairs)
        if rng.random() < 0.5:
            extra = f" where {condition(rng, names, 1)}" if rng.random() < 0.5 else ""
            where.append(f"{a} {rng.choice(['in', 'not in'])} (select {b} from {inner.name} q{extra})")
        else:
            extra = f" and {condition(rng, names, 1)}" if rng.random() < 0.5 else ""
            where.append(f"{rng.choice(['', 'not '])}exists (select 1 from {inner.name} q where {b} = {a}{extra})")
    clause = f" where {' and '.join(where)}" if where else ""
    roll = rng.random()
    if roll < 0.45:
        keys = [c for c, k in rng.sample(columns, rng.randint(0, 2)) if k != "f"]
        aggregates = ["count(*)"]
        for column, kind in rng.sample(columns, min(len(columns), 3)):
            choice = ["count({})", "min({})", "max({})", "count(distinct {})"] + (["sum({})", "avg({})"] if kind in "ibnf" else [])
            aggregates.append(rng.choice(choice).format(column))
        having = " having count(*) > 1" if rng.random() < 0.3 else ""
        group = f" group by {', '.join(keys)}" if keys else ""
        return f"select {', '.join(keys + aggregates)} from {source}{clause}{group}{having}"
    if roll < 0.6:
        picked = [c for c, _ in rng.sample(columns, rng.randint(1, 3))]
        return f"select distinct {', '.join(picked)} from {source}{clause}"
    if roll < 0.7:
        column, kind = rng.choice(columns)
        other = rng.choice(tables)
        match = next((c for c, k in other.columns if k == kind), None)
        if match:
            op = rng.choice(["union", "union all", "intersect", "except"])
            return f"select {column} from {source}{clause} {op} select {match} from {other.name}"
    if roll < 0.8:
        part, order = rng.choice(columns)[0], ", ".join(c for c, _ in columns)
        column = rng.choice([c for c, k in columns if k in "ib"])
        call = rng.choice(["rank()", f"sum({column})", f"min({column})", "count(*)", f"lag({column})"])
        return f"select {column}, {call} over (partition by {part} order by {order}) from {source}{clause}"
    if roll < 0.9:
        order = ", ".join(f"{c} {rng.choice(['asc', 'desc'])} nulls {rng.choice(['first', 'last'])}" for c, _ in columns)
        picked = ", ".join(c for c, _ in columns)
        return f"select {picked} from {source}{clause} order by {order} limit {rng.randint(0, 20)} offset {rng.choice([0, 0, 3])}"
    return f"select {', '.join(c for c, _ in columns)} from {source}{clause}"


def canonical(rows):
    def value(v):
        if v is None:
            return "null"
        if isinstance(v, bool):
            return str(v)
        if isinstance(v, (int, float, Decimal)):
            return f"{float(v):.9g}" if abs(v) > 1e-12 else "0"
        return str(v)
    return sorted(tuple(map(value, row)) for row in rows)


def main():
    print(f"TENON_SEED={SEED}", flush=True)
    rng = random.Random(SEED)
    begun, queries = time.monotonic(), 0
    with psycopg.connect(os.environ["TENON_DSN"], autocommit=True) as tenon:
        while time.monotonic() - begun < SECONDS:
            duck = duckdb.connect()
            duck.execute("set threads = 1")
            tables = [Table(rng, name) for name in "xyzw"[:rng.randint(2, 4)]]
            script = []
            for table in tables:
                tenon.execute(f"drop table if exists {table.name}")
                for statement in [table.ddl(), *table.inserts()]:
                    script.append(statement)
                    tenon.execute(statement)
                    duck.execute(statement)
            for _ in range(40):
                text = query(rng, tables)
                try:
                    wanted = canonical(duck.execute(text).fetchall())
                except duckdb.InternalException as error:
                    # One of its own faults, after which it answers nothing more.
                    print(f"DuckDB has no answer: {text}\n{str(error).splitlines()[0]}")
                    break
                except duckdb.Error as error:
                    sys.exit(f"the generator wrote what DuckDB refuses: {text}\n{error}")
                try:
                    found = canonical(tenon.execute(text).fetchall())
                except psycopg.Error as error:
                    print(";\n".join(script) + f";\n\n{text}")
                    sys.exit(f"Tenon refuses: {error}")
                if found != wanted:
                    print(";\n".join(script) + ";")
                    missing = [r for r in wanted if r not in found][:5]
                    extra = [r for r in found if r not in wanted][:5]
                    sys.exit(f"\n{text};\n{len(found)} rows, DuckDB has {len(wanted)}\nmissing {missing}\nextra {extra}")
                queries += 1
    print(f"{queries} random queries answered as DuckDB answers them")


main()
