"""Random tables whose names, types and values collide: few column names, few values, nulls, duplicates, empty tables."""
from __future__ import annotations

import random
from dataclasses import dataclass

NAMES = ["a", "b", "c", "k", "v"]
SQL = {
    "int2": "smallint", "int": "integer", "int8": "bigint", "num": "numeric(8,2)", "float": "double precision", "text": "text",
    "char": "char(4)", "bool": "boolean", "date": "date", "ts": "timestamp", "iv": "interval",
}
# How often a column has this type.
WEIGHTS = {"int": 8, "int8": 3, "int2": 1, "num": 3, "float": 2, "text": 4, "char": 1, "bool": 2, "date": 2, "ts": 1, "iv": 1}
INTEGERS = ("int2", "int", "int8")
NUMBERS = (*INTEGERS, "num", "float")


@dataclass
class Table:
    name: str
    columns: list[tuple[str, str]]  # (name, type)
    rows: list[list[str]]  # of literals
    key: str | None = None

    def script(self) -> list[str]:
        columns = ", ".join(f"{name} {SQL[kind]}" + " primary key" * (name == self.key) for name, kind in self.columns)
        lines = [f"create table {self.name}({columns})"]
        if self.rows:
            lines.append(f"insert into {self.name} values " + ", ".join(f"({', '.join(row)})" for row in self.rows))
        return lines


def literal(rng: random.Random, kind: str, extremes: bool = False) -> str:
    x = rng.choice([0, 1, 1, 2, 2, 3, 5, 7, -1])
    if extremes and rng.random() < 0.1:
        if kind in ("int", "int2", "int8"):
            bits = {"int2": 16, "int": 32, "int8": 64}[kind]
            return rng.choice([f"{2 ** (bits - 1) - 1}", f"(-{2 ** (bits - 1) - 1})"])
        if kind == "text":
            return rng.choice(["''", "' '", "'%'", "'☃'", "'A'", "'a b'"])
    return {
        "int2": f"{x}::smallint", "int": f"{x}", "int8": f"{x}::bigint", "num": f"{x}.{rng.choice(['00', '25', '50'])}",
        "float": f"{x}.{rng.choice(['0', '5', '25'])}::float8", "text": f"'{rng.choice(['a', 'b', 'ab', 'B', '', 'ba', 'x1'])}'",
        "char": f"'{rng.choice(['a', 'b', 'ab', 'a ', ''])}'::char(4)", "bool": rng.choice(["true", "false"]),
        "date": f"date '2024-0{rng.choice([1, 2, 3])}-{rng.choice(['01', '28', '15'])}'",
        "ts": f"timestamp '2024-01-{rng.choice(['01', '02', '31'])} {rng.choice(['00:00:00', '12:30:45', '23:59:59.5'])}'",
        "iv": f"interval '{rng.choice(['1 day', '24 hours', '1 month', '30 days', '-1 day', '00:00:01'])}'",
    }[kind]


CONSTANTS = {kind: [literal(random.Random(3), kind)] for kind in SQL} | {"bool": ["true", "null::boolean"], "int": ["1"]}


def table(rng: random.Random, name: str) -> Table:
    names = rng.sample(NAMES, rng.randint(1, 4))
    kinds = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=len(names))
    if all(kind not in INTEGERS for kind in kinds):
        kinds[0] = "int"
    nulls = rng.choice([0, 0.1, 0.4])
    extremes = rng.random() < 0.3
    count = rng.choice([0, 1, 3, 8, 8, 25])
    rows = [["null" if rng.random() < nulls else literal(rng, kind, extremes) for kind in kinds] for _ in range(count)]
    made = Table(name, list(zip(names, kinds)), rows)
    # Rows that lie in the order of a column, as those of most tables do.
    if rng.random() < 0.5:
        at = next(at for at, kind in enumerate(kinds) if kind in INTEGERS)
        repeated = rng.choice([1, 1, 2, 4])
        for number, row in enumerate(rows):
            row[at] = f"{number // repeated}::{SQL[kinds[at]]}"
        if repeated == 1 and rng.random() < 0.5:
            made.key = names[at]
    return made
