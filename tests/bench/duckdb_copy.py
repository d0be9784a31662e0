"""Loads lineitem in DuckDB: duckdb_copy.py DATA_DIR THREADS RUNS, from DATA_DIR/lineitem.csv and .parquet.

Prints milliseconds of clock and of CPU, the best of RUNS, and MB/s of the file. The CSV's columns have the types of the
Parquet file, and no header.
"""

import pathlib
import sys
import time

import duckdb

data, threads, runs = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
connection = duckdb.connect(":memory:", config={"threads": threads})
connection.execute(f"CREATE TABLE lineitem AS SELECT * FROM '{data}/lineitem.parquet'")
for name, source in [
    ("csv", f"COPY loaded FROM '{data}/lineitem.csv' (FORMAT csv, HEADER false)"),
    ("parquet", f"CREATE TABLE loaded AS SELECT * FROM '{data}/lineitem.parquet'"),
]:
    best = best_cpu = float("inf")
    for _ in range(runs):
        if name == "csv":
            connection.execute("CREATE TABLE loaded AS SELECT * FROM lineitem WHERE false")
        start, cpu = time.perf_counter(), time.process_time()
        connection.execute(source)
        best = min(best, (time.perf_counter() - start) * 1000)
        best_cpu = min(best_cpu, (time.process_time() - cpu) * 1000)
        assert connection.execute("SELECT count(*), sum(l_orderkey) FROM loaded").fetchone() == \
            connection.execute("SELECT count(*), sum(l_orderkey) FROM lineitem").fetchone()
        connection.execute("DROP TABLE loaded")
    size = (data / f"lineitem.{name}").stat().st_size
    print(f"DuckDB {name:<7} {best:8.0f} {best_cpu:8.0f} {size / best / 1e3:8.0f}", flush=True)
