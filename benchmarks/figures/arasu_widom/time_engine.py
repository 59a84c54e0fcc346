"""An engine with the same windows by count and by time: events come at equal distances, so that answers are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.figures.arasu_widom.race import Entrant, race
from benchmarks.figures.arasu_widom.workload import BATCH, values
from muntin import Engine

GAP = 20  # microseconds between two events
AGGREGATES = {"r_int": "SUM(v)", "b_int": "MAX(v)", "quantile_tree": "QUANTILE(v, 0.9)"}
WINDOWS = {"": "[ROWS {rows}]", "_time": "[RANGE {range} MICROSECONDS]"}
ASKED = 200  # look-ups a run, by `value`
PUSHED = 20  # batches a run


class Timed:
    """Engines that hear the same events: all windows in one that is asked, each kind in one that is pushed to."""

    def __init__(self, width: int, kept: int):
        self.width, self.end = width, 0
        self.history = [values(0, seed=0)]
        self.asked = self._engine([*WINDOWS])
        self.pushed = {kind: self._engine([kind]) for kind in WINDOWS}
        for _ in range(-(-kept // BATCH) + 1):
            self.go_on()

    def _engine(self, kinds: list[str]) -> Engine:
        engine = Engine(adaptive=False)
        engine.execute("CREATE STREAM s (ts BIGINT, v BIGINT) TIMESTAMP BY ts")
        for name, aggregate in AGGREGATES.items():
            for kind in kinds:
                window = WINDOWS[kind].format(rows=self.width, range=self.width * GAP)
                engine.register(f"SELECT {aggregate} AS answer FROM s {window}", name + kind)
        return engine

    def batch(self, number: int) -> dict[str, Any]:
        """The events of a batch."""
        at = (np.arange(BATCH) + number * BATCH + 1) * GAP
        return {"ts": at, "v": values(BATCH, seed=number)}

    def go_on(self) -> None:
        """A batch for all engines."""
        batch = self.batch(self.end // BATCH)
        for engine in (self.asked, *self.pushed.values()):
            engine.push("s", batch)
        self.history.append(batch["v"])
        self.end += BATCH

    def ask(self, name: str) -> Any:
        """One answer, many times."""
        for _ in range(ASKED):
            found = self.asked.value(name)
        return found

    def check(self) -> None:
        """Both kinds answer as NumPy does."""
        window = np.concatenate(self.history)[-self.width :]
        right = {"r_int": window.sum(), "b_int": window.max(),
                 "quantile_tree": np.sort(window)[-(-9 * len(window) // 10) - 1]}  # fmt: skip
        for name, expected in right.items():
            for kind in WINDOWS:
                found = self.ask(name + kind)
                assert found == expected, f"{name}{kind} over {self.width} is {found}, NumPy has {expected}"


def measure_engine(widths: tuple[int, ...], kept: int, quick: bool) -> list[dict[str, Any]]:
    """A row of look-ups for each width, and one of updates with the last."""
    engines = [Timed(width, kept) for width in widths]
    names = [name + kind for name in AGGREGATES for kind in WINDOWS]
    points = [
        [Entrant(name, lambda timed=timed, name=name: timed.ask(name), ASKED) for name in names]
        for timed in engines
    ]
    rows = race(points, quick, lambda: [timed.go_on() for timed in engines])
    for timed in engines:
        timed.check()
    last = engines[-1]
    batches = [last.batch(last.end // BATCH + number) for number in range((4 if quick else 13) * PUSHED)]
    parts = {kind: iter(batches) for kind in WINDOWS}

    def push(kind: str) -> None:
        for _ in range(PUSHED):
            last.pushed[kind].push("s", next(parts[kind]))

    (both,) = race([[Entrant(kind, lambda kind=kind: push(kind), PUSHED * BATCH) for kind in WINDOWS]], quick)
    pushed = {
        name + part: value for name in AGGREGATES for part, value in both.items()
    }  # one engine has all three
    found = [{"mode": "engine", "width": width, **row} for width, row in zip(widths, rows, strict=True)]
    return [*found, {"mode": "push", "width": 0, **pushed}]
