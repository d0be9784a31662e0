"""psycopg 3: text and binary results, prepared statements, COPY, transactions, errors."""
import datetime as dt
import ipaddress as ip
import os
import uuid
from decimal import Decimal

import psycopg
from psycopg import sql
from psycopg.types.composite import CompositeInfo, register_composite
from psycopg.types.json import Json
from psycopg.types.multirange import Int4Multirange, Multirange, MultirangeInfo, register_multirange
from psycopg.types.range import DateRange, Int4Range, NumericRange, Range, RangeInfo, register_range

DSN = os.environ["TENON_DSN"]

ROW = {
    "id": 1, "flag": True, "small": -7, "big": 2**62, "ratio": 0.25, "amount": Decimal("123.45"),
    "label": "naïve ☃", "day": dt.date(2024, 2, 29), "clock": dt.time(12, 34, 56, 789000),
    "stamp": dt.datetime(1999, 12, 31, 23, 59, 59), "span": dt.timedelta(days=2, hours=3),
    "raw": b"\x00\xff'\\", "key": uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "host": ip.ip_address("192.168.1.5"), "iface": ip.ip_interface("10:23::f1/64"), "net": ip.ip_network("10.1.0.0/16"),
    "slot": Int4Range(1, 5), "price": NumericRange(Decimal("1.5"), None, "()"), "days": DateRange(empty=True),
    "slots": Int4Multirange([Int4Range(1, 3), Int4Range(7, 9)]), "taken": [Int4Range(1, 2), None],
}
TABLE = """CREATE TABLE things (id int PRIMARY KEY, flag bool, small int2, big int8, ratio float8, amount numeric(10, 2),
    label text, day date, clock time, stamp timestamp, span interval, raw bytea, key uuid,
    host inet, iface inet, net cidr, slot int4range, price numrange, days daterange, slots int4multirange,
    taken int4range[])"""


def expect(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


with psycopg.connect(DSN, autocommit=True) as conn:
    assert conn.info.server_version >= 150000, conn.info.server_version
    expect(conn.info.encoding, "utf-8")
    conn.execute(TABLE)
    found = RangeInfo.fetch(conn, "tstzrange")
    expect((found.oid, found.array_oid, found.subtype_oid), (3910, 3911, 1184))
    found = MultirangeInfo.fetch(conn, "nummultirange")
    expect((found.oid, found.range_oid, found.subtype_oid), (4532, 3906, 1700))
    conn.execute("CREATE TYPE words AS RANGE (subtype = text)")
    conn.execute("CREATE TABLE spoken (w words, ws words[], m words_multirange)")
    register_range(RangeInfo.fetch(conn, "words"), conn)
    register_multirange(MultirangeInfo.fetch(conn, "words_multirange"), conn)
    spoken = (Range("a b", 'c"d', "[]"), [Range("", "x"), None, Range(empty=True)], Multirange([Range("a", "b"), Range("x", None)]))
    for form in ("%b", "%t", "%s"):
        # psycopg calls a list of these an array of texts where it is binary.
        conn.execute(f"INSERT INTO spoken VALUES ({form}, %t, {form})", spoken)
    for binary in (False, True):
        expect(conn.cursor(binary=binary).execute("SELECT * FROM spoken").fetchall(), [spoken] * 3)
    both = "ARRAY['[1,3)', int4range(NULL, 5)] = %s"
    expect(conn.execute(f"SELECT {both}", [[Range(1, 3), Range(None, 5)]]).fetchone(), (True,))
    columns = sql.SQL(", ").join(map(sql.Identifier, ROW))
    places = sql.SQL(", ").join(sql.Placeholder() * len(ROW))
    insert = sql.SQL("INSERT INTO things ({}) VALUES ({})").format(columns, places)
    conn.execute(insert, list(ROW.values()))
    conn.execute(insert, [2] + [None] * (len(ROW) - 1))
    for binary in (False, True):
        cursor = conn.cursor(binary=binary)
        cursor.execute("SELECT * FROM things ORDER BY id")
        expect(cursor.fetchone(), tuple(ROW.values()))
        expect(cursor.fetchone(), (2,) + (None,) * (len(ROW) - 1))
        expect(cursor.fetchone(), None)
        for name, value in list(ROW.items())[1:]:
            query = sql.SQL("SELECT id FROM things WHERE {} = %b").format(sql.Identifier(name))
            found = cursor.execute(query, [value]).fetchall()
            assert found == [(1,)], f"{name} = {value!r}: {found}"

    cursor = conn.cursor()
    cursor.executemany("INSERT INTO things (id, label) VALUES (%s, %s)", [(i, f"row {i}") for i in range(10, 60)])
    expect(cursor.rowcount, 50)
    for i in range(8):  # Past five runs psycopg prepares the statement.
        expect(conn.execute("SELECT label FROM things WHERE id = %s", [10 + i]).fetchone(), (f"row {10 + i}",))
    expect(conn.execute("SELECT label FROM things WHERE id = %s", [11], prepare=True).fetchone(), ("row 11",))
    expect(conn.execute("UPDATE things SET label = 'new' WHERE id >= %s", [50]).rowcount, 10)
    expect(conn.execute("DELETE FROM things WHERE label = 'new'").statusmessage, "DELETE 10")

    with conn.cursor().copy("COPY things (id, label, amount) FROM STDIN") as copy:
        for i in range(1000, 1100):
            copy.write_row((i, f"tab\there {i}\\", Decimal("0.50")))
    with conn.cursor().copy("COPY things (id, label) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "text"])
        for i in range(2000, 2100):
            copy.write_row((i, f"binary {i}"))
    expect(conn.execute("SELECT count(*), sum(amount) FROM things WHERE id >= 1000").fetchone(), (200, Decimal("50.00")))
    with conn.cursor().copy("COPY (SELECT id, label FROM things WHERE id >= 2000 ORDER BY id) TO STDOUT") as copy:
        copy.set_types(["int4", "text"])
        rows = list(copy.rows())
    expect((len(rows), rows[0]), (100, (2000, "binary 2000")))

    for statement, error in [
        ("SELECT * FROM nosuch", psycopg.errors.UndefinedTable),
        ("SELECT nosuch FROM things", psycopg.errors.UndefinedColumn),
        ("SELEC 1", psycopg.errors.SyntaxError),
        ("SELECT 1/0", psycopg.errors.DivisionByZero),
        ("INSERT INTO things (id) VALUES (1)", psycopg.errors.UniqueViolation),
        ("SELECT 2147483647 + 1", psycopg.errors.NumericValueOutOfRange),
    ]:
        try:
            conn.execute(statement)
        except error as e:
            assert e.diag.sqlstate, e
        else:
            raise AssertionError(f"no error: {statement}")
    notices = []
    conn.add_notice_handler(lambda notice: notices.append(notice.sqlstate))
    conn.execute("COMMIT")
    expect(notices, ["25P01"])
    told = []
    conn.add_notice_handler(lambda notice: told.append((notice.severity, notice.message_primary, notice.context)))
    conn.execute("DO $$ BEGIN RAISE WARNING 'so %', 1 + 1; END $$")
    expect(told, [("WARNING", "so 2", "PL/pgSQL function inline_code_block line 1 at RAISE")])
    conn.execute("CREATE TYPE place AS (name text, spots int[])")
    register_composite(CompositeInfo.fetch(conn, "place"), conn)
    place = conn.execute("SELECT ROW('a \"b\"', ARRAY[1, NULL])::place").fetchone()[0]
    expect((place.name, place.spots), ('a "b"', [1, None]))
    for binary in (False, True):
        cur = conn.cursor(binary=binary)
        mark = "%b" if binary else "%t"
        expect(cur.execute(f"SELECT {mark}, ({mark}).spots", [place, place]).fetchone(), (place, [1, None]))
        found = cur.execute(f"SELECT {mark}::place[]", [[place, place]]).fetchone()[0]
        expect((found, type(found[0])), ([place, place], type(place)))
        expect(cur.execute(f"SELECT ARRAY[{mark}::json]", [Json({"a": [1]})]).fetchone()[0], [{"a": [1]}])
    # Of the type of a table's rows, and a record within a record.
    conn.execute("CREATE TABLE visit (at date, place place)")
    register_composite(CompositeInfo.fetch(conn, "visit"), conn)
    visit = conn.execute("SELECT ROW('2024-02-29', ROW('b', '{3}'))::visit").fetchone()[0]
    expect((visit.at.isoformat(), visit.place.spots), ("2024-02-29", [3]))
    for mark in ("%b", "%t"):
        found = conn.execute(f"SELECT {mark}, {mark}::visit[]", [visit, [visit, None]]).fetchone()
        expect(found, (visit, [visit, None]))
    conn.execute("DROP TABLE visit")
    conn.execute("DROP TYPE place")
    with conn.pipeline():
        results = [conn.execute("SELECT %s::int", [i]) for i in range(50)]
        expect([r.fetchone()[0] for r in results], list(range(50)))

with psycopg.connect(DSN) as conn:
    conn.execute("INSERT INTO things (id) VALUES (9999)")
    conn.rollback()
    expect(conn.execute("SELECT count(*) FROM things WHERE id = 9999").fetchone(), (0,))
    conn.execute("INSERT INTO things (id) VALUES (9999)")
    conn.commit()
    try:
        conn.execute("SELECT 1/0")
    except psycopg.errors.DivisionByZero:
        pass
    try:
        conn.execute("SELECT 1")
        raise AssertionError("a failed transaction went on")
    except psycopg.errors.InFailedSqlTransaction:
        conn.rollback()
    expect(conn.execute("SELECT count(*) FROM things WHERE id = 9999").fetchone(), (1,))
print(f"psycopg {psycopg.__version__}: ok")
