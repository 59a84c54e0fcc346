"""Who may do what, and how much of it.

A file of tokens has a line for each: a role and the token, `write 5f0c91ab…`. A role may do all that those before it
may: read < write < admin. Without a file everybody who reaches the port may do everything, so the port is one of this
machine alone, and `pages.py` keeps other sites away from it.
"""

from __future__ import annotations

import hmac
import re
import stat
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.errors import MuntinError, nearest

if TYPE_CHECKING:
    from muntin.serve.service import Service

ROLES = ("read", "write", "admin")
_SHORTEST = 16  # characters of a token
_TOKEN = re.compile(rf"[!-~]{{{_SHORTEST},}}")
_MOST_CALLERS = 10_000


@dataclass(frozen=True)
class Limits:
    """What one request or caller may ask for; each is refused beyond."""

    body_bytes: int = 64 * 2**20
    events: int = 10_000_000  # of one push, or rows of one load
    rows: int = 1_000_000  # of one answer
    keys: int = 10_000  # of one look-up
    queries: int = 100_000  # registered
    instants: int = 1_000_000_000  # at which windows close by one change; 0: any number
    followers: int = 500
    requests_per_second: float = 0.0  # of one address; 0: as many as it likes
    lookup_seconds: float = 30.0  # after which a look-up is given up; 0: never

    @staticmethod
    def read(given: Sequence[str]) -> Limits:
        """Limits as they are written on a command line.

        >>> Limits.read(["keys=5", "lookup_seconds=0.5"]).keys
        5
        """
        kinds: dict[str, type] = {each.name: type(each.default) for each in fields(Limits)}
        found = {}
        for each in given:
            name, _, text = each.partition("=")
            if name not in kinds:
                raise MuntinError(
                    f"there is no limit '{name}'{nearest(name, kinds)}; there are: {', '.join(kinds)}"
                )
            try:
                found[name] = kinds[name](text)
            except ValueError:
                found[name] = -1
            if not 0 <= found[name] < inf:
                raise MuntinError(f"limit '{name}' is a number from 0 on, not '{text}'")
        return Limits(**found)


class Room:
    """Room for queries, of whatever address they come by. Those that the writer has not registered yet have theirs,
    so that many who ask at once get no more than one who asks many times. For one thread."""

    def __init__(self, service: Service, most: int):
        self._service, self._most = service, most
        self._coming = Counter[str]()

    @contextmanager
    def taken(self, new: Set[str], gone: Set[str] = frozenset()) -> Iterator[None]:
        """While queries are registered, and others dropped; a `MuntinError` if there is no room for them."""
        there = self._service.incarnation
        asked = {name for name in self._coming.keys() | new if there(name) is None}
        left = sum(there(name) is not None for name in gone)
        if not asked.isdisjoint(new) and self._service.queries + len(asked) - left > self._most:
            raise MuntinError(
                f"there are {self._service.queries:,} queries, and no more than {self._most:,} are taken"
            )
        self._coming.update(new)
        try:
            yield
        finally:
            self._coming -= Counter(new)


class Tokens:
    """Tokens by role; compared in constant time, shown to nobody."""

    def __init__(self, path: Path | None):
        self._tokens: list[tuple[str, bytes]] = []
        self.is_open = path is None
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            lines = path.read_text("utf-8").splitlines()
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise MuntinError(
                f"tokens cannot be read from '{path}': {getattr(error, 'strerror', error)}"
            ) from None
        if mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
            raise MuntinError(f"tokens in '{path}' can be read or changed by others: chmod 600 '{path}'")
        roles: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) != 2 or words[0] not in ROLES or not _TOKEN.fullmatch(words[1]):
                raise MuntinError(
                    f"line {number} of '{path}' is no token: write a role ({', '.join(ROLES)}) and "
                    f"{_SHORTEST} characters or more, of ASCII alone: other ones do not fit a header"
                )
            role, token = words
            if roles.setdefault(token, role) != role:
                raise MuntinError(
                    f"line {number} of '{path}' gives a token the role '{role}' that has the role '{roles[token]}'"
                )
            self._tokens.append((role, token.encode()))
        if not self._tokens:
            raise MuntinError(f"there is no token in '{path}'")

    def allows(self, header: str | None, role: str) -> bool | None:
        """Whether what an Authorization header says is enough for a role; None if it names no token of ours."""
        if self.is_open:
            return True
        scheme, _, text = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        given = text.strip().encode()
        found = None
        for held, token in self._tokens:  # all of them: how long it takes must not tell which
            if hmac.compare_digest(given, token):
                found = held
        return None if found is None else ROLES.index(found) >= ROLES.index(role)


class Pace:
    """How many requests each caller has made of late."""

    def __init__(self, per_second: float):
        self._per_second = per_second
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and as of when
        self._lock = threading.Lock()

    def takes(self, caller: str) -> bool:
        """Whether one more is in time. A second's worth may come at once."""
        if not self._per_second:
            return True
        now = time.monotonic()
        with self._lock:
            left, at = self._left.pop(caller, (self._per_second, now))
            left = min(max(self._per_second, 1.0), left + (now - at) * self._per_second)
            is_taken = left >= 1
            self._left[caller] = (left - is_taken, now)
            while len(self._left) > _MOST_CALLERS:
                self._left.popitem(last=False)
        return is_taken
