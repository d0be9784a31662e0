"""pg8000, which speaks the protocol by itself: types in and out, executemany, transactions, errors, COPY, notifications."""
import datetime as dt
import io
import os
import time
import uuid
from decimal import Decimal

import pg8000.dbapi
import pg8000.native

DSN = dict(part.split("=") for part in os.environ["TENON_DSN"].split())
PLACE = {"user": DSN["user"], "host": DSN["host"], "port": int(DSN["port"]), "database": DSN["dbname"]}

ROW = {
    "id": 1, "flag": True, "small": -7, "big": 2**62, "ratio": 0.25, "amount": Decimal("123.45"),
    "label": "naïve ☃", "day": dt.date(2024, 2, 29), "clock": dt.time(12, 34, 56, 789000),
    "stamp": dt.datetime(1999, 12, 31, 23, 59, 59),
    "zoned": dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc), "span": dt.timedelta(days=2, hours=3),
    "raw": b"\x00\xff'\\", "key": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "numbers": [1, 2, None], "words": ["a", 'b"c', "d,e", None],
}
TABLE = """CREATE TABLE things (id int PRIMARY KEY, flag bool, small int2, big int8, ratio float8, amount numeric(10, 2),
    label text, day date, clock time, stamp timestamp, zoned timestamptz, span interval, raw bytea, key uuid, numbers int[],
    words text[])"""


def expect(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def failure(work, *args, **kwargs):
    try:
        work(*args, **kwargs)
    except pg8000.dbapi.DatabaseError as error:
        return error.args[0]
    raise AssertionError(f"{args} did not fail")


conn = pg8000.dbapi.connect(**PLACE)
cursor = conn.cursor()
cursor.execute(TABLE)
names, places = ", ".join(ROW), ", ".join(["%s"] * len(ROW))
cursor.execute(f"INSERT INTO things ({names}) VALUES ({places})", list(ROW.values()))
conn.commit()
cursor.execute("SELECT * FROM things WHERE id = %s", (1,))
expect(cursor.fetchone(), list(ROW.values()))
expect([column[0] for column in cursor.description], list(ROW))
cursor.execute("SELECT CAST(%s AS jsonb), CAST(%s AS int[])", ('{"a": [1, null]}', [[1, 2], [3, 4]]))
expect(cursor.fetchone(), [{"a": [1, None]}, [[1, 2], [3, 4]]])

cursor.execute("CREATE TABLE many (id int PRIMARY KEY, label text)")
cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(i, f"row {i}") for i in range(10_000)])
conn.commit()
lines = "".join(f"{i}\tline {i}\n" for i in range(10_000, 20_000)).encode()
cursor.execute("COPY many FROM STDIN", stream=io.BytesIO(lines))
expect(cursor.rowcount, 10_000)
out = io.BytesIO()
cursor.execute("COPY (SELECT * FROM many WHERE id >= 19998 ORDER BY id) TO STDOUT WITH (FORMAT csv)", stream=out)
expect(out.getvalue(), b"19998,line 19998\n19999,line 19999\n")
conn.commit()
cursor.execute("SELECT count(*), sum(id) FROM many")
expect(cursor.fetchone(), [20_000, sum(range(20_000))])

cursor.execute("DELETE FROM many")
conn.rollback()
cursor.execute("SELECT count(*) FROM many")
expect(cursor.fetchone(), [20_000])
told = failure(cursor.execute, "INSERT INTO many VALUES (%s, %s)", (1, "twice"))
expect({key: told[key] for key in "SVCstn"}, {
    "S": "ERROR", "V": "ERROR", "C": "23505", "s": "public", "t": "many", "n": "many_pkey",
})
expect(failure(cursor.execute, "SELECT 1")["C"], "25P02")
conn.rollback()
expect(failure(cursor.execute, "SELECT * FROM absent")["C"], "42P01")
conn.rollback()
cursor.execute("PREPARE one AS SELECT 1")
cursor.execute("SELECT name, from_sql FROM pg_prepared_statements WHERE name = 'one'")
expect(cursor.fetchone(), ["one", True])
conn.close()

native = pg8000.native.Connection(**PLACE)
expect(native.run("SELECT id, label FROM many WHERE id = :id", id=7), [[7, "row 7"]])
statement = native.prepare("SELECT label FROM many WHERE id = :id")
for i in range(20):
    expect(statement.run(id=i), [[f"row {i}"]])
statement.close()
native.run("LISTEN news")
other = pg8000.native.Connection(**PLACE)
other.run("START TRANSACTION")
other.run("NOTIFY news, 'hello'")
native.run("SELECT 1")
expect(list(native.notifications), [])
other.run("COMMIT")
until = time.monotonic() + 30
while not native.notifications and time.monotonic() < until:
    native.run("SELECT 1")
expect([own[1:] for own in native.notifications], [("news", "hello")])
pid = native.run("SELECT pg_backend_pid()")[0][0]
expect(other.run("SELECT pg_terminate_backend(:pid)", pid=pid), [[True]])
try:
    native.run("SELECT 1")
    raise AssertionError("the connection goes on")
except pg8000.native.DatabaseError as error:
    expect(error.args[0]["C"], "57P01")
except pg8000.native.InterfaceError:
    pass
other.close()
print("pg8000")
