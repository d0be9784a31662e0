"""SQLAlchemy over psycopg: its questions at connect, reflection, DDL and queries from its own model."""
import os

import sqlalchemy as sa

parts = dict(part.split("=", 1) for part in os.environ["TENON_DSN"].split())
engine = sa.create_engine(f"postgresql+psycopg://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}")
meta = sa.MetaData()
users = sa.Table("users", meta, sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
                 sa.Column("name", sa.String(20), nullable=False), sa.Column("kind", sa.String(9), server_default="x"))
pairs = sa.Table("pairs", meta, sa.Column("b", sa.Integer, primary_key=True, autoincrement=False),
                 sa.Column("a", sa.BigInteger, primary_key=True, autoincrement=False))
orders = sa.Table("orders", meta, sa.Column("id", sa.Integer), sa.Column("user_id", sa.Integer),
                  sa.Column("total", sa.Numeric(10, 2)), sa.Column("at", sa.DateTime))
meta.create_all(engine)
with engine.begin() as conn:
    conn.execute(users.insert(), [{"id": i, "name": f"user {i}"} for i in range(1, 6)])
    conn.execute(orders.insert(), [{"id": i, "user_id": i % 5 + 1, "total": i * 10, "at": None} for i in range(20)])
with engine.connect() as conn:
    query = (sa.select(users.c.name, sa.func.sum(orders.c.total)).join(orders, orders.c.user_id == users.c.id)
             .group_by(users.c.name).order_by(users.c.name).limit(2))
    rows = [(name, float(total)) for name, total in conn.execute(query)]
    assert rows == [("user 1", 300.0), ("user 2", 340.0)], rows
inspector = sa.inspect(engine)
assert {"users", "orders"} <= set(inspector.get_table_names()), inspector.get_table_names()
assert inspector.has_table("users") and not inspector.has_table("nosuch")
assert inspector.get_schema_names() == ["information_schema", "public"], inspector.get_schema_names()
assert inspector.get_view_names() == [] and inspector.get_sequence_names() == []
columns = [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in inspector.get_columns("users")]
assert columns == [("id", "INTEGER", False, None), ("name", "VARCHAR(20)", False, None),
                   ("kind", "VARCHAR(9)", True, "'x'::character varying")], columns
key = inspector.get_pk_constraint("pairs")
assert (key["name"], key["constrained_columns"]) == ("pairs_pkey", ["b", "a"]), key
for table in ("users", "pairs", "orders"):
    for ask in ("get_indexes", "get_foreign_keys", "get_unique_constraints", "get_check_constraints"):
        assert getattr(inspector, ask)(table) == [], (table, ask)
    assert inspector.get_table_comment(table) == {"text": None}
reflected = sa.MetaData()
reflected.reflect(engine)
assert set(reflected.tables) == set(meta.tables), set(reflected.tables)
for name, table in meta.tables.items():
    found = reflected.tables[name]
    assert [c.name for c in found.columns] == [c.name for c in table.columns], name
    assert [c.name for c in found.primary_key] == [c.name for c in table.primary_key], name
with engine.connect() as conn:
    assert conn.execute(sa.select(sa.func.count()).select_from(reflected.tables["orders"])).scalar() == 20
meta.drop_all(engine)
print(f"SQLAlchemy {sa.__version__}: ok")
