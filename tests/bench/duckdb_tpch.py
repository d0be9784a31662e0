"""Runs the TPC-H queries in DuckDB: duckdb_tpch.py DATA_DIR QUERY_DIR THREADS RUNS, one JSON line a query on stdout.

DATA_DIR holds TABLE.parquet; QUERY_DIR holds qNN.sql. Times are milliseconds of clock and of CPU,
the best of RUNS after one warm-up, of rows as Python's objects or as text that nobody reads, whichever is faster.
"""

import json
import pathlib
import sys
import time

import duckdb

data, queries, threads, runs = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
only = {int(n) for n in sys.argv[5:]}
connection = duckdb.connect(":memory:", config={"threads": threads})
for table in sorted(data.glob("*.parquet")):
    connection.execute(f"CREATE TABLE {table.stem} AS SELECT * FROM '{table}'")
for path in sorted(queries.glob("q*.sql")):
    number = int(path.stem[1:])
    if only and number not in only:
        continue
    sql = path.read_text()
    rows = connection.execute(sql).fetchall()
    best = best_cpu = float("inf")
    as_text = f"COPY ({sql.strip().rstrip(';')}) TO '/dev/null' (FORMAT csv)"
    ways = [lambda: connection.execute(sql).fetchall(), lambda: connection.execute(as_text)]
    for way in ways * runs:
        start, cpu = time.perf_counter(), time.process_time()
        way()
        best = min(best, (time.perf_counter() - start) * 1000)
        best_cpu = min(best_cpu, (time.process_time() - cpu) * 1000)
    answer = [[None if v is None else str(v) for v in row] for row in rows]
    print(json.dumps({"query": number, "ms": best, "cpu_ms": best_cpu, "rows": answer}), flush=True)
