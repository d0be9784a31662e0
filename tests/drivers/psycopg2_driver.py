"""psycopg 2: types in and out, executemany, execute_values, server-side cursors, transactions, errors, COPY, notifications."""
import datetime as dt
import io
import os
import select
import uuid
from decimal import Decimal

import psycopg2
import psycopg2.errors
import psycopg2.extensions
import psycopg2.extras

DSN = os.environ["TENON_DSN"]
psycopg2.extras.register_uuid()

ROW = {
    "id": 1, "flag": True, "small": -7, "big": 2**62, "ratio": 0.25, "amount": Decimal("123.45"),
    "label": "naïve ☃", "day": dt.date(2024, 2, 29), "clock": dt.time(12, 34, 56, 789000),
    "stamp": dt.datetime(1999, 12, 31, 23, 59, 59),
    "zoned": dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc), "span": dt.timedelta(days=2, hours=3),
    "key": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), "doc": {"a": [1, 2.5, None, "x"]}, "numbers": [1, 2, None],
    "words": ["a", 'b"c', "d,e", None],
}
TABLE = """CREATE TABLE things (id int PRIMARY KEY, flag bool, small int2, big int8, ratio float8, amount numeric(10, 2),
    label text, day date, clock time, stamp timestamp, zoned timestamptz, span interval, key uuid, doc jsonb, numbers int[],
    words text[], raw bytea)"""


def expect(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def fails(cursor, kind, statement, values=None):
    try:
        cursor.execute(statement, values)
    except kind as error:
        return error
    raise AssertionError(f"{statement} did not fail")


conn = psycopg2.connect(DSN)
assert conn.server_version >= 150000, conn.server_version
expect(conn.encoding, "UTF8")
cursor = conn.cursor()
cursor.execute(TABLE)
values = [psycopg2.extras.Json(value) if isinstance(value, dict) else value for value in ROW.values()]
names, places = ", ".join(ROW), ", ".join(["%s"] * len(ROW))
cursor.execute(f"INSERT INTO things ({names}, raw) VALUES ({places}, %s)", [*values, psycopg2.Binary(b"\x00\xff'\\")])
conn.commit()
cursor.execute(f"SELECT {names} FROM things")
expect(cursor.fetchone(), tuple(ROW.values()))
cursor.execute("SELECT raw FROM things")
expect(bytes(cursor.fetchone()[0]), b"\x00\xff'\\")
expect([column.name for column in cursor.description], ["raw"])
expect(cursor.description[0].type_code, 17)

with conn.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as rows:
    rows.execute("SELECT id, label FROM things WHERE id = ANY(%s)", ([1, 2],))
    expect([dict(row) for row in rows], [{"id": 1, "label": "naïve ☃"}])

# Many rows, one statement each, in few statements, and by COPY.
cursor.execute("CREATE TABLE many (id int PRIMARY KEY, label text)")
cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(i, f"row {i}") for i in range(10_000)])
psycopg2.extras.execute_values(
    cursor, "INSERT INTO many VALUES %s", [(i, f"row {i}") for i in range(10_000, 20_000)], page_size=1000
)
psycopg2.extras.execute_batch(
    cursor, "UPDATE many SET label = %s WHERE id = %s", [(f"new {i}", i) for i in range(500)], page_size=100
)
lines = "".join(f"{i}\ttab\\there {i}\n" for i in range(20_000, 30_000))
cursor.copy_expert("COPY many FROM STDIN", io.StringIO(lines))
expect(cursor.rowcount, 10_000)
conn.commit()
cursor.execute("SELECT count(*), sum(id), count(*) FILTER (WHERE label LIKE 'new %') FROM many")
expect(cursor.fetchone(), (30_000, sum(range(30_000)), 500))
out = io.StringIO()
cursor.copy_expert("COPY (SELECT * FROM many WHERE id >= 29998 ORDER BY id) TO STDOUT WITH CSV HEADER", out)
expect(out.getvalue(), "id,label\n29998,tab\there 29998\n29999,tab\there 29999\n")
out = io.StringIO()
cursor.copy_to(out, "many", columns=("id",))
expect(len(out.getvalue().splitlines()), 30_000)

# A cursor of the server gives its rows in portions, forward and back.
with conn.cursor("portions", scrollable=True) as portions:
    portions.itersize = 1000
    portions.execute("SELECT id FROM many ORDER BY id")
    expect(portions.fetchone(), (0,))
    expect(portions.fetchmany(2), [(1,), (2,)])
    portions.scroll(-2)
    expect(portions.fetchone(), (1,))
    expect(sum(1 for _ in portions), 29_998)
cursor.execute("SELECT name FROM pg_cursors")
expect(cursor.fetchall(), [])

# Transactions and savepoints.
conn.rollback()
with conn:
    cursor.execute("INSERT INTO many VALUES (-1, 'kept')")
    cursor.execute("SAVEPOINT one")
    error = fails(cursor, psycopg2.errors.UniqueViolation, "INSERT INTO many VALUES (-1, 'twice')")
    expect(error.pgcode, "23505")
    expect((error.diag.schema_name, error.diag.table_name, error.diag.constraint_name), ("public", "many", "many_pkey"))
    expect(error.diag.message_detail, "Key (id)=(-1) already exists.")
    fails(cursor, psycopg2.errors.InFailedSqlTransaction, "SELECT 1")
    cursor.execute("ROLLBACK TO one")
try:
    with conn:
        cursor.execute("DELETE FROM many")
        raise KeyError
except KeyError:
    pass
cursor.execute("SELECT count(*) FROM many")
expect(cursor.fetchone(), (30_001,))
conn.rollback()

# Errors.
for kind, statement, position in [
    (psycopg2.errors.UndefinedTable, "SELECT * FROM absent", "15"),
    (psycopg2.errors.SyntaxError, "SELEKT 1", "1"),
    (psycopg2.errors.DivisionByZero, "SELECT 1 / (id - id) FROM many", None),
    (psycopg2.errors.UndefinedColumn, "SELECT nothing FROM many", "8"),
]:
    error = fails(cursor, kind, statement)
    expect(error.diag.severity_nonlocalized, "ERROR")
    expect(error.diag.statement_position, position)
    conn.rollback()
error = fails(cursor, psycopg2.errors.NotNullViolation, "INSERT INTO many VALUES (NULL, 'x')")
expect((error.diag.table_name, error.diag.column_name), ("many", "id"))
conn.rollback()

# Notifications reach a connection that waits for them.
conn.set_session(autocommit=True)
cursor.execute("LISTEN news")
with psycopg2.connect(DSN) as other, other.cursor() as sender:
    sender.execute("NOTIFY news, 'hello'")
    sender.execute("SELECT pg_notify('news', 'again')")
    sender.execute("NOTIFY news, 'hello'")
    pid = other.info.backend_pid
other.close()
while len(conn.notifies) < 2:
    assert select.select([conn], [], [], 30)[0], "no notification came"
    conn.poll()
expect([(own.pid, own.channel, own.payload) for own in conn.notifies], [(pid, "news", "hello"), (pid, "news", "again")])

# A connection's text may be in another encoding.
conn.set_client_encoding("LATIN1")
cursor.execute("SELECT %s, length(%s)", ("é", "é"))
expect(cursor.fetchone(), ("é", 1))
fails(cursor, psycopg2.errors.UntranslatableCharacter, "SELECT chr(8364)")
conn.close()
print("psycopg 2", psycopg2.__version__)
