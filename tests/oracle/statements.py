"""Splits a psql script into what psql would send: statements, the data of COPY ... FROM STDIN, and psql's variables.

Of psql's own commands only those are followed that change which statements run: \\set, \\unset, \\getenv, \\gset, \\g, \\;
and \\if. The others only print, and are left out.
"""
import re
from dataclasses import dataclass, field


@dataclass
class Statement:
    text: str
    line: int
    copy_data: bytes | None = None
    gset: str | None = None  # prefix of the variables that the row's columns are stored in


_DOLLAR = re.compile(r"\$([A-Za-z_\x80-\uffff][A-Za-z_0-9\x80-\uffff]*)?\$")
_COPY_IN = re.compile(r"^\s*copy\b.*\bfrom\s+stdin\b", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[A-Za-z_0-9]+")
_ATOMIC = re.compile(r"\bbegin\s+atomic\s*$", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9$]*")


@dataclass
class Script:
    text: str
    env: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    at: int = 0

    def __iter__(self):
        return self

    def __next__(self) -> Statement:
        out, depth, atomic, conditions = [], 0, 0, getattr(self, "conditions", [])
        self.conditions = conditions
        text, n = self.text, len(self.text)
        start_line = None
        while self.at < n:
            c = text[self.at]
            if start_line is None and not c.isspace():
                start_line = text.count("\n", 0, self.at) + 1
            if c == "-" and text.startswith("--", self.at):
                end = text.find("\n", self.at)
                self.at = n if end < 0 else end
                continue
            if c == "/" and text.startswith("/*", self.at):
                begin = self.at
                self._skip_comment()
                out.append(text[begin:self.at])
                continue
            if c in "'\"":
                escapes = c == "'" and out and out[-1] in ("e", "E") and not (len(out) > 1 and out[-2][-1:].isalnum())
                begin = self.at
                self.at += 1
                while self.at < n:
                    if escapes and text[self.at] == "\\":
                        self.at += 2
                        continue
                    if text[self.at] == c:
                        self.at += 1
                        break
                    self.at += 1
                out.append(text[begin:self.at])
                continue
            if c == "$":
                match = _DOLLAR.match(text, self.at)
                if match and not (out and (out[-1][-1:].isalnum() or out[-1][-1:] == "_")):
                    end = text.find(match.group(0), match.end())
                    end = n if end < 0 else end + len(match.group(0))
                    out.append(text[self.at:end])
                    self.at = end
                    continue
            if c == ":" and not text.startswith("::", self.at):
                value = self._variable()
                if value is not None:
                    out.append(value)
                    continue
            elif text.startswith("::", self.at):
                out.append("::")
                self.at += 2
                continue
            if c == "\\":
                if text.startswith("\\;", self.at):
                    out.append(";")
                    self.at += 2
                    continue
                end = text.find("\n", self.at)
                end = n if end < 0 else end
                command = text[self.at:end]
                self.at = end
                done = self._command(command, "".join(out))
                if done is not None:
                    if done.text.strip():
                        done.line = start_line or 0
                        if not self._skipped():
                            return done
                    out, start_line = [], None
                continue
            if c.isalpha() or c == "_":
                word = _WORD.match(text, self.at)
                word = word.group(0) if word else c
                self.at += len(word)
                lower = word.lower()
                if atomic and lower == "case":
                    atomic += 1
                elif atomic and lower == "end":
                    atomic -= 1
                if lower == "atomic" and _ATOMIC.search("".join(out) + word):
                    atomic += 1
                if len(word) == 1:
                    out.append(word)
                else:
                    out.extend([word[:-1], word[-1]])
                continue
            if c == "(":
                depth += 1
            elif c == ")":
                depth = max(0, depth - 1)
            if c == ";" and depth == 0 and atomic == 0:
                self.at += 1
                statement = Statement("".join(out).strip(), start_line or 0)
                out, start_line = [], None
                if not statement.text or self._skipped():
                    if _COPY_IN.match(statement.text):
                        self._copy_data()
                    continue
                if _COPY_IN.match(statement.text):
                    statement.copy_data = self._copy_data()
                return statement
            out.append(c)
            self.at += 1
        rest = "".join(out).strip()
        if rest and not self._skipped():
            return Statement(rest, start_line or 0)
        raise StopIteration

    def _skip_comment(self):
        depth = 0
        while self.at < len(self.text):
            if self.text.startswith("/*", self.at):
                depth += 1
                self.at += 2
            elif self.text.startswith("*/", self.at):
                depth -= 1
                self.at += 2
                if depth == 0:
                    return
            else:
                self.at += 1

    def _copy_data(self) -> bytes:
        end_of_line = self.text.find("\n", self.at)
        self.at = len(self.text) if end_of_line < 0 else end_of_line + 1
        end = re.compile(r"^\\\.\s*$", re.MULTILINE).search(self.text, self.at)
        data = self.text[self.at: end.start() if end else len(self.text)]
        self.at = end.end() if end else len(self.text)
        return data.encode()

    def _variable(self) -> str | None:
        quote = self.text[self.at + 1: self.at + 2]
        start = self.at + 1 + (quote in ("'", '"') and quote != "")
        match = _NAME.match(self.text, start)
        if not match or match.group(0) not in self.variables:
            return None
        value, end = self.variables[match.group(0)], match.end()
        if quote in ("'", '"') and quote:
            if self.text[end: end + 1] != quote:
                return None
            end += 1
            value = quote + value.replace(quote, quote * 2) + quote
        self.at = end
        return value

    def _skipped(self) -> bool:
        return not all(self.conditions)

    def _command(self, command: str, pending: str) -> Statement | None:
        """Follows one of psql's commands; gives the pending statement where the command sends it."""
        words = self._words(command)
        name, args = words[0], words[1:]
        if name == "\\if":
            self.conditions.append(bool(args) and args[0].lower() in ("true", "on", "1", "t", "yes"))
        elif name == "\\elif" and self.conditions:
            self.conditions[-1] = False
        elif name == "\\else" and self.conditions:
            self.conditions[-1] = not self.conditions[-1]
        elif name == "\\endif" and self.conditions:
            self.conditions.pop()
        elif self._skipped():
            pass
        elif name == "\\set" and args:
            self.variables[args[0]] = "".join(args[1:])
        elif name == "\\unset" and args:
            self.variables.pop(args[0], None)
        elif name == "\\getenv" and len(args) == 2:
            if args[1] in self.env:
                self.variables[args[0]] = self.env[args[1]]
        elif name == "\\gset":
            return Statement(pending.strip(), 0, gset=args[0] if args else "")
        elif name in ("\\g", "\\gx", "\\gexec", "\\gdesc", "\\crosstabview"):
            return Statement(pending.strip(), 0)
        elif name == "\\quit" or name == "\\q":
            self.at = len(self.text)
        elif name == "\\r":
            return Statement("", 0)
        return None

    def _words(self, command: str) -> list[str]:
        words = []
        for part in re.finditer(r"(?:'(?:[^']|'')*'|:'[^']*'|:[A-Za-z_0-9]+|[^\s:']+|:)+", command):
            piece, word = part.group(0), ""
            for token in re.finditer(r":'([A-Za-z_0-9]+)'|:([A-Za-z_0-9]+)|'((?:[^']|'')*)'|([^':]+|[:'])", piece):
                quoted, plain, string, other = token.groups()
                if quoted is not None:
                    word += "'" + self.variables.get(quoted, "") + "'"
                elif plain is not None:
                    word += self.variables.get(plain, ":" + plain)
                else:
                    word += string.replace("''", "'") if string is not None else other
            words.append(word)
        return words or [command]
