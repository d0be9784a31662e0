#!/usr/bin/env python3
"""Writes tests/tpch/answers/sf*/q*.txt: TPC-H answers as another engine (DuckDB) finds them.

Usage: .deps/venv/bin/python scripts/tpch-answers.py SCALE DIRECTORY
where DIRECTORY holds TABLE.parquet for the eight tables at that scale factor (tpchgen-cli parquet -s SCALE).

An answer file has one header line of column names, joined by '|', an approximate column (an average or a quotient, which
DuckDB computes in floating point) marked by a leading '~'; then one line a row. An answer of more than 2000 rows is
three lines: the header, `#rows N`, and `#sum H`: the 64-bit wrapping sum of the rows' FNV-1a hashes.
"""
import decimal
import os
import sys

import duckdb

APPROXIMATE = {1: ["avg_qty", "avg_price", "avg_disc"], 8: ["mkt_share"], 14: ["promo_revenue"], 17: ["avg_yearly"]}
TABLES = "nation region part supplier partsupp customer orders lineitem".split()
MAX_ROWS = 2000


def text(value):
    if isinstance(value, decimal.Decimal):
        plain = format(value, "f")
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    if isinstance(value, float):
        return repr(value)
    return str(value)


def fnv(line):
    h = 0xCBF29CE484222325
    for byte in line.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def main():
    scale, directory = sys.argv[1], sys.argv[2]
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "tpch")
    out = os.path.join(here, "answers", f"sf{scale}")
    os.makedirs(out, exist_ok=True)
    db = duckdb.connect()
    for table in TABLES:
        db.execute(f"create view {table} as from '{directory}/{table}.parquet'")
    for number in range(1, 23):
        with open(os.path.join(here, f"q{number:02}.sql")) as f:
            sql = f.read()
        if number == 11:  # The specification divides the fraction by the scale factor.
            sql = sql.replace("0.0001", format(decimal.Decimal("0.0001") / decimal.Decimal(scale), "f"))
        cursor = db.execute(sql)
        marked = APPROXIMATE.get(number, [])
        names = ["~" + c[0] if c[0] in marked else c[0] for c in cursor.description]
        rows = ["|".join(text(v) for v in row) for row in cursor.fetchall()]
        with open(os.path.join(out, f"q{number:02}.txt"), "w") as f:
            print("|".join(names), file=f)
            if len(rows) > MAX_ROWS:
                print(f"#rows {len(rows)}\n#sum {sum(map(fnv, rows)) & 0xFFFFFFFFFFFFFFFF}", file=f)
            else:
                for row in rows:
                    print(row, file=f)


main()
