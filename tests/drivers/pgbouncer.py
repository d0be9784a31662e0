"""PgBouncer before Tenon: by transactions and by sessions, with users of a list and of `pg_shadow`, its SCRAM keys handed on."""
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle"))
from servers import Tenon, die_with_parent, free_port  # noqa: E402

PROGRAM = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
assert PROGRAM, "no pgbouncer: run scripts/install-test-deps.sh first"
PASSWORD = "a good one"


def expect(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def version() -> tuple[int, ...]:
    told = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, told.split()[1].split(".")))


class Bouncer:
    """A PgBouncer of its own before a server, with these settings beside those that all have."""

    def __init__(self, directory: str, server: Tenon, **settings):
        self.port = free_port()
        database = f"tenon = host=127.0.0.1 port={server.port} dbname=tenon"
        settings = {
            "listen_addr": "127.0.0.1", "listen_port": self.port, "unix_socket_dir": "", "auth_type": "scram-sha-256",
            "auth_file": f"{directory}/users", "admin_users": "postgres", "default_pool_size": 1, "query_wait_timeout": 20,
        } | settings
        path = Path(directory) / f"{self.port}.ini"
        lines = [f"{key} = {value}" for key, value in settings.items()]
        path.write_text("\n".join(["[databases]", database, "[pgbouncer]", *lines, ""]))
        self.log = tempfile.TemporaryFile()
        account = {}
        if os.getuid() == 0:  # It refuses to run as root.
            user = pwd.getpwnam("postgres")
            account = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.process = subprocess.Popen(
            [PROGRAM, str(path)], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=die_with_parent, **account
        )

    def __enter__(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                psycopg.connect(self.dsn(dbname="pgbouncer"), autocommit=True).close()
                return self
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"pgbouncer does not start: {self.told()}") from None
                time.sleep(0.05)

    def __exit__(self, kind, *_):
        self.process.kill()
        self.process.wait()
        if kind is not None:
            print(self.told(), file=sys.stderr)

    def told(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def dsn(self, user: str = "postgres", password: str = PASSWORD, dbname: str = "tenon") -> str:
        return f"host=127.0.0.1 port={self.port} user={user} password='{password}' dbname={dbname} sslmode=disable"

    def connect(self, **more) -> psycopg.Connection:
        # Prepared statements are of a server's connection, which the next transaction may not have.
        connection = psycopg.connect(self.dsn(**{key: more.pop(key) for key in ("user", "password") if key in more}), autocommit=True, **more)
        connection.prepare_threshold = None
        return connection

    def bench(self, mode: str, clients: int):
        command = ["pgbench", "-n", "-S", "-c", str(clients), "-t", "25", "-M", mode, self.dsn()]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and f"actually processed: {25 * clients}/{25 * clients}\n" in done.stdout, (mode, done.stdout, done.stderr)


def value(connection: psycopg.Connection, query: str):
    return connection.execute(query).fetchone()[0]


def by_transactions(bouncer: Bouncer):
    with bouncer.connect() as conn:  # What pgbench reads of its own tables.
        conn.execute("CREATE TABLE pgbench_branches AS SELECT 1 AS bid")
        conn.execute("CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int)")
        conn.execute("INSERT INTO pgbench_accounts SELECT aid, 1, 0 FROM generate_series(1, 1000) AS x(aid)")
    for mode in ["simple", "extended"] + ["prepared"] * (version() >= (1, 21)):
        bouncer.bench(mode, 4)
    with bouncer.connect() as one, bouncer.connect() as two:
        # They share the one connection that there is.
        expect(value(one, "SELECT pg_backend_pid()"), value(two, "SELECT pg_backend_pid()"))
        one.execute("CREATE TABLE notes (id int PRIMARY KEY, what text)")
        with one.transaction():
            one.execute("INSERT INTO notes VALUES (%s, %s)", (1, "ein Wörtchen"))
            with two.cursor() as cursor:
                waits = threading.Thread(target=cursor.execute, args=("SELECT 1",))
                waits.start()
                waits.join(0.2)
                assert waits.is_alive()
                one.execute("INSERT INTO notes VALUES (2, 'b')")
            # It goes on once the transaction is over.
        waits.join(10)
        assert not waits.is_alive()
        with two.cursor().copy("COPY notes FROM STDIN") as copy:
            copy.write_row((3, "c"))
        expect(one.execute("SELECT * FROM notes ORDER BY id").fetchall(), [(1, "ein Wörtchen"), (2, "b"), (3, "c")])
        try:
            with one.transaction():
                one.execute("INSERT INTO notes VALUES (1, 'again')")
            raise AssertionError("a key twice")
        except psycopg.errors.UniqueViolation as error:
            expect(error.diag.constraint_name, "notes_pkey")
        expect(value(two, "SELECT count(*) FROM notes"), 3)
        with one.pipeline():
            found = [one.execute("SELECT %s::int", (number,)) for number in range(5)]
        expect([cursor.fetchone()[0] for cursor in found], list(range(5)))
        # A cancel goes to whoever runs the client's statement now.
        timer = threading.Timer(0.3, one.cancel)
        timer.start()
        begun = time.monotonic()
        try:
            one.execute("SELECT pg_sleep(20)")
            raise AssertionError("not cancelled")
        except psycopg.errors.QueryCanceled:
            assert time.monotonic() - begun < 10
        timer.join()
        expect(value(one, "SELECT 1"), 1)
    # What it keeps of each client and gives the server's connection before its transactions.
    with bouncer.connect(application_name="one", client_encoding="LATIN1") as one, bouncer.connect(application_name="two") as two:
        one.execute("SET TimeZone = 'Asia/Tokyo'")
        one.execute("SET DateStyle = 'German'")
        one.execute("SET standard_conforming_strings = off")
        for _ in range(2):
            for connection, wanted in (
                (one, ("one", "LATIN1", "Asia/Tokyo", "German, DMY", "off", "01.03.2024 09:00:00 JST", "ö")),
                (two, ("two", "UTF8", None, "ISO, MDY", "on", None, "ö")),
            ):
                found = connection.execute(
                    "SELECT current_setting('application_name'), current_setting('client_encoding'), current_setting('TimeZone'),"
                    " current_setting('DateStyle'), current_setting('standard_conforming_strings'),"
                    " (timestamptz '2024-03-01 00:00:00+00')::text, chr(246)"
                ).fetchone()
                for mine, theirs in zip(found, wanted):
                    assert theirs in (None, mine), (found, wanted)
    with psycopg.connect(bouncer.dsn(dbname="pgbouncer"), autocommit=True) as console:
        console.prepare_threshold = None
        (pools,) = [row for row in psycopg.ClientCursor(console).execute("SHOW POOLS").fetchall() if row[0] == "tenon"]
        assert "tenon" in pools, pools


def by_sessions(bouncer: Bouncer):
    for mode in ("simple", "extended", "prepared"):
        bouncer.bench(mode, 1)
    with bouncer.connect() as one:
        server = value(one, "SELECT pg_backend_pid()")
        one.execute("SET work_mem = '7MB'")
        one.execute("SET search_path = pg_catalog")
        one.execute("CREATE TEMP TABLE passing (id int)")
        one.execute("PREPARE kept AS SELECT 1")
        one.execute("DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 9)")
        one.execute("LISTEN news")
        one.execute("SELECT pg_advisory_lock(7)")
        one.execute("SET SESSION AUTHORIZATION ann")
        expect(value(one, "SELECT current_user"), "ann")
    with bouncer.connect() as two:
        expect(value(two, "SELECT pg_backend_pid()"), server)
        for query, wanted in (
            ("SELECT current_user", "postgres"),
            ("SELECT to_regclass('passing')", None),
            ("SELECT count(*) FROM pg_prepared_statements", 0),
            ("SELECT count(*) FROM pg_cursors WHERE name = 'c'", 0),
            ("SELECT current_setting('search_path')", '"$user", public'),
        ):
            expect(value(two, query), wanted)
        assert value(two, "SHOW work_mem") != "7MB"
        two.execute("NOTIFY news")
        expect(list(two.notifies(timeout=0.1)), [])


with tempfile.TemporaryDirectory() as directory:
    os.chmod(directory, 0o755)
    Path(directory, "passwords").write_text(f"postgres:{PASSWORD}\n")
    Path(directory, "users").write_text(f'"postgres" "{PASSWORD}"\n')
    with Tenon("--password-file", f"{directory}/passwords") as server:
        with psycopg.connect(server.dsn() + f" password='{PASSWORD}'", autocommit=True) as conn:
            conn.execute("CREATE ROLE ann LOGIN PASSWORD 'her own'")
            (verifier,) = conn.execute("SELECT passwd FROM pg_shadow WHERE usename = 'ann'").fetchone()
        with Bouncer(directory, server, pool_mode="transaction", **({"max_prepared_statements": 50} if version() >= (1, 21) else {})) as bouncer:
            by_transactions(bouncer)
        with Bouncer(directory, server, pool_mode="session", server_reset_query="DISCARD ALL", server_check_delay=0, server_check_query="SELECT 1") as bouncer:
            by_sessions(bouncer)
        # Whom the list does not know is asked for in the database.
        query = "SELECT usename, passwd FROM pg_shadow WHERE usename = $1"
        with Bouncer(directory, server, pool_mode="transaction", auth_user="postgres", auth_query=query) as bouncer:
            with bouncer.connect(user="ann", password="her own") as conn:
                expect(value(conn, "SELECT current_user"), "ann")
            for user in ("ann", "nobody"):
                try:
                    bouncer.connect(user=user, password="wrong").close()
                    raise AssertionError(f"{user} got in")
                except psycopg.OperationalError as error:
                    assert "authentication failed" in str(error) or "no such user" in str(error), error
        # The list knows no password: a client's keys open the server's connection, too.
        with open(f"{directory}/users", "a") as users:
            users.write(f'"ann" "{verifier}"\n')
        with Bouncer(directory, server, pool_mode="transaction") as bouncer, bouncer.connect(user="ann", password="her own") as conn:
            expect(value(conn, "SELECT current_user"), "ann")
print(f"PgBouncer {'.'.join(map(str, version()))}: ok")
