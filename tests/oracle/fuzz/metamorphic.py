"""Random statements against Tenon itself, as SQLancer does (Rigger and Su 2020): answers that must agree with one another
under every way to join and on every device.

- ternary partitioning: the rows of a query are those for which a predicate is true, false and unknown together;
- no-rec: as many rows pass a predicate in WHERE as it is true for in the SELECT list, where nothing can be optimised;
- pivoted rows: a row that is there is found by a predicate that was made true for it;
- settings: a query's rows are the same by every join operator, on the CPU and on the device.
"""
from __future__ import annotations

import random
import time
from collections import Counter

from compare import Client, Lost

from .queries import Generator
from .schema import SQL, table

OPERATORS = ["auto", "ninlj", "inlj", "smj", "hj", "streamed", "triton"]


class Disagreement(Exception):
    pass


class Run:
    def __init__(self, tenon: Client, seed: int, devices: list[str], revive=lambda: None):
        self.tenon, self.seed, self.devices, self.revive = tenon, seed, devices, revive
        self.counts: Counter = Counter()

    def rows(self, text: str) -> list | None:
        """Sorted rows; None where the statement is refused (forced operators cannot run every join) or overflows."""
        answer = self.tenon.run(text)
        if answer.sqlstate:
            if answer.sqlstate in ("XX000", "lost"):
                raise Disagreement(f"{text};\n{answer.message}")
            return None
        return sorted(answer.results[-1][1], key=repr)

    def equal(self, name: str, left: str, right: str):
        one, other = self.rows(left), self.rows(right)
        if one is None or other is None:
            self.counts[f"{name} refused"] += 1
            return
        self.counts[name] += 1
        if one != other:
            raise Disagreement(f"{name}:\n{left};\n-- {len(one)} rows: {one[:6]}\n{right};\n-- {len(other)} rows: {other[:6]}")

    def schema(self, number: int):
        rng = random.Random(f"{self.seed}/{number}")
        tables = [table(rng, name) for name in ["t", "u", "s"][: rng.randint(1, 3)]]
        script = [line for made in tables for line in made.script()]
        self.tenon.run("drop table if exists t, u, s")
        for line in script:
            answer = self.tenon.run(line)
            if answer.sqlstate:
                raise RuntimeError(f"{line}: {answer.message}")
        for _ in range(25):
            operator, device = rng.choice(OPERATORS), rng.choice(self.devices)
            if "gpu" in self.devices and rng.random() < 0.3:
                # Whole parts of queries run there by no other operators.
                operator, device = rng.choice(["auto", "hj"]), "gpu"
            self.tenon.run(f"set tenon.join_operator = '{operator}'")
            self.tenon.run(f"set tenon.device = '{device}'")
            try:
                self.partitions(rng, tables)
                self.pivot(rng, tables)
                self.settings(rng, tables, operator, device)
            except Disagreement as error:
                self.counts["differ"] += 1
                print(f"-- seed {self.seed} schema {number}, {operator} on {device}", *(f"{l};" for l in script), error, "", sep="\n", flush=True)
            except Lost as error:
                self.counts["lost"] += 1
                print(f"-- seed {self.seed} schema {number}: the connection ended: {error}", flush=True)
                self.revive()
                return

    def partitions(self, rng: random.Random, tables):
        generator = Generator(rng, tables)
        source, columns, scope = generator.source(2)
        predicate = generator.expression("bool", columns, scope, 3)
        picked = ", ".join(c.reference for c in columns)
        base = f"select {picked} from {source}"
        parts = [f"{base} where {predicate}", f"{base} where not ({predicate})", f"{base} where ({predicate}) is null"]
        self.equal("partitions", base, " union all ".join(parts))
        self.equal(
            "no-rec", f"select count(*) from {source} where {predicate}",
            f"select coalesce(sum(case when p then 1 else 0 end), 0) from (select ({predicate}) as p from {source} offset 0) z",
        )

    def pivot(self, rng: random.Random, tables):
        filled = [t for t in tables if t.rows]
        if not filled:
            return
        made = rng.choice(filled)
        row = rng.choice(made.rows)
        generator = Generator(rng, tables)
        columns = made.columns
        # The predicate over the row's literals tells which of p, not p and p is null keeps the row.
        generated = generator.expression("bool", [_column(f"r.{n}", t) for n, t in columns], 0, 2)
        literals = ", ".join(f"({value})::{SQL[t]} as {n}" for value, (n, t) in zip(row, columns))
        truth = self.rows(f"select {generated} from (select {literals}) r")
        if truth is None:
            return
        keeps = {b"t": f"({generated})", b"f": f"not ({generated})", None: f"({generated}) is null"}[truth[0][0]]
        same = " and ".join(f"r.{n} is not distinct from ({value})::{SQL[t]}" for value, (n, t) in zip(row, columns))
        found = self.rows(f"select count(*) > 0 from {made.name} r where {keeps} and {same}")
        self.counts["pivot"] += 1
        if found is not None and found != [(b"t",)]:
            raise Disagreement(f"pivot: {made.name} has the row ({', '.join(row)}) but\n{keeps}\ndoes not find it")

    def settings(self, rng: random.Random, tables, operator: str, device: str):
        text = str(Generator(rng, tables).statement())
        forced = self.rows(text)
        self.tenon.run("reset tenon.join_operator")
        self.tenon.run("set tenon.device = 'cpu'")
        free = self.rows(text)
        self.counts["settings"] += 1
        if forced is not None and free is not None and forced != free:
            raise Disagreement(f"settings:\n{text};\n-- forced {len(forced)}: {forced[:6]}\n-- free {len(free)}: {free[:6]}")

    def go(self, first: int, seconds: float, statements: int) -> int:
        begun, number = time.monotonic(), first
        while time.monotonic() - begun < seconds and self.counts.total() < statements:
            self.schema(number)
            number += 1
        print(f"seed {self.seed}, schemas {first} to {number - 1}: {dict(self.counts)}")
        return self.counts["differ"] + self.counts["lost"]


def _column(reference: str, kind: str):
    from .queries import Column

    return Column(reference, kind)
