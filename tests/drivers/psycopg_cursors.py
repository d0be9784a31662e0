"""psycopg 3's named cursors: DECLARE, a Describe of the cursor as a portal, FETCH in pieces, CLOSE."""
import os

import psycopg

with psycopg.connect(os.environ["TENON_DSN"], autocommit=True) as conn, conn.transaction():
    with conn.cursor(name="pieces") as named:
        named.itersize = 7
        named.execute("SELECT x FROM generate_series(1, 40) AS g(x) ORDER BY x")
        found = [row[0] for row in named]
        assert found == list(range(1, 41)), found
print(f"psycopg {psycopg.__version__} named cursors: ok")
