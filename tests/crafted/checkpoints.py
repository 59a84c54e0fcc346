"""Reads mutants of checkpoints that hold every kind of state, and goes on with what was restored."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from crafted.mutants import each_of, mutate_arrays, mutate_description, try_all
from muntin import Engine
from muntin.engine.checkpoint import write_checkpoint
from muntin.store.saved import pack, unpack

_MERGED = "COUNT(*) AS c, SUM(x) AS s, AVG(n) AS a, MIN(x) AS i, MAX(n) AS m, FIRST(w) AS f, LAST(w) AS l, VAR_POP(x)"
_STREAM = "(ts BIGINT, k BIGINT, w VARCHAR, x DOUBLE, n BIGINT) TIMESTAMP BY ts DELAY 1 SECOND"
_TABLE = "CREATE TABLE r (k BIGINT, w VARCHAR, most BIGINT, span INTERVAL, PRIMARY KEY (k))"
PLANS: dict[str, list[str]] = {
    "rings": [
        f"SELECT k, w, {_MERGED}, QUANTILE(x, 0.5) FROM s [RANGE 8 SECONDS] WHERE n > -90 GROUP BY k, w",
        "SELECT SUM(x), COUNT(DISTINCT w) FROM s [RANGE 5 SECONDS]",
    ],
    "rows": [
        f"SELECT k, {_MERGED} FROM s [ROWS 5] GROUP BY k",
        "SELECT k, w, SUM(n) FROM s [ROWS 3 SLIDE 2] GROUP BY k, w",
        f"SELECT {_MERGED} FROM s [ROWS 40 TO 3]",
        "SELECT SUM(n), COUNT(DISTINCT w) FROM s [ROWS 30 SLIDE 7]",
    ],
    "slices": [
        f"SELECT k, {_MERGED} FROM s [RANGE 8 SECONDS SLIDE 2 SECONDS] GROUP BY k",
        f"SELECT {_MERGED} FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] WHERE n > 0",
        "SELECT k, SUM(n) AS t FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k HAVING SUM(n) > 0 EMIT CHANGES",
    ],
    "stairs": [
        f"SELECT /*+ SYNOPSIS(stairs) */ k, {_MERGED} FROM s [RANGE 6 SECONDS SLIDE 1 SECOND] GROUP BY k",
        f"SELECT /*+ SYNOPSIS(stairs) */ k, {_MERGED} FROM s [RANGE 1 MINUTE SLIDE 12 SECONDS] GROUP BY k",
    ],
    "structures": [
        *(
            f"SELECT /*+ SYNOPSIS({name}) */ {_MERGED} FROM s {window}"
            for name in ("b_int", "psoup")
            for window in ("[RANGE 7 SECONDS]", "[ROWS 40 TO 3]")
        ),
        "SELECT /*+ SYNOPSIS(r_int) */ SUM(n) FROM s [RANGE 7 SECONDS]",
        "SELECT /*+ SYNOPSIS(l_int) */ SUM(n), MIN(x) FROM s [ROWS 30]",
        "SELECT /*+ SYNOPSIS(panes) */ SUM(n) FROM s [RANGE 8 SECONDS SLIDE 2 SECONDS]",
        "SELECT /*+ SYNOPSIS(paired_windows) */ SUM(n) FROM s [RANGE 8 SECONDS SLIDE 3 SECONDS]",
        "SELECT /*+ SYNOPSIS(quantile_tree) */ MEDIAN(x) FROM s [RANGE 7 SECONDS]",
        "SELECT /*+ SYNOPSIS(range_tree) */ SUM(x) FILTER (WHERE n > 0) FROM s [RANGE 7 SECONDS]",
        "SELECT /*+ SYNOPSIS(materialize_all) */ SUM(n) FROM s [ROWS 30]",
        "SELECT /*+ SYNOPSIS(monotone_deque) */ MIN(x) FROM s [ROWS 30]",
    ],
    "sketches": [
        "SELECT APPROX_QUANTILE(x, 0.3, 0.4) AS q FROM s [RANGE 1 HOUR]",
        "SELECT APPROX_FREQUENT(w, 0.5, 0.4) AS f FROM s [RANGE 1 HOUR]",
        "SELECT APPROX_COUNT(n = 7, 0.4) AS c FROM s [ROWS 2000]",
        "SELECT APPROX_FREQUENT(w, 0.4, 0.2, 0.1) AS f FROM s [RANGE 1 HOUR]",
        "SELECT APPROX_QUANTILE(x, 0.3, 0.4, 0.2) AS q FROM s [RANGE 1 HOUR]",
    ],
    "keyed sketches": [
        "SELECT k, APPROX_QUANTILE(x, 0.3, 0.4) AS q FROM s [RANGE 1 HOUR] GROUP BY k",
        "SELECT k, APPROX_FREQUENT(w, 0.5, 0.4) AS f FROM s [RANGE 1 HOUR] GROUP BY k",
        "SELECT k, APPROX_FREQUENT(w, 0.4, 0.2, 0.1) AS f FROM s [RANGE 1 HOUR] GROUP BY k",
    ],
    "table joins": [
        "SELECT s.k, SUM(s.n) AS n, r.most FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] JOIN r ON s.k = r.k GROUP BY s.k",
        "SELECT s.k, s.w, COUNT(*), r.span FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] LEFT JOIN r ON s.k = r.k "
        "AND s.w = r.w GROUP BY s.k, s.w HAVING COUNT(*) > 2 EMIT CHANGES",
    ],
    "joins": [
        "SELECT s.w, t.w AS o, s.x FROM s [RANGE 5 SECONDS] JOIN t [RANGE 8 SECONDS] ON s.k = t.k",
        "SELECT s.w, t.n FROM s [RANGE 4 SECONDS] JOIN t [RANGE 4 SECONDS] ON s.k = t.k AND s.w = t.w EMIT CHANGES",
    ],
}


def events(seed: int, count: int, begin: int, keys: int = 4) -> dict[str, Any]:
    random_numbers = np.random.default_rng(seed)
    at = np.sort(random_numbers.integers(0, 30_000_000, count)) + begin
    at += random_numbers.integers(-300_000, 300_000, count)
    words = np.array(["a", "b", "cc", "d d", ""])
    return {
        "ts": at,
        "k": random_numbers.integers(0, keys, count),
        "w": words[random_numbers.integers(0, 5, count)],
        "x": random_numbers.normal(size=count),
        "n": random_numbers.integers(-100, 100, count),
    }


def write_all(folder: Path) -> None:
    """A checkpoint for each plan."""
    for name, texts in PLANS.items():
        engine = Engine()
        for stream in ("s", "t"):
            engine.execute(f"CREATE STREAM {stream} {_STREAM}")
        engine.execute(_TABLE)
        engine.load(
            "r", {"k": [3, 1, 2], "w": ["a", None, "b"], "most": [5, None, 7], "span": ["5 minutes"] * 3}
        )
        for number, text in enumerate(texts):
            engine.register(text, f"q{number}")
        count = 6000 if "sketches" in name else 150
        for part in range(3):
            engine.push("s", events(part, count, part * 30_000_000))
            engine.push("t", events(part + 10, 60, part * 30_000_000))
            engine.load("r", {"k": [part], "w": ["a"], "most": [part], "span": [None]})
            if name != "table joins" or part < 2:  # some of its answers are held
                engine.advance()
        engine.checkpoint(folder / name)


def read_and_use(folder: Path, chance: random.Random) -> None:
    """Restore a mutant, and do with it all that can be done with an engine."""
    path = folder / chance.choice(sorted(PLANS))
    description, arrays = unpack(path.read_bytes()[40:])
    if chance.random() < 0.75:
        mutate_arrays(arrays, chance)
    else:
        description = mutate_description(description, chance)
    mutant = folder / "mutant"
    write_checkpoint(mutant, pack(description, arrays))
    engine = Engine.restore(mutant)
    use(engine)
    engine.checkpoint(mutant)
    use(Engine.restore(mutant))


def use(engine: Engine) -> None:
    each_of(engine.queries, engine.lookup)
    for part in range(2):
        for stream in engine.streams:
            batch = events(part, 100, 90_000_000 + part * 30_000_000, keys=6)
            each_of([stream], lambda name, batch=batch: engine.push(name, batch))
        each_of(engine.queries, engine.lookup)
        each_of([None], engine.advance)
    for table in engine.tables:
        rows = {"k": [2, 9], "w": ["c", "a"], "most": [None, 1], "span": ["1 hour", None]}
        each_of([table], lambda name, rows=rows: engine.load(name, rows))
        each_of([table], lambda name: engine.execute(f"DELETE FROM \"{name}\" WHERE k = 2 OR w = 'a'"))
        each_of([table], lambda name: engine.execute(f'SELECT * FROM "{name}"'))
    each_of([None], lambda _: engine.explain())
    each_of([None], lambda _: engine.stats())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    try_all(read_and_use, lambda folder: [use(Engine.restore(folder / name)) for name in PLANS])
