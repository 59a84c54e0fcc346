"""Panes and paired windows answer every window as a recompute from the events does."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import Engine
from muntin.errors import MuntinError
from muntin.store.batch import Batch
from muntin.store.ring import EventRing
from muntin.structure.baseline.fragments import Fragments, Slicing
from muntin.window import Window

KINDS = ("panes", "paired_windows")
every_kind = pytest.mark.parametrize("kind", KINDS)
# sizes are multiples of nothing in particular; TO is below the size, or equal to it
windows = st.lists(
    st.builds(
        lambda size, slide, to: Window("time", size, min(to, size), slide),
        st.integers(1, 20), st.integers(1, 12), st.sampled_from([0, 0, 0, 3, 20]),
    ),
    min_size=1, max_size=5, unique=True,
)  # fmt: skip


class Event(NamedTuple):
    at: int
    n: int | None


def streams() -> st.SearchStrategy[list[Event]]:
    """Events up to 4 late, in a stream that allows it."""
    step = st.one_of(st.integers(0, 3), st.integers(0, 3), st.integers(0, 60))
    value = st.one_of(st.integers(-9, 9), st.none())
    pairs = st.lists(st.tuples(step, st.integers(0, 4), value), max_size=40)

    def late(pairs: list[tuple[int, int, int | None]], start: int) -> list[Event]:
        at = np.cumsum([step for step, _, _ in pairs]) + start
        return [Event(int(when) - back, value) for when, (_, back, value) in zip(at, pairs, strict=True)]

    return st.builds(late, pairs, st.integers(-50, 50))


def engine_of(kind: str, some: Iterable[Window]) -> Engine:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts DELAY 4 MICROSECONDS")
    for number, window in enumerate(some):
        calls = "COUNT(*) AS c, SUM(n) AS s, MIN(n) AS least, LAST(n) AS last, VAR_POP(n) AS v"
        engine.register(f"SELECT /*+ SYNOPSIS({kind}) */ {calls} FROM s {window}", f"q{number}")
    return engine


def push(engine: Engine, some: Sequence[Event]) -> None:
    engine.push("s", {"ts": np.array([each.at for each in some], np.int64), "n": [each.n for each in some]})


def accepted(stream: Sequence[Event]) -> list[Event]:
    """In order of time, without those that are late."""
    kept, greatest = [], -math.inf
    for event in stream:
        if event.at >= greatest - 4:
            kept.append(event)
        greatest = max(greatest, event.at)
    return sorted(kept, key=lambda event: event.at)


def wanted(window: Window, stream: Sequence[Event], instant: int) -> dict[str, Any]:
    held = [event for event in stream if instant - window.size <= event.at < instant - window.to]
    values = [event.n for event in held if event.n is not None]
    mean = sum(values) / len(values) if values else 0.0
    return {
        "c": len(held),
        "s": sum(values) if values else None,
        "least": min(values, default=None),
        "last": values[-1] if values else None,
        "v": pytest.approx(sum((each - mean) ** 2 for each in values) / len(values)) if values else None,
    }


@every_kind
@given(some=windows, stream=streams(), data=st.data())
def test_agrees_with_recompute(
    kind: str, some: list[Window], stream: list[Event], data: st.DataObject
) -> None:
    """However events are cut into batches, and whenever windows are emitted in between, also silent ones."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    engine = engine_of(kind, some)
    tables = []
    for start, stop in pairwise([0, *cuts, len(stream)]):
        push(engine, stream[start:stop])
        engine.check()
        if data.draw(st.booleans()):
            tables.append(engine.advance())
    in_order = accepted(stream)
    until = (in_order[-1].at if in_order else 0) + 25
    tables.append(engine.advance(until=until))
    for number, window in enumerate(some):
        found = [row for table in tables if f"q{number}" in table for row in table[f"q{number}"].to_pylist()]
        first = in_order[0].at + 1 if in_order else until + 1
        instants = [instant for instant in range(first, until + 1) if instant % window.slide == 0]
        assert len(found) == len(instants)
        for row, instant in zip(found, instants, strict=True):
            assert {name: row[name] for name in ("c", "s", "least", "last", "v")} == wanted(
                window, in_order, instant
            )
            assert row["complete"] is True


@every_kind
@given(some=windows, stream=streams(), late=windows)
def test_windows_that_come_and_go(
    kind: str, some: list[Window], stream: list[Event], late: list[Window]
) -> None:
    """A window registered in the middle is cut from the events that are there; others notice nothing."""
    engine, half = engine_of(kind, some), len(stream) // 2
    push(engine, stream[:half])
    for number, window in enumerate(late):
        engine.register(f"SELECT /*+ SYNOPSIS({kind}) */ SUM(n) AS s FROM s {window}", f"late{number}")
    push(engine, stream[half:])
    engine.check()
    in_order = accepted(stream)
    if not in_order:
        return
    now = in_order[-1].at + 1
    for name, window in [*((f"late{i}", each) for i, each in enumerate(late)), ("q0", some[0])]:
        (row,) = engine.lookup(name).to_pylist()
        answer = wanted(window, in_order, window.settle(now))["s"]
        assert row["s"] == answer or not row["complete"]
    for number in range(len(late)):
        engine.drop(f"late{number}")
    engine.check()
    (row,) = engine.lookup("q0").to_pylist()
    assert row["s"] == wanted(some[0], in_order, some[0].settle(now))["s"]


@every_kind
def test_gaps_between_windows(kind: str) -> None:
    """Where slides exceed sizes, the fragment that is open in a gap is not dropped under the next event.

    time       8   9  10  11  12  13 ...  19  20
    windows        [--)                   [---)       size 1, slide 10
    events         x       x       x      x
    """
    engine = engine_of(kind, [Window("time", 1, slide=10)])
    push(engine, [Event(9, 1), Event(11, 2)])
    assert engine.advance(until=12)["q0"]["s"].to_pylist() == [1]
    push(engine, [Event(13, 4), Event(19, 8)])
    engine.check()
    assert engine.advance(until=20)["q0"]["s"].to_pylist() == [8]


@every_kind
def test_long_silence_costs_nothing(kind: str) -> None:
    """Edges without events are jumped over."""
    engine = engine_of(kind, [Window("time", 7, slide=3), Window("time", 10, slide=4)])
    push(engine, [Event(0, 1), Event(10**15, 2)])
    assert all(len(slicing) == 2 for slicing in fragments_of(engine).slicings.values())
    engine.check()


@every_kind
@pytest.mark.parametrize(
    ("window", "by"), [("[RANGE 5 SECONDS]", ""), ("[ROWS 5]", ""), ("[RANGE 5 SECONDS SLIDE 1 SECOND]", "n")]
)
def test_refuses_what_has_no_edges(kind: str, window: str, by: str) -> None:
    """Windows without SLIDE, ROWS windows, and keys; the error names the synopsis."""
    engine = engine_of(kind, [])
    keys, group_by = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
    with pytest.raises(MuntinError, match=f"synopsis '{kind}' cannot serve"):
        engine.register(f"SELECT /*+ SYNOPSIS({kind}) */ {keys}SUM(n) FROM s {window}{group_by}", "q")


def fragments_of(engine: Engine) -> Fragments:
    (synopsis,) = engine._shards["s"].state.synopses.values()
    assert isinstance(synopsis, Fragments)
    return synopsis


def cut(kind: type[Fragments], some: Iterable[tuple[int, int]], events: int) -> list[Slicing]:
    """How a stream with an event at every instant is cut for windows (size, slide)."""
    ring = EventRing()
    ring.insert(Batch(np.arange(events), {}, {}, {}))
    edges = kind.cut([Window("time", size, slide=slide) for size, slide in some])
    return [Slicing(each, ring, None, ()) for each in sorted(set(edges.values()))]
