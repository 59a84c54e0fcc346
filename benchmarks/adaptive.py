"""An engine that adapts beside engines that keep one structure, while the load changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.measure import RUNS, Column, Result, Timing, measure_side_by_side
from muntin import Engine

CALLS = {
    "MAX(x)": ("b_int", "monotone_deque", "materialize_none"),
    "SUM(n)": ("r_int", "b_int", "materialize_none"),
}
COLUMNS = [
    Column("call", "queries"), Column("engine", "structure"), Column("updates", "updates only, ms", ",.1f"),
    Column("lookups", "look-ups, ms", ",.1f"), Column("mixed", "mixed, ms", ",.1f"),
    Column("total", "all, ms", ",.1f"), Column("ratio", "of adaptive", ".2f"), Column("spread", "spread", ".0%"),
]  # fmt: skip
BATCH = 10_000
ADAPTIVE = "adaptive"
_RNG = np.random.default_rng(7)
VALUES = [(_RNG.integers(0, 1_000, BATCH), _RNG.random(BATCH)) for _ in range(31)]  # of batches, in turn


class Load:
    """One engine, and the three kinds of load it is put under, again and again."""

    def __init__(self, call: str, structure: str, windows: int, longest: int, pushes: int):
        self.engine = Engine(adaptive=structure == ADAPTIVE)
        self.engine.execute("CREATE STREAM s (ts TIMESTAMP, n BIGINT, x DOUBLE) TIMESTAMP BY ts")
        hint = "" if structure == ADAPTIVE else f"/*+ SYNOPSIS({structure}) */ "
        lengths = [longest * (1 + i) // windows for i in range(windows)]
        self.engine.register_many(
            {
                f"q{i}": f"SELECT {hint}{call} AS v FROM s [RANGE {each} MICROSECONDS]"
                for i, each in enumerate(lengths)
            }
        )
        # emission is another benchmark's matter: nobody owes anything here
        state = self.engine._shards["s"].state
        for registration in state.registrations.values():
            registration.emitted_to = 2**62
        state.note_emitted()
        self.names, self.longest, self.pushes = list(self.engine.queries), longest, pushes
        self._turn = 0

    def updates(self, run: int) -> None:
        """Nobody looks up."""
        for _ in range(self.pushes):
            self.push()

    def lookups(self, run: int) -> None:
        """All windows five times, and one of them a hundred times, for each batch."""
        for _ in range(max(1, self.pushes // 40)):
            self.push()
            for _ in range(5):
                self.engine.lookup_many(self.names)
            for _ in range(100):
                self.engine.value(self.names[-1])

    def mixed(self, run: int) -> None:
        """One window once, for each batch."""
        for turn in range(self.pushes):
            self.push()
            self.engine.value(self.names[turn % len(self.names)])

    def push(self) -> None:
        self.engine.push("s", _batch(self._turn))
        self._turn += 1

    def check(self, call: str) -> None:
        """The widest window, against NumPy."""
        recent = [_batch(turn) for turn in range(self._turn - -(-self.longest // BATCH), self._turn)]
        column = np.concatenate([batch["n" if "n" in call else "x"].to_numpy() for batch in recent])[
            -self.longest :
        ]
        assert self.engine.value(self.names[-1]) == (column.sum() if "n" in call else column.max())


def run(quick: bool) -> Result:
    """Engines take turns in each phase; phases follow one another, so that every run has three changes of load."""
    windows, longest, pushes = (5, 20_000, 20) if quick else (50, 100_000, 400)
    rows: list[dict[str, object]] = []
    for call, structures in CALLS.items():
        loads = [Load(call, structure, windows, longest, pushes) for structure in (ADAPTIVE, *structures)]
        phases: list[Callable[[int], object]] = [load.updates for load in loads]
        phases += [load.lookups for load in loads] + [load.mixed for load in loads]
        timings = measure_side_by_side(phases, runs=2 * RUNS, warm_ups=1)
        by_load = [timings[place :: len(loads)] for place in range(len(loads))]
        for structure, load, own in zip((ADAPTIVE, *structures), loads, by_load, strict=True):
            rows.append(_row(call, structure, own, by_load[0]))
            load.check(call)
    return Result(
        name="adaptive",
        title="Structures that change with the load",
        notes=(
            f"{windows} windows of up to {longest:,} events. Three loads in turn: {pushes} batches of {BATCH:,} "
            f"events; {max(1, pushes // 40)} batches, with all windows looked up together 5 times and one of them "
            f"100 times after each; {pushes} batches with one look-up after each. The adaptive engine starts with "
            "what the rules say and pays for its changes; the others were told by a hint what to use. CPU seconds; "
            "the ratio is the median over the rounds. Answers are compared with NumPy."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"runs": 2 * RUNS, "windows": windows, "batch_rows": BATCH},
    )


def _batch(turn: int) -> pa.Table:
    at = turn * BATCH + np.arange(BATCH)
    n, x = VALUES[turn % len(VALUES)]
    return pa.table({"ts": pa.array(at).cast(pa.timestamp("us")), "n": n, "x": x})


def _row(call: str, structure: str, own: list[Timing], adaptive: list[Timing]) -> dict[str, object]:
    updates, lookups, mixed = (each.cpu_median * 1e3 for each in own)
    ours, theirs = (np.sum([each.cpu_seconds for each in some], axis=0) for some in (adaptive, own))
    return {
        "call": call, "engine": structure, "updates": updates, "lookups": lookups, "mixed": mixed,
        "total": float(np.median(theirs)) * 1e3, "ratio": float(np.median(theirs / ours)),
        "spread": float((theirs.max() - theirs.min()) / np.median(theirs)),
    }  # fmt: skip
