"""ADBC's PostgreSQL driver: results as Arrow by COPY in binary format, parameters, bulk ingestion, the catalog, partial reads."""
import datetime
import decimal
import os

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

parts = dict(part.split("=", 1) for part in os.environ["TENON_DSN"].split())
uri = f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}?sslmode=disable"
with adbc.connect(uri) as conn, conn.cursor() as cursor:
    given = pa.table({
        "id": pa.array(range(1000), pa.int64()), "small": pa.array([i % 7 for i in range(1000)], pa.int16()),
        "t": pa.array([None if i % 10 == 0 else f"ü {i}" for i in range(1000)]), "f": pa.array([i / 4 for i in range(1000)]),
        "b": pa.array([i % 2 == 0 for i in range(1000)]), "d": pa.array([datetime.date(2024, 2, 29)] * 1000, pa.date32()),
        "ts": pa.array([datetime.datetime(1999, 12, 31, 23, 59, 59, i) for i in range(1000)], pa.timestamp("us")),
        "raw": pa.array([bytes([0, 255, i % 256]) for i in range(1000)], pa.binary()),
    })
    assert cursor.adbc_ingest("made", given, mode="create") == 1000
    cursor.execute("SELECT * FROM made ORDER BY id")
    found = cursor.fetch_arrow_table()
    assert found.column_names == given.column_names, found.schema
    assert found.to_pydict() == given.to_pydict()
    cursor.execute("SELECT count(*), sum(f) FROM made WHERE id < $1 AND t IS NOT NULL", (100,))
    assert cursor.fetchall() == [(90, 1125.0)]
    cursor.executemany("INSERT INTO made (id, t) VALUES ($1, $2)", [(-1, "a"), (-2, None)])
    cursor.execute("SELECT id, t FROM made WHERE id < 0 ORDER BY id")
    assert cursor.fetchall() == [(-2, None), (-1, "a")]
    cursor.execute("SELECT 12.50::numeric(8, 2) AS n, now() AS at, '{\"a\": 1}'::jsonb AS j, interval '1 day 2 seconds' AS i")
    row = cursor.fetch_arrow_table()
    assert row.column("n").to_pylist() in (["12.50"], [decimal.Decimal("12.50")]), row
    assert row.schema.field("at").type == pa.timestamp("us", tz="UTC") and row.column("j").to_pylist() == ['{"a": 1}']
    try:
        cursor.execute("SELECT * FROM nosuch")
        raise AssertionError("should have failed")
    except adbc.ProgrammingError as error:
        assert error.sqlstate == "42P01", error
    conn.rollback()
    # Nothing was committed.
    cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_name = 'made'")
    assert cursor.fetchall() == [(0,)]
    cursor.execute("CREATE TABLE kept (id int PRIMARY KEY, name varchar(9) NOT NULL)")
    conn.commit()
    schema = conn.adbc_get_table_schema("kept")
    assert [(field.name, str(field.type)) for field in schema] == [("id", "int32"), ("name", "string")], schema
    objects = conn.adbc_get_objects(depth="tables", db_schema_filter="public").read_all().to_pylist()
    tables = [t["table_name"] for c in objects for s in c["catalog_db_schemas"] or [] for t in s["db_schema_tables"] or []]
    assert "kept" in tables, objects
    cursor.execute("SELECT i FROM generate_series(1, 1000000) AS t(i)")
    assert next(iter(cursor.fetch_record_batch())).column(0)[0].as_py() == 1
print("ADBC: ok")
