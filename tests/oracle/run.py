#!/usr/bin/env python3
"""Runs SQL statement by statement on PostgreSQL 15 and on Tenon and tells the differences.

    run.py sql FILE...              each file in a database of its own; prints every difference
    run.py regress [NAME...]        files of PostgreSQL's own regression suite (.deps/regress, or TENON_REGRESS);
                                    prints a tally by file, and every difference with --verbose or for files named
    run.py regress --check          fails where a file's tally is below tests/oracle/tally.tsv
    run.py regress --update         writes that file
    run.py fuzz                     random statements on both; those that differ are cut down and printed; fails where an
                                    answer is wrong
    run.py self                     random statements on Tenon that must agree with one another by every way to join
                                    (--seed, --first, --seconds, --statements; a seed and a schema's number repeat a run)

PostgreSQL is started for the run, or, with TENON_ORACLE_PORT, the one at that port is used. TENON_TEST_BINARY names the
server under test. Statements whose answers are a plan (EXPLAIN) are run and not compared.
"""
import argparse
import concurrent.futures
import os
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from compare import Client, Lost, verdict  # noqa: E402
from fuzz import differential, metamorphic  # noqa: E402
from servers import ROOT, Postgres, Tenon  # noqa: E402
from statements import Script, Statement  # noqa: E402

REGRESS = Path(os.environ.get("TENON_REGRESS", ROOT / ".deps/regress"))
TALLY = Path(__file__).parent / "tally.tsv"
# The files whose subject Tenon has: queries, types, functions, tables, transactions. The others are about extensions of the
# server, its plans, its privileges, or what README lists as not supported.
FILES = """
boolean char name varchar text int2 int4 int8 float4 float8 bit numeric uuid enum oid inet macaddr macaddr8 rangetypes multirangetypes
strings numerology date time timetz timestamp timestamptz interval horology regex comments expressions unicode
copy copyselect copydml insert insert_conflict create_table create_type create_schema create_view create_index
create_misc select_into select_distinct select_distinct_on select_implicit select_having select subselect union case
join aggregates transactions random portals arrays update delete namespace drop_if_exists tablesample groupingsets
identity generated join_hash create_table_like misc_functions tsrf incremental_sort window limit
json jsonb jsonpath jsonb_jsonpath json_encoding plancache temp domain rangefuncs prepare conversion truncate
alter_table sequence rowtypes returning with merge errors create_function_sql constraints updatable_views
matview btree_index functional_deps equivclass tuplesort explain copy2 xmlmap hash_func dbsize guc
""".split()
GROUPS = """
select join subselect union with window aggregates groupingsets int2 int4 int8 float4 float8 numeric text strings date time
timestamp timestamptz interval
""".split()
PLANS = re.compile(r"^\s*(explain\b|select\s.*explain_|create\s.*function\s+explain_)", re.IGNORECASE)
KINDS = ["same", "other_result", "other_order", "other_titles", "accepted", "refused", "other_sqlstate", "lost"]


class Both:
    """One session on each server."""

    def __init__(self, postgres_dsn: str, tenon: Tenon):
        self.tenon = tenon
        self.clients = [Client(postgres_dsn), Client(tenon.dsn())]
        self.variables: dict[str, str] = {}

    def close(self):
        for client in self.clients:
            client.close()

    def run(self, statement: Statement):
        theirs, ours, lost = None, None, None
        try:
            theirs = self.clients[0].run(statement.text, statement.copy_data)
        except Lost as error:
            return "skipped", str(error), None
        try:
            ours = self.clients[1].run(statement.text, statement.copy_data)
        except Lost as error:
            lost = str(error)
            # One that only took too long was cancelled, and what the session has stays.
            if self.clients[1].connection is None:
                lost = "the server died" if self.tenon.revive() else lost
                self.clients[1].dsn = self.tenon.dsn()
        if statement.gset is not None and theirs and theirs.results and theirs.results[-1]:
            titles, rows = theirs.results[-1]
            for title, value in zip(titles, rows[0] if rows else ()):
                self.variables[statement.gset + title] = (value or b"").decode(errors="replace")
        return ("lost", theirs, lost) if lost else (verdict(statement.text, theirs, ours), theirs, ours)


def shown(answer) -> str:
    if not hasattr(answer, "results"):
        return f"  {answer}"
    lines = []
    for result in answer.results:
        if result is not None:
            titles, rows = result
            lines.append("  " + " | ".join(titles))
            for row in rows[:12]:
                lines.append("    " + " | ".join("NULL" if v is None else v.decode(errors="replace") for v in row))
            if len(rows) > 12:
                lines.append(f"    ... {len(rows)} rows")
    if answer.sqlstate:
        lines.append(f"  {answer.sqlstate} {answer.message.strip()}")
    return "\n".join(lines) or "  (done)"


def run_file(path: Path, postgres_dsn: str, tenon: Tenon, setup: Path | None, env: dict[str, str]):
    """(counts, report) of one file."""
    if setup is not None:
        client = Client(tenon.dsn())
        for statement in Script(setup.read_text(), env):
            try:
                client.run(statement.text, statement.copy_data)
            except Lost:
                break
        client.close()
    both, counts, report = Both(postgres_dsn, tenon), Counter(), []
    script = Script(path.read_text(errors="replace"), env, both.variables)
    for statement in script:
        kind, theirs, ours = both.run(statement)
        if kind == "skipped" or (PLANS.match(statement.text) and kind != "lost"):
            continue
        counts[kind] += 1
        if kind != "same":
            report.append(
                f"-- {path.name}:{statement.line} {kind}\n{statement.text[:1500]};\n"
                f" postgres:\n{shown(theirs)}\n tenon:\n{shown(ours)}\n"
            )
    both.close()
    return counts, report


def databases(postgres: Postgres, names, setup: Path | None, env):
    """A database for each name, with the setup script's tables."""
    admin = Client(postgres.dsn())
    prefix = f"oracle_{os.getpid()}"
    template = "template0"
    if setup is not None:
        template = f"{prefix}_setup"
        admin.run(f"create database {template} template template0")
        client = Client(postgres.dsn(template))
        for statement in Script(setup.read_text(), env):
            client.run(statement.text, statement.copy_data)
        client.close()
    made = {}
    for name in names:
        made[name] = f"{prefix}_{name}"
        admin.run(f'drop database if exists "{made[name]}"')
        admin.run(f'create database "{made[name]}" template {template}')
    admin.close()
    return made, [*made.values(), *([template] if setup else [])]


def run_files(paths: list[Path], setup: Path | None, env: dict[str, str], jobs: int):
    with Postgres() as postgres:
        made, created = databases(postgres, [p.stem for p in paths], setup, env)
        try:
            def one(path: Path):
                args = ["--data-dir", str(REGRESS)] if REGRESS.exists() else []
                began = time.monotonic()
                with Tenon(*args) as tenon:
                    result = run_file(path, postgres.dsn(made[path.stem]), tenon, setup, env)
                return path.stem, *result, time.monotonic() - began

            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                yield from pool.map(one, paths)
        finally:
            drop(postgres, created)


def drop(postgres: Postgres, names: list[str]):
    admin = Client(postgres.dsn())
    for database in names:
        admin.run(f'drop database if exists "{database}" with (force)')
    admin.close()


def read_tally() -> dict[str, tuple[int, int]]:
    rows = [line.split("\t") for line in TALLY.read_text().splitlines()[1:]] if TALLY.exists() else []
    return {row[0]: (int(row[1]), int(row[2])) for row in rows}


def regress(args) -> int:
    if not REGRESS.exists():
        print(f"not run: {REGRESS} is not there (scripts/install-test-deps.sh fetches it)")
        return 1
    names = args.names or FILES
    env = {"PG_ABS_SRCDIR": str(REGRESS), "PG_ABS_BUILDDIR": str(REGRESS), "PG_LIBDIR": "/nowhere", "PG_DLSUFFIX": ".so"}
    paths = [REGRESS / "sql" / f"{name}.sql" for name in names]
    old, new, total, groups = read_tally(), {}, Counter(), Counter()
    print("\t".join(["file", *KINDS, "seconds"]))
    for name, counts, report, seconds in run_files(paths, REGRESS / "sql/test_setup.sql", env, args.jobs):
        new[name] = (counts["same"], counts.total())
        total += counts
        if name in GROUPS:
            groups += counts
        print("\t".join([name, *(str(counts[kind]) for kind in KINDS), f"{seconds:.0f}"]), flush=True)
        if args.out:
            Path(args.out).mkdir(parents=True, exist_ok=True)
            (Path(args.out) / f"{name}.txt").write_text("\n".join(report))
        elif args.names:
            print("\n".join(report))
    for title, counts in [("all", total), ("groups", groups)]:
        print("\t".join([title, *(str(counts[kind]) for kind in KINDS)]), f"{counts['same'] / max(1, counts.total()):.1%} the same")
    # Some answers hang on the time of day or on the machine's load.
    fallen = [n for n, (same, _) in new.items() if same < old.get(n, (0, 0))[0] * 0.97 - 2]
    if args.update:
        merged = old | new
        TALLY.write_text("file\tsame\tstatements\n" + "".join(f"{n}\t{s}\t{t}\n" for n, (s, t) in sorted(merged.items())))
    elif args.check and fallen:
        for name in fallen:
            print(f"{name}: {new[name][0]} statements are answered as by PostgreSQL, {old[name][0]} were before")
        return 1
    return 0


def sql(args) -> int:
    differences = 0
    for _, counts, report, _ in run_files([Path(f).resolve() for f in args.names], None, {}, args.jobs):
        print("\n".join(report))
        print(dict(counts))
        differences += counts.total() - counts["same"]
    return int(differences > 0)


def fuzz(args) -> int:
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    with Tenon(env={"TENON_DEVICE": "sim"} if args.what == "self" else None) as tenon:
        client = Client(tenon.dsn())

        def revive():
            tenon.revive()
            client.dsn = tenon.dsn()

        if args.what == "self":
            run = metamorphic.Run(client, seed, ["cpu", "gpu"], revive)
            return int(run.go(args.first, args.seconds, args.statements) > 0)
        with Postgres() as postgres:
            made, created = databases(postgres, ["fuzz"], None, {})
            theirs = Client(postgres.dsn(made["fuzz"]))
            try:
                run = differential.Run(theirs, client, seed, shown, revive)
                return int(run.go(args.first, args.seconds, args.statements) > 0)
            finally:
                theirs.close()
                drop(postgres, created)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sql", "regress", "fuzz", "self"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--out", help="directory for a report by file")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0, help="number of the first schema")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--statements", type=int, default=10**9)
    args = parser.parse_args()
    return {"regress": regress, "sql": sql, "fuzz": fuzz, "self": fuzz}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
