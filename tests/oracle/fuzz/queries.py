"""Random SELECTs over random tables: every clause combined, names that collide, results that have one right answer.

Where an order decides the rows (LIMIT, row_number, lag), it is made total over the row; floats are sums of halves and so exact.
"""
from __future__ import annotations

import random
from dataclasses import dataclass

from .schema import INTEGERS, NUMBERS, SQL, Table, literal
from .tree import Listed, Node


@dataclass
class Column:
    reference: str
    type: str


class Generator:
    def __init__(self, rng: random.Random, tables: list[Table], depth: int = 3):
        self.rng, self.tables, self.depth = rng, tables, depth
        self.scopes = 0
        self.ctes: list[tuple[str, list[tuple[str, str]]]] = []

    # ---- expressions

    def expression(self, kind: str, columns: list[Column], scope: int, depth: int) -> Node:
        rng = self.rng
        made = lambda *parts: Node("expr", kind, list(parts), scope=scope)
        sub = lambda k, d=depth - 1: self.expression(k, columns, scope, d)
        own = [c for c in columns if c.type == kind]
        if own and (depth <= 0 or rng.random() < 0.45):
            return made(rng.choice(own).reference)
        if depth <= 0 or rng.random() < 0.15:
            if rng.random() < 0.08:
                return made(f"null::{SQL[kind]}")
            return made(literal(rng, kind))
        choices = [
            lambda: made("case when ", sub("bool"), " then ", sub(kind), " else ", sub(kind), " end"),
            lambda: made("coalesce(", sub(kind), ", ", sub(kind), ")"),
            lambda: made("nullif(", sub(kind), ", ", sub(kind), ")"),
            lambda: made(rng.choice(["greatest(", "least("]), sub(kind), ", ", sub(kind), ")"),
        ]
        if kind == "bool":
            choices = self.conditions(columns, scope, depth, made, sub) + choices[:1]
        elif kind in INTEGERS:
            cast = f"::{SQL[kind]}"
            choices += [
                lambda: made("(", sub(kind), rng.choice([" + ", " - ", " * "]), sub(kind), ")", cast),
                lambda: made("(", sub(kind), rng.choice([" / ", " % "]), "nullif(", sub(kind), ", 0))", cast),
                lambda: made("abs(", sub(kind), ")"),
                lambda: made("(- ", sub(kind), ")", cast),
                lambda: made("length(", sub("text"), ")", cast),
                lambda: made("(", sub(rng.choice(["num", "float"])), ")", cast),
                lambda: made("extract(", rng.choice(["year", "month", "day"]), " from ", sub("date"), ")", cast),
            ]
        elif kind == "num":
            choices += [
                lambda: made("(", sub(kind), rng.choice([" + ", " - "]), sub(kind), ")::numeric(8,2)"),
                lambda: made("round(", sub(kind), ", 1)::numeric(8,2)"),
                lambda: made("(", sub("int2"), ")::numeric(8,2)"),
            ]
        elif kind == "float":
            choices += [
                lambda: made("(", sub(kind), rng.choice([" + ", " - "]), sub(kind), ")"),
                lambda: made("(", sub("int2"), ")::float8"),
            ]
        elif kind == "text":
            choices += [
                lambda: made("(", sub(kind), " || ", sub(rng.choice(["text", "text", "int", "char", "bool"])), ")"),
                lambda: made(rng.choice(["upper(", "lower(", "reverse(", "trim("]), sub(kind), ")"),
                lambda: made("substr(", sub(kind), ", 1, 2)"),
                lambda: made("(", sub(rng.choice(["int", "bool", "date", "num", "char"])), ")::text"),
                lambda: made("left(", sub(kind), ", ", str(rng.choice([1, 2, -1])), ")"),
            ]
        elif kind == "char":
            choices += [lambda: made("(", sub("text"), ")::char(4)")]
        elif kind == "date":
            choices += [lambda: made("(", sub("date"), " + ", literal(rng, "int"), ")"), lambda: made("(", sub("ts"), ")::date")]
        elif kind == "ts":
            choices += [
                lambda: made("(", sub("ts"), rng.choice([" + ", " - "]), sub("iv"), ")"),
                lambda: made("date_trunc('", rng.choice(["day", "month", "hour", "week"]), "', ", sub("ts"), ")"),
                lambda: made("(", sub("date"), ")::timestamp"),
            ]
        elif kind == "iv":
            choices += [lambda: made("(", sub("ts"), " - ", sub("ts"), ")"), lambda: made("(", sub("iv"), " + ", sub("iv"), ")")]
        if depth >= 2 and rng.random() < 0.12:
            return self.scalar_subquery(kind, columns, scope)
        return rng.choice(choices)()

    def conditions(self, columns, scope, depth, made, sub):
        rng = self.rng
        kind = rng.choice([c.type for c in columns] or ["int"])
        compare = [" = ", " = ", " <> ", " < ", " <= ", " > ", " >= ", " is distinct from ", " is not distinct from "]
        choices = [
            lambda: made("(", sub(kind), rng.choice(compare), sub(kind), ")"),
            lambda: made("(", sub(kind), rng.choice(compare), sub(kind), ")"),
            lambda: made("(", sub("bool"), rng.choice([" and ", " or "]), sub("bool"), ")"),
            lambda: made("(not ", sub("bool"), ")"),
            lambda: made("(", sub(kind), rng.choice([" is null", " is not null"]), ")"),
            lambda: made("(", sub(kind), rng.choice([" in (", " not in ("]), sub(kind), ", ", sub(kind, 0), "))"),
            lambda: made("(", sub(kind), rng.choice([" between ", " not between "]), sub(kind), " and ", sub(kind), ")"),
            lambda: made("(", sub("bool"), rng.choice([" is true", " is not true", " is false", " is unknown"]), ")"),
            lambda: made("(", sub("text"), rng.choice([" like ", " not like ", " ilike "]), rng.choice(["'a%'", "'%b%'", "'_'", "'%'"]), ")"),
        ]
        if depth >= 2 and rng.random() < 0.35:
            choices = [
                lambda: self.exists(columns, scope),
                lambda: self.in_subquery(columns, scope, kind, sub),
                lambda: self.quantified(scope, kind, sub, columns),
            ]
        return choices

    def scalar_subquery(self, kind: str, outer: list[Column], scope: int) -> Node:
        inner, columns, number = self.source(1)
        call = self.aggregate(kind, columns, number)
        where = self.where(columns + (outer if self.rng.random() < 0.5 else []), number, 1)
        return Node("expr", kind, ["(select ", call, " from ", inner, where, ")"], scope=scope)

    def exists(self, outer: list[Column], scope: int) -> Node:
        inner, columns, number = self.source(1)
        where = self.where(columns + (outer if self.rng.random() < 0.7 else []), number, 1, always=True)
        prefix = self.rng.choice(["exists (select ", "not exists (select "])
        return Node("expr", "bool", ["(", prefix, self.rng.choice(["1", "*"]), " from ", inner, where, "))"], scope=scope)

    def in_subquery(self, outer, scope, kind, sub) -> Node:
        inner, columns, number = self.source(1)
        value = self.expression(kind, columns, number, 1)
        where = self.where(columns + (outer if self.rng.random() < 0.4 else []), number, 1)
        word = self.rng.choice([" in (select ", " not in (select "])
        return Node("expr", "bool", ["(", sub(kind, 1), word, value, " from ", inner, where, "))"], scope=scope)

    def quantified(self, scope, kind, sub, outer) -> Node:
        inner, columns, number = self.source(1)
        value = self.expression(kind, columns, number, 1)
        word = self.rng.choice([" = any (select ", " <> all (select ", " < any (select ", " >= all (select "])
        where = self.where(columns, number, 1)
        return Node("expr", "bool", ["(", sub(kind, 1), word, value, " from ", inner, where, "))"], scope=scope)

    def aggregate(self, kind: str, columns: list[Column], scope: int, windowed: bool = False) -> Node:
        rng = self.rng
        sub = lambda k: self.expression(k, columns, scope, 1)
        made = lambda *parts: Node("aggregate", kind, list(parts), scope=scope)
        distinct = "" if windowed else rng.choice(["", "", "", "distinct "])
        guard = [" filter (where ", sub("bool"), ")"] if rng.random() < 0.15 else []
        if kind == "bool":
            return made(rng.choice(["bool_and(", "bool_or("]), sub("bool"), ")", *guard)
        if kind == "int8" and rng.random() < 0.6:
            return rng.choice([
                lambda: made("count(*)", *guard), lambda: made("count(", distinct, sub(rng.choice(["int", "text", "num"])), ")", *guard),
                lambda: made("sum(", distinct, sub("int2"), ")", *guard),
            ])()
        if kind == "text" and not windowed and rng.random() < 0.4:
            value = sub("text")
            return made("string_agg(", value, ", ',' order by ", value, ")", *guard)
        if kind == "float" and rng.random() < 0.3:
            return made("sum(", sub("float"), ")", *guard)
        if kind == "num" and rng.random() < 0.4:
            return made("sum(", distinct, sub("num"), ")::numeric(8,2)" if not guard and not windowed else ")", *guard)
        return made(rng.choice(["min(", "max("]), sub(kind), ")", *guard) if kind != "bool" else made("bool_or(", sub("bool"), ")")

    # ---- FROM

    def source(self, depth: int) -> tuple[Node, list[Column], int]:
        """What stands in FROM, and its columns; references are qualified, as names collide."""
        rng = self.rng
        self.scopes += 1
        number = self.scopes
        count = rng.choice([1, 1, 2, 2, 3]) if depth > 1 else rng.choice([1, 1, 1, 2])
        node, columns = self.relation(depth, number, 0)
        for i in range(1, count):
            if rng.random() < 0.15:
                node, fresh = self.lateral(node, columns, number, i)
                columns = columns + fresh
                continue
            right, fresh = self.relation(depth, number, i)
            kind = rng.choice([" join ", " join ", " left join ", " right join ", " full join ", " cross join ", ", "])
            if kind in (" cross join ", ", "):
                parts = [node, " cross join ", right] if kind != ", " or i > 1 else [node, ", ", right]
                if kind == ", " and i == 1 and count > 2:
                    parts = [node, " cross join ", right]
                node = Node("from", None, parts)
            else:
                node = Node("from", None, [node, kind, right, " on ", self.join_condition(kind, columns, fresh, number)])
            columns = columns + fresh
        return node, columns, number

    def lateral(self, left: Node, columns: list[Column], scope: int, position: int) -> tuple[Node, list[Column]]:
        """A join with a subquery over the columns before it, some of whose names they have too."""
        rng = self.rng
        alias = f"{rng.choice('pqr')}{scope}_{position}"
        source, seen, where = "", columns, ""
        if rng.random() < 0.5:
            inner, own, number = self.source(1)
            source, seen = Node("from", None, [" from ", inner]), columns + own
            where = self.where(seen, number, 1)
        names = rng.sample("abckv", rng.choice([1, 1, 2]))
        types = [rng.choice([c.type for c in columns if c.type != "iv"] + ["int"]) for _ in names]
        items = [Node("item", None, [self.expression(t, seen, scope, 1), f" as {n}"]) for n, t in zip(names, types)]
        outputs = Listed("list", None, items, least=len(items))
        word, end = rng.choice([(" cross join lateral (", ""), (", lateral (", ""), (" left join lateral (", " on true")])
        if " join " in str(left) and word.startswith(","):
            word = " cross join lateral ("
        node = Node("from", None, [left, word, "select ", outputs, source, where, f") {alias}{end}"])
        return node, [Column(f"{alias}.{n}", t) for n, t in zip(names, types)]

    def join_condition(self, kind: str, left: list[Column], right: list[Column], scope: int) -> Node:
        rng = self.rng
        pairs = [(a, b) for a in left for b in right if a.type == b.type or (a.type in INTEGERS and b.type in INTEGERS)]
        parts = []
        if pairs:
            a, b = rng.choice(pairs)
            op = "=" if kind == " full join " or rng.random() < 0.8 else rng.choice(["<", "<=", "<>", ">"])
            parts.append(Node("expr", "bool", [f"{a.reference} {op} {b.reference}"], scope=scope))
        elif kind == " full join ":
            return Node("expr", "bool", ["true"], scope=scope)
        if kind != " full join " and (not parts or rng.random() < 0.3):
            parts.append(self.expression("bool", left + right, scope, 1))
        return Listed("and", "bool", parts, scope=scope, separator=" and ")

    def relation(self, depth: int, scope: int, position: int) -> tuple[Node, list[Column]]:
        rng = self.rng
        alias = f"{rng.choice('pqr')}{scope}_{position}"
        roll = rng.random()
        if depth > 1 and roll < 0.18:
            query, outputs = self.query(depth - 1)
            names = self.renamed(outputs)
            node = Node("from", None, ["(", query, f") {alias}({', '.join(n for n, _ in names)})"])
            return node, [Column(f"{alias}.{n}", t) for n, t in names]
        if self.ctes and roll < 0.3:
            name, outputs = rng.choice(self.ctes)
            return Node("from", None, [f"{name} {alias}"]), [Column(f"{alias}.{n}", t) for n, t in outputs]
        if roll < 0.36:
            rows = Listed("values", None, [Node("row", None, [f"({literal(rng, 'int')}, {literal(rng, 'text')})"]) for _ in range(3)])
            return Node("from", None, ["(values ", rows, f") {alias}(a, b)"]), [Column(f"{alias}.a", "int"), Column(f"{alias}.b", "text")]
        if roll < 0.4:
            return Node("from", None, [f"generate_series(1, {rng.choice([0, 2, 4])}) {alias}(k)"]), [Column(f"{alias}.k", "int")]
        table = rng.choice(self.tables)
        return Node("from", None, [f"{table.name} {alias}"]), [Column(f"{alias}.{n}", t) for n, t in table.columns]

    def renamed(self, outputs: list[str]) -> list[tuple[str, str]]:
        names = self.rng.sample(["a", "b", "c", "k", "v", "w", "x", "y"], len(outputs))
        return list(zip(names, outputs))

    def where(self, columns: list[Column], scope: int, depth: int, always: bool = False) -> Node:
        if not always and self.rng.random() < 0.4:
            return Node("where", None, [""])
        return Node("where", None, [" where ", self.expression("bool", columns, scope, depth)], optional=True, scope=scope)

    # ---- queries

    def query(self, depth: int, fixed: list[str] | None = None) -> tuple[Node, list[str]]:
        """A query and the types of its columns."""
        rng = self.rng
        if depth > 1 and rng.random() < 0.15:
            left, types = self.select(depth - 1, fixed, ordered=False)
            right, _ = self.select(depth - 1, types)
            word = rng.choice([" union ", " union all ", " intersect ", " except ", " intersect all ", " except all "])
            if rng.random() < 0.2:
                third, _ = self.select(1, types)
                return Node("query", None, ["(", left, word, right, ")", rng.choice([" union ", " except "]), third]), types
            return Node("query", None, [left, word, right]), types
        return self.select(depth, fixed)

    def select(self, depth: int, fixed: list[str] | None, ordered: bool = True) -> tuple[Node, list[str]]:
        rng = self.rng
        source, columns, scope = self.source(depth)
        # Intervals that are equal may look different ('24 hours', '1 day'): they are compared, not shown.
        shown = [c.type for c in columns if c.type != "iv"] + ["int", "int8", "text"]
        types = fixed or [rng.choice(shown) for _ in range(rng.randint(1, 4))]
        where = self.where(columns, scope, 2)
        roll = rng.random()
        alike = self.alike(columns, roll < 0.33) if fixed is None and rng.random() < 0.3 else []
        if roll < 0.33:
            query = self.grouped(types, source, columns, scope, where, alike)
            return query, types + [node.type for node in alike]
        items, order, distinct = [], "", ""
        window = not fixed and roll < 0.45
        for kind in types:
            # Two orders leave it open which of two equal rows is which.
            windowed = window and rng.random() < 0.5
            items.append(self.window(kind, columns, scope) if windowed else self.expression(kind, columns, scope, 2))
            window = window and not windowed
        items += alike
        types = types + [node.type for node in alike]
        if roll > 0.9:
            distinct = "distinct "
        if ordered and fixed is None and rng.random() < 0.3:
            order = self.order(len(types))
        listed = [Node("item", None, [e, self.alias()]) for e in items]
        star = self.star(columns) if fixed is None and not order and rng.random() < 0.2 else None
        if star and len(star[1]) + len(types) <= 8:
            at = rng.randint(0, len(listed))
            listed.insert(at, Node("item", None, [star[0]]))
            types = types[:at] + star[1] + types[at:]
        outputs = Listed("list", None, listed, least=len(listed))
        return Node("query", None, ["select ", distinct, outputs, " from ", source, where, order]), types

    def alike(self, columns: list[Column], grouped: bool) -> list[Node]:
        """Aggregates or window functions that differ in a cast, or in whether a column says its relation, alone."""
        rng = self.rng
        names = [c.reference.split(".")[1] for c in columns]
        known = [c for c in columns if c.type in INTEGERS and names.count(c.reference.split(".")[1]) == 1]
        if not known:
            return []
        column, key = rng.choice(known), rng.choice(known)
        spelt = lambda c, casts: rng.choice([c.reference, c.reference.split(".")[1]]) + rng.choice(casts)
        casts = ["", "", "::bigint", "::text", "::numeric"]
        # Debug builds of the planner assert that windows that share an order spell it alike, beside computed arguments.
        of_key = not grouped and rng.random() < 0.5
        out = []
        for _ in range(rng.choice([2, 3])):
            call = f"count({'distinct ' if grouped else ''}{spelt(column, casts[:1] if of_key else casts)})"
            if not grouped:
                call += f" over (partition by {spelt(key, casts if of_key else casts[:1])})"
            elif rng.random() < 0.3:
                call += f" filter (where {spelt(key, casts[:3])} > 0)"
            out.append(Node("expr", "int8", [call]))
        return out

    def star(self, columns: list[Column]) -> tuple[str, list[str]] | None:
        """All columns, or all of one relation, with their types."""
        relations = {c.reference.split(".")[0] for c in columns}
        relation = self.rng.choice([None, *sorted(relations)])
        own = [c.type for c in columns if relation is None or c.reference.startswith(f"{relation}.")]
        if not own or "iv" in own:
            return None
        return "*" if relation is None else f"{relation}.*", own

    def alias(self) -> str:
        return f" as {self.rng.choice('abckv')}" if self.rng.random() < 0.4 else ""

    def order(self, count: int) -> Node:
        rng = self.rng
        keys = rng.sample(range(1, count + 1), count)
        parts = [f"{k}{rng.choice(['', ' desc', ' nulls first', ' desc nulls last'])}" for k in keys]
        text = " order by " + ", ".join(parts)
        if rng.random() < 0.5:
            text += f" limit {rng.choice([0, 1, 2, 5])}" + rng.choice(["", " offset 1"])
        return Node("order", None, [text], optional=True)

    def window(self, kind: str, columns: list[Column], scope: int) -> Node:
        """A window function whose result does not depend on the order of equal rows: the order is over all columns."""
        rng = self.rng
        part = f"partition by {rng.choice(columns).reference} " if rng.random() < 0.6 else ""
        total = ", ".join(c.reference + rng.choice(["", " desc"]) for c in columns)
        frame = rng.choice(["", "", " rows between 1 preceding and current row", " rows between unbounded preceding and 1 following"])
        if kind == "int8" and rng.random() < 0.5:
            call = Node("expr", kind, [rng.choice(["row_number()", "rank()", "dense_rank()"])])
            return Node("window", kind, [call, f" over ({part}order by {total})"], scope=scope)
        if rng.random() < 0.4:
            value = self.expression(kind, columns, scope, 1)
            name = rng.choice(["lag(", "lead(", "first_value("])
            return Node("window", kind, [name, value, f") over ({part}order by {total})"], scope=scope)
        call = self.aggregate(kind, columns, scope, windowed=True)
        return Node("window", kind, [call, f" over ({part}order by {total}{frame})"], scope=scope)

    def grouped(self, types, source, columns, scope, where, alike=()) -> Node:
        rng = self.rng
        keys = [self.expression(rng.choice(types), columns, scope, rng.choice([0, 0, 1])) for _ in range(rng.choice([0, 1, 1, 2]))]
        # A constant among the keys would read as a position or as an untyped value.
        keys = [key for key in keys if any(c.reference in str(key) for c in columns)]
        items = []
        for kind in types:
            same = [key for key in keys if key.type == kind]
            items.append(rng.choice(same) if same and rng.random() < 0.6 else self.aggregate(kind, columns, scope))
        items += alike
        group = ""
        if keys:
            texts = [f"({key})" for key in keys]
            form = rng.random()
            listed = ", ".join(texts)
            if form < 0.7:
                group = f" group by {listed}"
            else:
                word = rng.choice(["rollup", "cube"])
                group = f" group by {word}({listed})" if form < 0.9 else f" group by grouping sets (({listed}), ())"
            group = Node("group", None, [group])
        having = ""
        if keys and rng.random() < 0.25:
            having = Node("having", None, [" having ", self.aggregate("bool", columns, scope)], optional=True, scope=scope)
        outputs = Listed("list", None, [Node("item", None, [e, self.alias()]) for e in items], least=len(items))
        return Node("query", None, ["select ", outputs, " from ", source, where, group, having])

    def statement(self) -> Node:
        """A whole statement, sometimes with common table expressions."""
        rng = self.rng
        self.ctes, parts = [], []
        for i in range(rng.choice([0, 0, 0, 1, 2])):
            query, types = self.query(2)
            names = self.renamed(types)
            hint = rng.choice(["", "", "materialized ", "not materialized "])
            parts.append(Node("cte", None, [f"w{i}({', '.join(n for n, _ in names)}) as {hint}(", query, ")"]))
            self.ctes.append((f"w{i}", names))
        query, types = self.query(self.depth)
        if rng.random() < 0.3 and not str(query).endswith(("limit 0", "offset 1")) and " limit " not in str(query)[-14:]:
            query = Node("query", None, ["select * from (", query, ") z", self.order(len(types))])
        return Node("statement", None, ["with " if parts else "", Listed("ctes", None, parts, least=len(parts)), " " if parts else "", query])
