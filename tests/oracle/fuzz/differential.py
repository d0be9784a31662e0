"""Random statements on PostgreSQL and on Tenon: what differs is cut down and told, with the tables that it needs."""
from __future__ import annotations

import random
import re
import time
from collections import Counter

from compare import Answer, Client, Lost, is_ordered, verdict

from .queries import Generator
from .schema import CONSTANTS, table
from .tree import minimised

STATEMENTS_PER_SCHEMA = 60
# Which rows an expression is evaluated for is the planner's choice, in PostgreSQL too: an overflow or a division by zero may
# show in one of the two alone.
EVALUATION = ("22003", "22012", "22008")
# A run fails by these; what is refused, or has another title, is told. `internal` is XX000: a bug, whatever PostgreSQL says.
WRONG = ("other_result", "other_order", "lost", "internal")


def differs(text: str, postgres: Client, tenon: Client) -> tuple[str, Answer | None, Answer | None]:
    """`same`, `tolerated`, or in what way the two servers' answers differ."""
    try:
        theirs = postgres.run(text)
    except Lost:
        return "tolerated", None, None
    if theirs.sqlstate and not theirs.sqlstate.startswith("22") and theirs.sqlstate != "21000":
        return "invalid", theirs, None
    try:
        ours = tenon.run(text)
    except Lost as error:
        return "lost", theirs, Answer([], "lost", str(error))
    kind = verdict(text, theirs, ours)
    if ours.sqlstate == "XX000":
        return "internal", theirs, ours
    if {theirs.sqlstate, ours.sqlstate} & set(EVALUATION) and kind != "same":
        return "tolerated", theirs, ours
    if kind == "other_result" and bare(theirs, text) == bare(ours, text):
        return "tolerated", theirs, ours  # The length of char(n), which expressions lose: README says so.
    return kind, theirs, ours


def bare(answer: Answer, text: str) -> list:
    """The rows without the blanks at the end of their values."""
    rows = [[v and v.rstrip(b" ") for v in row] for result in answer.ordered(text) if result for row in result[1]]
    return rows if is_ordered(text) else sorted(rows, key=repr)


def signature(kind: str, text: str, ours: Answer | None) -> str:
    """What makes two differences one: the error, or the shape of the statement."""
    if ours is not None and ours.sqlstate:
        return kind + re.sub(r"[\"'(].*", "", ours.message)[:90]
    return kind + re.sub(r"\b[a-z]\d+_\d+\b|'[^']*'|\d+", "?", text)[:160]


class Run:
    def __init__(self, postgres: Client, tenon: Client, seed: int, shown, revive=lambda: None):
        self.postgres, self.tenon, self.seed, self.shown, self.revive = postgres, tenon, seed, shown, revive
        self.counts: Counter = Counter()
        self.known: Counter = Counter()

    def schema(self, number: int):
        """Fresh tables on both, and statements over them. The seed and the number alone decide them."""
        rng = random.Random(f"{self.seed}/{number}")
        tables = [table(rng, name) for name in ["t", "u", "s"][: rng.randint(1, 3)]]
        script = [line for made in tables for line in made.script()]
        for client in (self.postgres, self.tenon):
            client.run("drop table if exists t, u, s")
            for line in script:
                answer = client.run(line)
                if answer.sqlstate:
                    raise RuntimeError(f"{line}: {answer.message}")
        for _ in range(STATEMENTS_PER_SCHEMA):
            statement = Generator(rng, tables).statement()
            kind, theirs, ours = differs(str(statement), self.postgres, self.tenon)
            self.counts[kind] += 1
            if kind == "lost":
                self.revive()
                for line in script:
                    self.tenon.run(line)
            if kind in ("same", "tolerated", "invalid"):
                continue
            mark = signature(kind, str(statement), ours)
            self.known[mark] += 1
            if self.known[mark] > 2:
                continue
            small = statement
            if kind != "lost":
                fails = lambda text: differs(text, self.postgres, self.tenon)[0] == kind
                small = minimised(statement, CONSTANTS, fails)
                _, theirs, ours = differs(str(small), self.postgres, self.tenon)
            used = [line for line in script if re.search(rf"\b{line.split()[2].split('(')[0]}\b", str(small))]
            print(f"-- seed {self.seed} schema {number}: {kind}", *(f"{line};" for line in used), f"{small};", sep="\n")
            print(f" postgres:\n{self.shown(theirs)}\n tenon:\n{self.shown(ours)}\n", flush=True)

    def go(self, first: int, seconds: float, statements: int) -> int:
        begun, number = time.monotonic(), first
        while time.monotonic() - begun < seconds and self.counts.total() < statements:
            self.schema(number)
            number += 1
        print(f"seed {self.seed}, schemas {first} to {number - 1}: {dict(self.counts)}")
        return sum(self.counts[kind] for kind in WRONG)
