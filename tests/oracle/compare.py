"""Runs statements on PostgreSQL and on Tenon side by side and tells where the two answer differently."""
import re
import select
import time
from dataclasses import dataclass

import psycopg
from psycopg.pq import ExecStatus, PGconn

_STEP = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|[()]|\border\s+by\b|^\s*(?:fetch|show|explain|copy)\b", re.IGNORECASE)
_OK = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK, ExecStatus.EMPTY_QUERY, ExecStatus.SINGLE_TUPLE)


def is_ordered(text: str) -> bool:
    """Whether the statement says in which order its rows come: ORDER BY outside all parentheses."""
    depth = 0
    for step in _STEP.finditer(text):
        word = step.group(0)
        if word in "()":
            depth += 1 if word == "(" else -1
        elif depth == 0 and word[0] not in "'\"-":
            return True
    return False


class Lost(Exception):
    """The connection ended, or the statement ran past its time."""


@dataclass
class Answer:
    """What a message brought back: the results before an error, and the error."""

    results: list  # (titles, rows) for each statement of the message that gives rows; None for others
    sqlstate: str | None = None
    message: str = ""

    def ordered(self, text: str):
        """The results, each sorted where the statement leaves the order open."""
        if is_ordered(text):
            return self.results
        return [r and (r[0], sorted(r[1], key=repr)) for r in self.results]


class Client:
    """A connection to one of the two servers."""

    def __init__(self, dsn: str, timeout_s: float = 20.0):
        self.dsn, self.timeout_s = dsn, timeout_s
        self.connection: PGconn | None = None

    def connect(self):
        connection = PGconn.connect(self.dsn.encode())
        if connection.status != psycopg.pq.ConnStatus.OK:
            raise Lost(connection.get_error_message())
        connection.notice_handler = lambda _: None
        self.connection = connection

    def close(self):
        if self.connection is not None:
            self.connection.finish()
            self.connection = None

    def run(self, text: str, copy_data: bytes | None = None) -> Answer:
        if self.connection is None:
            self.connect()
        connection, answer = self.connection, Answer([])
        deadline = time.monotonic() + self.timeout_s
        try:
            connection.send_query(text.encode())
            connection.flush()
            while (result := self._result(deadline)) is not None:
                status = result.status
                if status == ExecStatus.COPY_IN:
                    for at in range(0, len(copy_data or b""), 1 << 16):
                        connection.put_copy_data(copy_data[at: at + (1 << 16)])
                    connection.put_copy_end()
                elif status == ExecStatus.COPY_OUT:
                    answer.results.append(((), self._copied(deadline)))
                elif status == ExecStatus.TUPLES_OK:
                    titles = tuple((result.fname(i) or b"").decode() for i in range(result.nfields))
                    rows = [tuple(result.get_value(r, c) for c in range(result.nfields)) for r in range(result.ntuples)]
                    answer.results.append((titles, rows))
                elif status in _OK:
                    answer.results.append(None)
                else:
                    state = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
                    answer.sqlstate = (state or b"").decode() or "lost"
                    answer.message = result.get_error_message()
        except psycopg.OperationalError as error:
            self.close()
            raise Lost(str(error)) from error
        if connection.status != psycopg.pq.ConnStatus.OK:
            self.close()
            raise Lost(answer.message)
        return answer

    def _result(self, deadline: float):
        while self.connection.is_busy():
            self._wait(deadline)
        return self.connection.get_result()

    def _wait(self, deadline: float):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.connection.socket], [], [], left)[0]:
            self._cancel()
            raise Lost("past its time")
        self.connection.consume_input()

    def _cancel(self, patience_s: float = 5.0):
        """Ends the statement; the connection too, where the server does not let go of it."""
        connection, until = self.connection, time.monotonic() + patience_s
        try:
            connection.get_cancel().cancel()
            while True:
                while connection.is_busy():
                    left = until - time.monotonic()
                    if left <= 0 or not select.select([connection.socket], [], [], left)[0]:
                        return self.close()
                    connection.consume_input()
                result = connection.get_result()
                if result is None:
                    return
                if result.status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT):
                    return self.close()
        except psycopg.Error:
            self.close()

    def _copied(self, deadline: float):
        rows = []
        while True:
            length, data = self.connection.get_copy_data(1)
            if length > 0:
                rows.append((bytes(data),))
            elif length == 0:
                self._wait(deadline)
            else:
                return rows


def verdict(text: str, postgres: Answer, tenon: Answer) -> str:
    """`same`, or in what way the two answers differ."""
    if postgres.sqlstate and tenon.sqlstate:
        return "same" if postgres.sqlstate == tenon.sqlstate else "other_sqlstate"
    if postgres.sqlstate:
        return "accepted"
    if tenon.sqlstate:
        return "refused"
    ours, theirs = tenon.ordered(text), postgres.ordered(text)
    if [r and r[1] for r in ours] != [r and r[1] for r in theirs]:
        same_rows = [r and sorted(r[1], key=repr) for r in ours] == [r and sorted(r[1], key=repr) for r in theirs]
        return "other_order" if same_rows else "other_result"
    return "same" if [r and r[0] for r in ours] == [r and r[0] for r in theirs] else "other_titles"
