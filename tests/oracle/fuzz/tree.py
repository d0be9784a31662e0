"""A statement as a tree of typed nodes, so that one that is answered differently can be cut down to its cause.

A node is `Node(kind, type, parts)`: `parts` are strings and nodes, and rendering joins them. A node marked `optional` may be
dropped; any node with a type may become one of its descendants of that type, or a constant.
"""
from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable, Iterator


@dataclass
class Node:
    kind: str
    type: str | None
    parts: list  # of str and Node
    optional: bool = False
    scope: int = 0  # id of the query whose names it may use; only nodes of one scope stand in for one another

    def __str__(self) -> str:
        return "".join(str(part) for part in self.parts)


@dataclass
class Listed(Node):
    """Parts with a separator between those that are left; at least `least` of them, or all of it is gone."""

    separator: str = ", "
    least: int = 1
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        left = [str(part) for part in self.parts]
        left = [part for part in left if part]
        return self.before + self.separator.join(left) + self.after if left else ""


def walk(node: Node, path: tuple = ()) -> Iterator[tuple[tuple, Node]]:
    yield path, node
    for i, part in enumerate(node.parts):
        if isinstance(part, Node):
            yield from walk(part, (*path, i))


def replaced(node: Node, path: tuple, new) -> Node:
    """A copy of the tree with the node at `path` exchanged, or dropped where `new` is None."""
    parts = list(node.parts)
    if len(path) == 1:
        if new is None and isinstance(node, Listed):
            del parts[path[0]]
        else:
            parts[path[0]] = "" if new is None else new
    else:
        parts[path[0]] = replaced(parts[path[0]], path[1:], new)
    copy = type(node).__new__(type(node))
    copy.__dict__ = node.__dict__ | {"parts": parts}
    return copy


def smaller(root: Node, constants: dict[str, list[str]]) -> Iterator[Node]:
    """Trees that are a step simpler than this one, the boldest steps first."""
    nodes = sorted(walk(root), key=lambda item: -len(str(item[1])))
    for path, node in nodes:
        if not path:
            continue
        parent = root
        for step in path[:-1]:
            parent = parent.parts[step]
        if node.optional or (isinstance(parent, Listed) and len(parent.parts) > parent.least):
            yield replaced(root, path, None)
    for path, node in nodes:
        if node.type is None or not path:
            continue
        for _, inner in walk(node):
            if inner is not node and inner.type == node.type and inner.scope == node.scope and inner.kind != "query":
                yield replaced(root, path, inner)
        for text in constants.get(node.type, []):
            if len(text) < len(str(node)):
                yield replaced(root, path, Node("constant", node.type, [text], scope=node.scope))
    for path, node in nodes:  # A query in FROM or WITH may be the whole cause.
        if path and node.kind == "query":
            yield node


def minimised(root: Node, constants: dict[str, list[str]], fails: Callable[[str], bool], seconds: float = 20) -> Node:
    """The smallest tree found in this time that still fails."""
    progress, deadline = True, time.monotonic() + seconds
    while progress:
        progress = False
        seen = set()
        for candidate in smaller(root, constants):
            text = str(candidate)
            if len(text) >= len(str(root)) or text in seen:
                continue
            if time.monotonic() > deadline:
                return root
            seen.add(text)
            if fails(text):
                root, progress = candidate, True
                break
    return root
