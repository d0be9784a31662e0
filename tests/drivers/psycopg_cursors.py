"""psycopg 3's named cursors: DECLARE, a Describe of the cursor as a portal, FETCH in pieces, CLOSE; text and binary."""
import os

import psycopg

with psycopg.connect(os.environ["TENON_DSN"], autocommit=True) as conn, conn.transaction():
    for binary in (False, True):
        with conn.cursor(name="pieces", binary=binary) as named:
            named.itersize = 7
            named.execute("SELECT x, x::text FROM generate_series(1, 40) AS g(x) WHERE x > %s ORDER BY g.x", [2])
            assert [column.name for column in named.description] == ["x", "x"], named.description
            found = list(named)
            assert found == [(x, str(x)) for x in range(3, 41)], found
    with conn.cursor(name="held", withhold=True) as held:
        held.execute("SELECT 1 AS one")
        assert held.fetchone() == (1,) and held.fetchone() is None
    # BINARY is a property of the cursor: FETCH by the simple protocol gives binary rows too.
    conn.execute("DECLARE raw BINARY CURSOR FOR SELECT 258::int4 AS n")
    result = conn.pgconn.exec_(b"FETCH ALL FROM raw")
    assert result.fformat(0) == 1 and result.get_value(0, 0) == b"\x00\x00\x01\x02", result.get_value(0, 0)
    conn.execute("CLOSE raw")
    try:
        with conn.transaction():
            conn.execute("FETCH ALL FROM raw")
        raise AssertionError("a closed cursor gives rows")
    except psycopg.errors.InvalidCursorName:
        pass
print(f"psycopg {psycopg.__version__} named cursors: ok")
