"""asyncpg: prepared statements and binary values throughout, its pool, cursors, COPY and type introspection."""
import asyncio
import datetime as dt
import ipaddress as ip
import os
import uuid
from decimal import Decimal

import asyncpg

PARTS = dict(part.split("=", 1) for part in os.environ["TENON_DSN"].split())
CONNECT = {"host": PARTS["host"], "port": int(PARTS["port"]), "user": PARTS["user"], "database": PARTS["dbname"], "ssl": False}


def expect(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


async def batches(conn):
    """executemany is one transaction: of one that stops early, by an error of the server or of the client, nothing stays."""
    await conn.execute("CREATE TABLE batch (a int PRIMARY KEY, b text)")
    insert = "INSERT INTO batch VALUES ($1, $2)"

    def short():
        for at in range(40):
            yield at, "z" * 30_000
        raise KeyError("no more")

    wide = [(at, "x" * 30_000) for at in range(40)]
    for rows, error in [
        ([(1, "a"), (2, "b"), (1, "c"), (3, "d")], asyncpg.UniqueViolationError),
        (wide + wide[:1] + wide, asyncpg.UniqueViolationError),
        ([(1, "a"), ("x", "b")], asyncpg.DataError),
        (short(), KeyError),
    ]:
        try:
            await conn.executemany(insert, rows)
        except error:
            expect(await conn.fetchval("SELECT count(*) FROM batch"), 0)
        else:
            raise AssertionError(f"no {error.__name__}")
    async with conn.transaction():
        try:
            async with conn.transaction():
                await conn.executemany(insert, [(1, "a"), (1, "b")])
        except asyncpg.UniqueViolationError:
            pass
        await conn.executemany(insert, [(1, "a"), (2, "b")])
    expect(await conn.fetchval("SELECT count(*) FROM batch"), 2)


async def main():
    conn = await asyncpg.connect(**CONNECT)
    await conn.execute("CREATE TABLE t (id int, name text, pay numeric(10, 2), born date, at timestamptz, key uuid, raw bytea)")
    row = (1, "naïve ☃", Decimal("12.50"), dt.date(1990, 5, 6),
           dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc), uuid.uuid4(), b"\x00\x01")
    await conn.execute("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7)", *row)
    expect(tuple(await conn.fetchrow("SELECT * FROM t WHERE id = $1", 1)), row)
    await conn.executemany("INSERT INTO t (id, name) VALUES ($1, $2)", [(i, f"n{i}") for i in range(2, 102)])
    expect(await conn.fetchval("SELECT count(*) FROM t WHERE name LIKE 'n%'"), 101)
    await batches(conn)
    statement = await conn.prepare("SELECT name FROM t WHERE id = $1")
    expect(await statement.fetchval(5), "n5")
    expect([a.name for a in statement.get_attributes()], ["name"])
    expect(await conn.fetchval("SELECT $1::float8 + $2::float8", 1.5, 2.5), 4.0)
    expect(await conn.fetchval("SELECT $1::interval", dt.timedelta(days=1, hours=2)), dt.timedelta(days=1, hours=2))
    expect(await conn.fetchval("SELECT $1::inet", ip.ip_interface("10.1.2.3/8")), ip.ip_interface("10.1.2.3/8"))
    expect(await conn.fetchval("SELECT network($1)", ip.ip_interface("10.1.2.3/8")), ip.ip_network("10.0.0.0/8"))
    expect(await conn.fetchval("SELECT $1::cidr[]", [ip.ip_network("10.0.0.0/8"), None]), [ip.ip_network("10.0.0.0/8"), None])
    expect(await conn.fetchval("SELECT $1::macaddr", "08:00:2b:01:02:03"), "08:00:2b:01:02:03")
    expect(await conn.fetchval("SELECT $1::int4range", asyncpg.Range(1, 5)), asyncpg.Range(1, 5))
    expect(await conn.fetchval("SELECT $1::int8multirange", [asyncpg.Range(1, 5)]), [asyncpg.Range(1, 5)])
    expect(await conn.fetchval("SELECT $1::daterange[]", [asyncpg.Range(empty=True), None]), [asyncpg.Range(empty=True), None])
    expect(await conn.fetchval("SELECT int4range($1, $2) @> 3", 1, 5), True)
    expect(await conn.fetchval("SELECT ARRAY[1, 2, 3]"), [1, 2, 3])
    expect(await conn.fetchval("SELECT ARRAY['a', NULL]"), ["a", None])
    async with conn.transaction():
        expect([r["id"] async for r in conn.cursor("SELECT id FROM t ORDER BY id", prefetch=10)], list(range(1, 102)))
    async with conn.transaction():
        cursor = await conn.cursor("SELECT id FROM t ORDER BY id")
        expect(await cursor.forward(3), 3)
        expect((await cursor.fetchrow())["id"], 4)
        expect(await cursor.forward(1000), 97)
        expect(await cursor.fetchrow(), None)
    await conn.execute("CREATE TYPE place AS (name text, spots int[])")
    expect(await conn.fetchval("SELECT $1::place", ("here", [1, 2])), ("here", [1, 2]))
    expect(await conn.fetchval("SELECT $1::place[]", [("here", None), None]), [("here", None), None])
    await conn.execute("CREATE TABLE trips (id int, goal place, ways place[])")
    trip = (1, ("there", [3, None]), [("a", []), None])
    await conn.execute("INSERT INTO trips VALUES ($1, $2, $3)", *trip)
    expect(tuple(await conn.fetchrow("SELECT * FROM trips")), trip)
    await conn.copy_records_to_table("trips", records=[(2, ("back", None), None)])
    expect(await conn.fetch("SELECT (goal).name FROM trips ORDER BY id"), [("there",), ("back",)])
    await conn.execute("ALTER TYPE place ADD ATTRIBUTE high bool")
    await conn.reload_schema_state()
    expect(await conn.fetchval("SELECT goal FROM trips WHERE id = 2"), ("back", None, None))
    await conn.execute("DROP TABLE trips; DROP TYPE place")
    expect(await conn.fetch("SELECT generate_series(0, $1)", 2), [(0,), (1,), (2,)])
    try:
        async with conn.transaction():
            await conn.execute("DELETE FROM t")
            raise KeyError
    except KeyError:
        pass
    expect(await conn.fetchval("SELECT count(*) FROM t"), 101)
    await conn.copy_records_to_table("t", records=[(i, "copied") for i in range(500, 600)], columns=["id", "name"])
    expect(await conn.fetchval("SELECT count(*) FROM t WHERE name = 'copied'"), 100)
    try:
        await conn.fetch("SELECT nosuch FROM t")
        raise AssertionError("no error")
    except asyncpg.UndefinedColumnError:
        pass
    try:
        await conn.fetch("SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b", timeout=0.5)
        raise AssertionError("no timeout")
    except asyncio.TimeoutError:
        pass
    expect(await conn.fetchval("SELECT 1"), 1)
    await conn.close()
    async with asyncpg.create_pool(min_size=2, max_size=4, **CONNECT) as pool:
        found = await asyncio.gather(*(pool.fetchval("SELECT $1::int * 2", i) for i in range(40)))
        expect(found, [2 * i for i in range(40)])
    print(f"asyncpg {asyncpg.__version__}: ok")


asyncio.run(main())
