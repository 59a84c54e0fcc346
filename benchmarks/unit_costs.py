"""What each structure costs: an insertion, an element, a look-up, a combine, a rebuild."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measure import RUNS, Column, Result, measure
from muntin import Engine
from muntin.plan.cost import combines
from muntin.plan.synopses import build_synopsis
from muntin.store.needs import Need
from muntin.structure.runs import RunSynopsis
from muntin.structure.track import Track

COLUMNS = [
    Column("structure", "structure"), Column("call", "of"), Column("batch", "ns per insertion", ",.0f"),
    Column("update", "ns per element", ",.2f"), Column("single", "ns per call", ",.0f"),
    Column("lookup", "ns per look-up", ",.0f"), Column("combine", "ns per combine", ",.2f"),
    Column("rebuild", "ns per element rebuilt", ",.2f"),
]  # fmt: skip
STRUCTURES = (
    ("r_int", "SUM(n)"), ("r_int", "COUNT(x)"), ("b_int", "MAX(x)"), ("b_int", "SUM(x)"), ("l_int", "MAX(x)"),
    ("monotone_deque", "MAX(x)"), ("materialize_all", "MAX(x)"), ("materialize_all", "SUM(n)"),
    ("materialize_none", "MAX(x)"), ("materialize_none", "SUM(n)"), ("materialize_none", "SUM(x)"),
    ("materialize_none", "COUNT(x)"),
)  # fmt: skip
WINDOWS = (10, 10_000)  # two widths, so that combines can be told from the rest


def run(quick: bool) -> Result:
    """One window group each, driven without an engine around it."""
    elements = 10_000 if quick else 100_000
    return Result(
        name="unit_costs",
        title="What structures cost",
        notes=(
            f"One component over the last {elements:,} events, windows of {WINDOWS[0]:,} and {WINDOWS[1]:,} events. "
            "An insertion costs its fixed part and the same for each element; a look-up costs a fixed part for the "
            "call (asked one by one, as plain numbers), a part for each window (asked 1,000 at a time), and one "
            "for each partial combined. In CPU time. The table from which the engine predicts costs when it adapts "
            "is rounded from this one."
        ),
        columns=COLUMNS,
        rows=[_row(name, call, elements) for name, call in STRUCTURES],
        parameters={"runs": RUNS, "elements": elements},
    )


def _row(name: str, call: str, elements: int) -> dict[str, Any]:
    synopsis, group = _group(name, call, elements)
    (track,) = (each for need, each in synopsis._tracks.items() if _is_asked_for(need, call))
    store, structure, need = synopsis.store, track.structure, track.need

    wide, narrow = (_lookup_seconds(track, width) for width in reversed(WINDOWS))
    more = combines(name, WINDOWS[1]) - combines(name, WINDOWS[0])
    combine = max(wide - narrow, 0.0) / more if more else 0.0
    lookup = max(narrow - combine * combines(name, WINDOWS[0]), 0.0)

    def build(run: int) -> None:
        made = build_synopsis(name, store, None, (), synopsis._text_order)
        made.fit(group.needs)

    tracks = len(synopsis._tracks)
    end = structure.end

    def points(run: int) -> None:
        for _ in range(1_000):
            track.point(need, end - WINDOWS[0], end)

    single = measure(points).cpu_median / 1_000 - lookup - combine * combines(name, WINDOWS[0])

    def extend(times: int, batch: int) -> float:
        """Seconds to take in a batch and to forget as much; from here on the structure is ahead of its store."""

        def again(run: int) -> None:
            for _ in range(times):
                track._extend(elements - batch, elements)
                structure.forget(structure.first + batch)

        return measure(again).cpu_median / times

    one, many = extend(300, 1), extend(10, elements // 10)
    update = max(many - one, 0.0) / (elements // 10)
    return {
        "structure": name, "call": call, "batch": one * 1e9, "update": update * 1e9,
        "single": max(single, 0.0) * 1e9, "lookup": lookup * 1e9, "combine": combine * 1e9,
        "rebuild": measure(build).cpu_median / tracks / elements * 1e9,
    }  # fmt: skip


def _group(name: str, call: str, elements: int) -> tuple[RunSynopsis, Any]:
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY ts")
    for width in (*WINDOWS, elements):
        engine.register(f"SELECT /*+ SYNOPSIS({name}) */ {call} AS v FROM s [ROWS {width}]", f"{width}")
    rng = np.random.default_rng(7)
    for turn in range(10):
        part = elements // 10
        engine.push(
            "s", {"ts": np.arange(part) + turn * part, "n": rng.integers(0, 100, part), "x": rng.random(part)}
        )
    state = engine._shards["s"].state
    number = next(number for number, group in state.manager.groups.items() if group.synopsis == name)
    synopsis = state.synopses[number]
    assert isinstance(synopsis, RunSynopsis)
    return synopsis, state.manager.groups[number]


def _is_asked_for(need: Need, call: str) -> bool:
    return need.input.argument is not None and call.lower().startswith(need.component)


def _lookup_seconds(track: Track, width: int) -> float:
    """Of one window among a thousand that are asked for together."""
    end = track.structure.end
    lo, hi = np.full(1_000, end - width), np.full(1_000, end)
    return measure(lambda run: track.query([track.need], lo, hi)).cpu_median / 1_000
