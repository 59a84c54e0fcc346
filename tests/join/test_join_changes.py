"""EMIT CHANGES of joins: what came and went, added up, is the whole answer at every instant."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import some_of
from muntin import Engine
from runtimes import checkpointed

SECOND = 1_000_000
SIZES = [1, SECOND, 1_500_000, 5 * SECOND, 12 * SECOND, 40 * SECOND]


class Twins:
    """Joins, each registered twice at the same moment: for changes, and for whole answers."""

    def __init__(self, draw: Any):
        self.draw = draw
        self.engine = Engine()
        for name in "ab":
            self.engine.execute(
                f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT, i BIGINT) TIMESTAMP BY ts "
                f"DELAY {self.pick(0, 2, 5)} SECONDS"
            )
        self.events = {"a": 0, "b": 0}
        self.clock = {"a": self.pick(-20, 10) * SECOND, "b": self.pick(10, 40) * SECOND + self.pick(0, 0, 1)}
        self.inside: dict[str, set[tuple[int, int]]] = {}  # by pair of twins
        self.registered = 0

    def pick(self, *some: Any) -> Any:
        return self.draw(st.sampled_from(some))

    def _window(self) -> str:
        size = self.pick(*SIZES)
        to = self.pick(0, 0, size // 2, size - 1)
        return f"RANGE {size} MICROSECONDS" + (f" TO {to} MICROSECONDS" if to else "")

    def register(self) -> None:
        slide = self.pick("", " SLIDE 1 SECOND", " SLIDE 5 SECONDS", " SLIDE 700000 MICROSECONDS")
        sql = (
            f"SELECT l.i AS x, r.i AS y FROM a [{self._window()}{slide}] AS l JOIN {self.pick('b', 'b', 'a')} "
            f"[{self._window()}] AS r ON l.k = r.k{self.pick('', ' WHERE l.i % 3 <> 1', ' WHERE r.i + l.i > 9')}"
        )
        name = f"q{self.registered}"
        self.registered += 1
        self.engine.register(f"{sql} EMIT CHANGES", name=f"{name} changes")
        self.engine.register(sql, name=f"{name} whole")
        self.inside[name] = set()

    def drop(self) -> None:
        if len(self.inside) > 1:
            name = self.pick(*self.inside)
            del self.inside[name]
            self.engine.drop(f"{name} changes")
            self.engine.drop(f"{name} whole")

    def push(self) -> None:
        stream, rows = self.pick("a", "b"), []
        for _ in range(self.draw(st.integers(1, 10))):
            self.clock[stream] += self.pick(SECOND, SECOND, 0, 3 * SECOND, SECOND // 2)
            at = self.clock[stream] - self.pick(0, 0, 0, SECOND, 4 * SECOND)
            rows.append((at, self.pick(1, 1, 2, None), self.events[stream]))
            self.events[stream] += 1
        ts, key, number = zip(*rows, strict=True)
        columns = [pa.array(ts, pa.timestamp("us")), pa.array(key, pa.int64()), pa.array(number, pa.int64())]
        self.engine.push(stream, pa.table(columns, names=["ts", "k", "i"]))

    def save(self) -> None:
        self.engine = checkpointed(self.engine)

    def advance(self) -> None:
        until = self.pick(None, None, -9, -2, 0, 9)
        answers = self.engine.advance(None if until is None else max(self.clock.values()) + until * SECOND)
        for name, inside in self.inside.items():
            whole, changes = (by_instant(answers.get(f"{name} {kind}")) for kind in ("whole", "changes"))
            for instant in sorted(whole.keys() | changes.keys()):
                for row in changes.get(instant, []):
                    pair = row["x"], row["y"]
                    assert (pair in inside) == (row["change"] == "leave"), (name, instant, pair)
                    inside ^= {pair}
                assert sorted(inside) == sorted((row["x"], row["y"]) for row in whole.get(instant, []))


def by_instant(answers: pa.Table | None) -> dict[Any, list[dict[str, Any]]]:
    rows: dict[Any, list[dict[str, Any]]] = {}
    for row in answers.to_pylist() if answers is not None else []:
        rows.setdefault(row["window_end"], []).append(row)
    return rows


@settings(max_examples=some_of(300, 10))
@given(st.data())
def test_changes_add_up_to_whole_answers(data):
    twins = Twins(data.draw)
    twins.register()
    steps = [
        twins.push,
        twins.push,
        twins.push,
        twins.advance,
        twins.advance,
        twins.register,
        twins.drop,
        twins.save,
    ]
    for _ in range(20):
        twins.pick(*steps)()
    twins.advance()
    twins.engine.check()
