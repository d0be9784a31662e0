"""SQLAlchemy over psycopg: its questions at connect, reflection, DDL and queries from its own model."""
import os

import sqlalchemy as sa

parts = dict(part.split("=", 1) for part in os.environ["TENON_DSN"].split())
engine = sa.create_engine(f"postgresql+psycopg://{parts['user']}@{parts['host']}:{parts['port']}/{parts['dbname']}")
meta = sa.MetaData()
users = sa.Table("users", meta, sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
                 sa.Column("name", sa.String(20), nullable=False))
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
meta.drop_all(engine)
print(f"SQLAlchemy {sa.__version__}: ok")
