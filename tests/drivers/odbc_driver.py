"""psqlODBC by pyodbc: parameters and types, executemany, cursors in pieces, transactions, errors, and the catalog functions."""
import datetime
import decimal
import os

import pyodbc

parts = dict(part.split("=", 1) for part in os.environ["TENON_DSN"].split())
DRIVER = "/usr/lib/x86_64-linux-gnu/odbc/psqlodbcw.so"
assert os.path.exists(DRIVER), f"no {DRIVER}: run scripts/install-test-deps.sh first"
common = f"DRIVER={DRIVER};SERVER={parts['host']};PORT={parts['port']};DATABASE={parts['dbname']};UID={parts['user']};SSLMODE=disable"


def fails(state: str, statement: str, *args):
    try:
        cursor.execute(statement, *args)
    except pyodbc.Error as error:
        assert error.args[0] == state, error
        return
    raise AssertionError(f"should have failed: {statement}")


# UseServerSidePrepare=0 puts parameters into the text, UseDeclareFetch=1 reads by cursors.
for options in ("", ";UseServerSidePrepare=0", ";UseDeclareFetch=1;Fetch=7"):
    conn = pyodbc.connect(common + options, autocommit=False)
    cursor = conn.cursor()
    cursor.execute("CREATE TABLE kinds (id int PRIMARY KEY, big bigint, n numeric(12, 3), f float8, b boolean, t text, v varchar(9) NOT NULL,"
                   " d date, ts timestamp, raw bytea)")
    rows = [(i, 2**62 + i, decimal.Decimal("12.500") + i, 0.5 + i, i % 2 == 0, f"it's ü {i}", f"v{i}",
             datetime.date(2024, 2, 29), datetime.datetime(1999, 12, 31, 23, 59, 59, 123000), bytes([0, 255, i])) for i in range(25)]
    cursor.executemany("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    cursor.execute("INSERT INTO kinds (id, v) VALUES (?, ?)", 99, "none")
    assert cursor.rowcount == 1
    conn.commit()
    cursor.execute("SELECT id, big, n, f, CASE WHEN b THEN 1 ELSE 0 END, t, v, d, ts, raw FROM kinds WHERE id < ? ORDER BY id", 99)
    found = [tuple(row) for row in cursor.fetchall()]
    assert found == [row[:4] + (int(row[4]),) + row[5:] for row in rows], (options, found[:2])
    assert [column[0] for column in cursor.description][:3] == ["id", "big", "n"]
    assert cursor.description[2][4:6] == (12, 3), (options, cursor.description)
    cursor.execute("SELECT big, t, d, raw FROM kinds WHERE id = 99")
    assert tuple(cursor.fetchone()) == (None, None, None, None) and cursor.fetchone() is None
    for i in range(8):
        assert cursor.execute("SELECT count(*) FROM kinds WHERE id < ? AND v <> ?", i, "x").fetchval() == i
    fails("23505", "INSERT INTO kinds (id, v) VALUES (1, 'twice')")
    conn.rollback()
    fails("42P01", "SELECT * FROM nosuch")
    conn.rollback()
    fails("22012", "SELECT 1 / ?", 0)
    conn.rollback()
    cursor.execute("DELETE FROM kinds")
    conn.rollback()
    assert cursor.execute("SELECT count(*) FROM kinds").fetchval() == 26
    assert [(t.table_name, t.table_type) for t in cursor.tables(schema="public")] == [("kinds", "TABLE")]
    columns = [(c.column_name, c.type_name, c.column_size, c.nullable) for c in cursor.columns(table="kinds")]
    assert columns[0] == ("id", "int4", 10, 0) and columns[2] == ("n", "numeric", 12, 1) and columns[6] == ("v", "varchar", 9, 0), columns
    assert [(k.column_name, k.pk_name) for k in cursor.primaryKeys("kinds")] == [("id", "kinds_pkey")]
    assert ("kinds_pkey", "id", 0) in [(s.index_name, s.column_name, s.non_unique) for s in cursor.statistics("kinds")]
    cursor.execute("CREATE TABLE refers (k int REFERENCES kinds (id))")
    assert [(k.pktable_name, k.fkcolumn_name) for k in cursor.foreignKeys(foreignTable="refers")] == [("kinds", "k")]
    assert "PostgreSQL" == conn.getinfo(pyodbc.SQL_DBMS_NAME)
    cursor.execute("DROP TABLE refers, kinds")
    conn.commit()
    conn.close()
print(f"psqlODBC by pyodbc {pyodbc.version}: ok")
