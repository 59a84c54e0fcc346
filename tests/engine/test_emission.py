"""What advance owes: each closed window once, none lost without a word, no query held up by another."""

from __future__ import annotations

import numpy as np
import pytest

from muntin import Engine
from muntin.errors import MuntinError

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, n BIGINT) TIMESTAMP BY ts"


def pushed(engine: Engine, seconds: int, per_second: int = 100) -> None:
    """Batches of a second each, with no advance between them."""
    for second in range(seconds):
        at = second * SECOND + np.arange(per_second) * (SECOND // per_second)
        engine.push("s", {"ts": at, "n": np.ones(per_second, np.int64)})


def test_nothing_is_missed_within_the_backlog() -> None:
    """Windows that closed long ago are still owed when advance is called for the first time."""
    engine = Engine()
    engine.execute(STREAM)
    engine.register("SELECT SUM(n) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]", "q")
    pushed(engine, 300)
    answers = engine.advance()["q"]
    assert answers["total"].to_pylist() == [100] + [200] * 298
    assert engine.stats()["queries"]["q"]["missed"] == 0


@pytest.mark.parametrize("size", ["2 SECONDS", "10 SECONDS"])
def test_what_the_backlog_cannot_hold_is_counted(size: str) -> None:
    """Beyond the backlog windows are given up, with a warning, a count, and right answers for the rest."""
    engine = Engine(backlog_bytes=0)
    engine.execute(STREAM)
    engine.register(f"SELECT SUM(n) AS total FROM s [RANGE {size} SLIDE 1 SECOND]", "q")
    for start in range(0, 3000, 200):  # too many events to wait
        engine.push("s", {"ts": (start + np.arange(200)) * SECOND, "n": np.ones(200, np.int64)})
    with pytest.warns(RuntimeWarning, match="query 'q' has lost .* windows that closed so long ago"):
        answers = engine.advance()["q"]
    assert set(answers["total"].to_pylist()) == {int(size.split()[0])}
    assert engine.stats()["queries"]["q"]["missed"] == 2999 - answers.num_rows > 0


def test_advancing_after_every_push_misses_nothing() -> None:
    """Not even without a backlog: what a batch closed is kept until the next one."""
    engine = Engine(backlog_bytes=0)
    engine.execute(STREAM)
    engine.register("SELECT COUNT(*) AS events FROM s [RANGE 1 SECOND SLIDE 1 SECOND]", "q")
    seen = []
    for start in range(0, 1000, 100):
        engine.push("s", {"ts": (start + np.arange(100)) * SECOND, "n": np.ones(100, np.int64)})
        seen += engine.advance()["q"]["events"].to_pylist()
    assert seen == [1] * 999


def test_a_sum_that_does_not_fit_holds_up_no_other_query() -> None:
    """Nor its own other windows: that one is given up with a warning, and look-ups of it say why."""
    engine = Engine()
    engine.execute(STREAM)
    engine.register("SELECT SUM(n) AS total FROM s [RANGE 1 SECOND SLIDE 1 SECOND]", "wide")
    engine.register("SELECT COUNT(*) AS events FROM s [RANGE 1 SECOND SLIDE 1 SECOND]", "count")
    engine.push("s", {"ts": [0, 1, 2, 3 * SECOND], "n": [2**62, 2**62, 2**62, 1]})
    with pytest.raises(MuntinError, match="does not fit 64 bits"):
        engine.lookup("wide", at=SECOND)
    with pytest.warns(RuntimeWarning, match="query 'wide' leaves out 1 row, .* SUM\\(n\\) does not fit"):
        answers = engine.advance()
    assert answers["wide"]["total"].to_pylist() == [None, None]
    assert answers["count"]["events"].to_pylist() == [3, 0, 0]
    assert engine.stats()["queries"]["wide"]["overflows"] == 1


def test_queries_that_owe_as_many_other_instants() -> None:
    """One owes 1 to 7 of a window, the other 3 to 9, since it came later and has a longer window besides."""
    engine = Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT) TIMESTAMP BY ts")
    engine.register(
        "SELECT k, COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k", name="early"
    )
    engine.push("s", {"ts": [0], "k": [7]})
    engine.advance(0)
    engine.push("s", {"ts": [2_500_000], "k": [8]})
    engine.register(
        "SELECT k, COUNT(*) OVER [RANGE 5 SECONDS SLIDE 1 SECOND] AS n, "
        "COUNT(*) OVER [RANGE 60 SECONDS SLIDE 1 SECOND] AS m FROM s GROUP BY k",
        name="late",
    )
    answers = engine.advance(9_000_000)
    ends = {
        name: sorted(set(table["window_end"].cast("int64").to_pylist())) for name, table in answers.items()
    }
    assert ends["early"] == [n * 1_000_000 for n in range(1, 8)]
    assert ends["late"] == [n * 1_000_000 for n in range(3, 10)]
