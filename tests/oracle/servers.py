"""The two servers that answers are compared between: a throw-away PostgreSQL 15 cluster and a Tenon process."""
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PG_BIN = Path("/usr/lib/postgresql/15/bin")


def die_with_parent():
    """In a new process: it ends with the thread that started it, however that ends."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Postgres:
    """A cluster in a temporary directory, gone on exit; or, with TENON_ORACLE_PORT, one that runs already."""

    def __enter__(self):
        self.directory, self.user = None, "postgres"
        if port := os.environ.get("TENON_ORACLE_PORT"):
            self.port = int(port)
            return self
        self.port = free_port()
        self.directory = tempfile.mkdtemp(prefix="tenon-oracle.")
        self.account = {}
        if os.getuid() == 0:  # PostgreSQL refuses to run as root.
            user = pwd.getpwnam("postgres")
            os.chown(self.directory, user.pw_uid, user.pw_gid)
            self.account = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._tool("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
        self._tool(
            "pg_ctl", "-w", "-l", f"{self.directory}/log", "start", "-o",
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
            " -c timezone=UTC -c max_connections=300 -c jit=off",
        )
        return self

    def __exit__(self, *_):
        if self.directory:
            self._tool("pg_ctl", "-m", "immediate", "stop")
            shutil.rmtree(self.directory, ignore_errors=True)

    def _tool(self, name: str, *args: str):
        subprocess.run(
            [PG_BIN / name, "-D", f"{self.directory}/data", *args],
            check=True, stdout=subprocess.DEVNULL, cwd="/", **self.account,
        )

    def dsn(self, database: str = "postgres") -> str:
        return f"host=127.0.0.1 port={self.port} user={self.user} dbname={database} sslmode=disable client_encoding=UTF8"


class Tenon:
    """A server of its own; ended, and counted as dead, where it takes more memory than any statement is worth."""

    MEMORY_BYTES_MAX = 2 << 30

    def __init__(self, *args: str, env: dict[str, str] | None = None):
        self.binary = os.environ.get("TENON_TEST_BINARY", str(ROOT / "target/debug/tenon"))
        self.args, self.env = args, env or {}
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.port = free_port()
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [self.binary, "--listen", f"127.0.0.1:{self.port}", "--threads", "2", *self.args],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, preexec_fn=die_with_parent,
            env=os.environ | {"TENON_CALIBRATE": "off"} | self.env,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the server does not start: {self.log_text()}") from None
                time.sleep(0.02)
        threading.Thread(target=self._watch, args=(self.process,), daemon=True).start()

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def revive(self) -> bool:
        """Starts the server again after a connection was lost, and tells whether it had died by itself."""
        died = not self.is_alive()
        self.stop()
        self.start()
        return died

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log_text(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-4000:]

    def _watch(self, process):
        while process.poll() is None:
            try:
                pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            except (OSError, IndexError):
                return
            if pages * 4096 > self.MEMORY_BYTES_MAX:
                process.kill()
                return
            time.sleep(0.1)

    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres sslmode=disable client_encoding=UTF8"
