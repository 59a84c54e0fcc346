"""Views over windows by count and of more than two inputs: what they hold is recomputed from all events ever."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Engine
from muntin.errors import MuntinError
from muntin.store.event_log import EventLog
from muntin.view.wide_join import match_rows

SECOND = 1_000_000
STREAMS = """
CREATE STREAM a (ts TIMESTAMP, k VARCHAR, x BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS;
CREATE STREAM b (ts TIMESTAMP, k VARCHAR, y BIGINT) TIMESTAMP BY ts;
CREATE STREAM c (ts TIMESTAMP, k VARCHAR, z BIGINT) TIMESTAMP BY ts DELAY 1 SECOND
"""
KEYS = ["p", "q", "r", None]


class Twin:
    """All events of all streams, in order of time and then of arrival."""

    def __init__(self) -> None:
        self.events: dict[str, list[tuple]] = {"a": [], "b": [], "c": []}

    def push(self, engine, random, name, since, until, count):
        ts = random.integers(since * SECOND // 500_000, until * SECOND // 500_000, count) * 500_000  # ties
        ts = ts if name != "b" else np.sort(ts)
        ts = np.sort(ts) if name == "c" and random.random() < 0.5 else ts
        late = SECOND * {"a": 2, "b": 0, "c": 1}[name]
        greatest = np.maximum.accumulate(ts)
        ts = np.where(ts >= greatest - late, ts, greatest)
        keys, values = [KEYS[n] for n in random.integers(0, 4, count)], random.integers(0, 4, count)
        column = {"a": "x", "b": "y", "c": "z"}[name]
        engine.push(name, {"ts": ts, "k": pa.array(keys, pa.string()), column: values})
        self.events[name] += zip(ts.tolist(), keys, values.tolist(), strict=True)

    def window(self, name, now, size=None, rows=None):
        seen = sorted((e for e in self.events[name] if e[0] < now * SECOND), key=lambda e: e[0])
        if rows is not None:
            return seen[-rows:]
        return [e for e in seen if e[0] >= (now - size) * SECOND]


def held(engine, text):
    table = engine.execute(text)
    return Counter(zip(*(column.to_pylist() for column in table.columns[:-3]), strict=True))


def run(engine, twin, random, expected, text, steps=(2, 2, 4, 2, 2, 8, 2, 3, 3, 2, 30, 2, 2), streams="abc"):
    now, most = 0, 0
    for length in steps:
        since, now = now, now + length
        for name in streams:
            twin.push(engine, random, name, since, now, int(random.integers(0, 6)))
        engine.advance(now * SECOND)
        wanted = expected(now - now % 2)
        assert held(engine, text) == wanted
        most = max(most, sum(wanted.values()))
    engine.check()
    return now, most


THREE = """CREATE MATERIALIZED VIEW v AS SELECT a.k, x, y, z FROM a [RANGE 12 SECONDS]
JOIN b [RANGE 8 SECONDS] ON a.k = b.k JOIN c [RANGE 20 SECONDS] ON c.k = b.k AND c.z >= a.x WHERE y < 3
EVERY 2 SECONDS"""


def three(twin, now, sizes=(12, 8, 20)):
    windows = [twin.window(name, now, size) for name, size in zip("abc", sizes, strict=True)]
    return Counter(
        (a[1], a[2], b[2], c[2])
        for a, b, c in itertools.product(*windows)
        if a[1] is not None and a[1] == b[1] == c[1] and c[2] >= a[2] and b[2] < 3
    )


@pytest.mark.parametrize("index", ["", " INDEX 'rebuild 2x2'", " INDEX 'lazy_rebuild 3x2'"])
def test_three_inputs(tmp_path, index):
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(1)
    engine.execute(f"{STREAMS}; {THREE}{index}")
    now, most = run(engine, twin, random, lambda now: three(twin, now), "SELECT k, x, y, z FROM v")
    assert most > 20
    now = now - now % 2
    assert held(engine, "SELECT k, x, y, z FROM v [RANGE 6 SECONDS]") == three(twin, now, (6, 6, 6))
    assert engine.execute("SELECT k FROM v")["complete"].to_pylist()[:1] in ([], [True])


def test_an_equality_with_values_of_several_inputs(tmp_path):
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(8)
    engine.execute(
        f"{STREAMS}; CREATE MATERIALIZED VIEW v AS SELECT a.k, x, y, z FROM a [RANGE 12 SECONDS] JOIN b "
        "[RANGE 8 SECONDS] ON a.k = b.k JOIN c [RANGE 20 SECONDS] ON c.z = a.x + b.y EVERY 2 SECONDS"
    )

    def expected(now):
        windows = [twin.window(name, now, size) for name, size in zip("abc", (12, 8, 20), strict=True)]
        return Counter(
            (a[1], a[2], b[2], c[2])
            for a, b, c in itertools.product(*windows)
            if a[1] is not None and a[1] == b[1] and c[2] == a[2] + b[2]
        )

    assert run(engine, twin, random, expected, "SELECT k, x, y, z FROM v")[1] > 5


def test_an_update_looks_at_what_is_new(tmp_path, monkeypatch):
    """Not at the windows, however much is in them."""
    engine, read, many = Engine(archive=tmp_path), [], 2_000
    engine.execute(
        f"{STREAMS}; CREATE MATERIALIZED VIEW v AS SELECT a.k, x, y, z FROM a [RANGE 1 HOUR] JOIN b "
        "[RANGE 1 HOUR] ON a.k = b.k JOIN c [RANGE 1 HOUR] ON b.k = c.k EVERY 2 SECONDS"
    )
    keys = [f"key {n}" for n in range(many)]
    for name, column in zip("abc", "xyz", strict=True):
        engine.push(name, {"ts": np.full(many, SECOND), "k": keys, column: np.arange(many)})
    engine.advance(2 * SECOND)
    take = EventLog.take
    monkeypatch.setattr(
        EventLog, "take", lambda log, name, numbers: read.append(len(numbers)) or take(log, name, numbers)
    )
    for name, column in zip("abc", "xyz", strict=True):
        engine.push(name, {"ts": [3 * SECOND], "k": ["key 7"], column: [0]})
    engine.advance(4 * SECOND)
    assert engine.execute("SELECT k FROM v WHERE k = 'key 7'").num_rows == 8
    assert engine.execute("SELECT k FROM v").num_rows == many + 7
    assert 0 < sum(read) < 100


ROWS = """CREATE MATERIALIZED VIEW v AS SELECT a.k, x, y FROM a [ROWS 9] JOIN b [ROWS 5] ON a.k = b.k
WHERE x <> 2 EVERY 2 SECONDS"""


def by_rows(twin, now, sizes=(9, 5)):
    left, right = twin.window("a", now, rows=sizes[0]), twin.window("b", now, rows=sizes[1])
    return Counter((a[1], a[2], b[2]) for a in left for b in right if a[1] and a[1] == b[1] and a[2] != 2)


@pytest.mark.parametrize(
    "index", ["", " INDEX 'count_rebuild 4x2'", " INDEX 'reindex 3'", " INDEX 'no_rebuild 2x2'"]
)
def test_windows_by_count(tmp_path, index):
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(2)
    engine.execute(f"{STREAMS}; {ROWS}{index}")
    now, most = run(
        engine, twin, random, lambda now: by_rows(twin, now), "SELECT k, x, y FROM v", streams="ab"
    )
    assert most > 5
    now = now - now % 2
    assert held(engine, "SELECT k, x, y FROM v [ROWS 4]") == by_rows(twin, now, (4, 4))
    assert held(engine, "SELECT k, x, y FROM v WHERE k = 'q'") == Counter(
        {row: n for row, n in by_rows(twin, now).items() if row[0] == "q"}
    )
    answer = engine.execute("SELECT COUNT(*) AS n FROM v")
    assert answer["window_start"].to_pylist() == [None]
    assert answer["complete"].to_pylist() == [True]


def test_a_view_by_count_can_be_read_before_its_first_update(tmp_path):
    engine = Engine(archive=tmp_path)
    engine.execute(f"{STREAMS}; {ROWS}")
    for text in ("SELECT k FROM v", "SELECT k FROM v [ROWS 2]", "SELECT k FROM v [ROWS 2] WHERE k = 'q'"):
        assert engine.execute(text).num_rows == 0


def test_three_inputs_by_count_and_the_same_stream_twice(tmp_path):
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(3)
    engine.execute(
        f"{STREAMS}; CREATE MATERIALIZED VIEW v AS SELECT one.k, one.x, two.x AS other, z FROM a [ROWS 6] AS one "
        "JOIN a [ROWS 3] AS two USING (k) JOIN c [ROWS 4] USING (k) EVERY 2 SECONDS"
    )

    def expected(now):
        windows = [
            twin.window("a", now, rows=6),
            twin.window("a", now, rows=3),
            twin.window("c", now, rows=4),
        ]
        return Counter(
            (a[1], a[2], b[2], c[2])
            for a, b, c in itertools.product(*windows)
            if a[1] is not None and a[1] == b[1] == c[1]
        )

    assert run(engine, twin, random, expected, "SELECT k, x, other, z FROM v")[1] > 5


NEGATIONS = {
    "time": ("RANGE 20 SECONDS", "RANGE 6 SECONDS", {"size": 20}, {"size": 6}),
    "count": ("ROWS 7", "ROWS 2", {"rows": 7}, {"rows": 2}),
    "mixed": ("ROWS 7", "RANGE 6 SECONDS", {"rows": 7}, {"size": 6}),
}


@pytest.mark.parametrize("kind", NEGATIONS)
def test_not_exists(tmp_path, kind):
    left, right, ours, theirs = NEGATIONS[kind]
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(4)
    engine.execute(
        f"{STREAMS}; CREATE MATERIALIZED VIEW v AS SELECT x, x + 1 AS more FROM a [{left}] WHERE NOT EXISTS "
        f"(SELECT * FROM b [{right}] WHERE b.k = a.k AND y < 9) EVERY 2 SECONDS"
    )

    def expected(now):
        blocked = {k for _, k, y in twin.window("b", now, **theirs) if k is not None}
        return Counter((x, x + 1) for _, k, x in twin.window("a", now, **ours) if k not in blocked)

    assert run(engine, twin, random, expected, "SELECT x, more FROM v", streams="ab")[1] > 3
    assert engine.lookup("v").column_names == ["x", "more"]  # what it is negated on is kept, and not shown


def test_not_exists_is_except(tmp_path):
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(5)
    engine.execute(
        f"{STREAMS}; CREATE MATERIALIZED VIEW v AS SELECT k, x FROM a [RANGE 20 SECONDS] WHERE x < 4 AND "
        "NOT EXISTS (SELECT 1 FROM b [RANGE 6 SECONDS] AS o WHERE o.y > 0 AND o.k = a.k) EVERY 2 SECONDS; "
        "CREATE MATERIALIZED VIEW w AS SELECT k, x FROM a [RANGE 20 SECONDS] WHERE x < 4 "
        "EXCEPT SELECT k FROM b [RANGE 6 SECONDS] WHERE y > 0 EVERY 2 SECONDS"
    )
    run(
        engine,
        twin,
        random,
        lambda now: held(engine, "SELECT k, x FROM w"),
        "SELECT k, x FROM v",
        streams="ab",
    )


@given(seed=st.integers(0, 10_000), stop=st.integers(1, 8))
@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("view", [THREE, ROWS], ids=["three", "rows"])
def test_checkpoints_and_restarts(tmp_path_factory, view, seed, stop):
    """Restored from a checkpoint, or started anew and fed the same streams, a view goes on as if nothing was."""
    folder, random, twin = tmp_path_factory.mktemp("views"), np.random.default_rng(seed), Twin()
    text = "SELECT k, x, y, z FROM v" if view is THREE else "SELECT k, x, y FROM v"
    expected = three if view is THREE else by_rows
    engine = Engine(archive=folder / "archive")
    engine.execute(f"{STREAMS}; {view}")
    for now in range(2, 22, 2):
        for name in "abc":
            twin.push(engine, random, name, now - 2, now, int(random.integers(0, 5)))
        engine.advance(now * SECOND)
        if now == 2 * stop and seed % 2:
            engine.checkpoint(folder / "checkpoint")
            engine.close()
            engine = Engine.restore(folder / "checkpoint", archive=folder / "archive")
        elif now == 2 * stop:
            engine.close()
            engine = Engine(archive=folder / "archive")
            engine.execute(f"{STREAMS}; {view}")
            for name, column in zip("abc", "xyz", strict=True):
                ts, keys, values = zip(*twin.events[name], strict=True) if twin.events[name] else ((), (), ())
                batch = {"ts": pa.array(ts, pa.int64()), "k": pa.array(keys, pa.string()),
                         column: pa.array(values, pa.int64())}  # fmt: skip
                engine.push(name, batch)
            engine.advance(now * SECOND)
        assert held(engine, text) == expected(twin, now)
    engine.check()


def test_a_view_by_count_goes_on_without_its_past(tmp_path):
    """What the archive has counted counts, though the events are not pushed again."""
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(6)
    engine.execute(f"{STREAMS}; {ROWS}")
    run(engine, twin, random, lambda now: by_rows(twin, now), "SELECT k, x, y FROM v", (2, 2, 2), "ab")
    before = held(engine, "SELECT k, x, y FROM v")
    engine.close()
    engine = Engine(archive=tmp_path)
    engine.execute(f"{STREAMS}; {ROWS}")
    assert held(engine, "SELECT k, x, y FROM v") == before
    for now in range(8, 30, 2):
        for name in "ab":
            twin.push(engine, random, name, now - 2, now, 3)
        engine.advance(now * SECOND)
    assert held(engine, "SELECT k, x, y FROM v") == by_rows(twin, 28)
    engine.check()


def test_top_k_quantiles_and_groups_of_smaller_windows(tmp_path):
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(7)
    engine.execute(f"{STREAMS}; {THREE}")
    now, _ = run(
        engine, twin, random, lambda now: three(twin, now), "SELECT k, x, y, z FROM v", (2, 4, 6, 2, 2)
    )
    rows = list(three(twin, now).elements())
    counts = Counter(row[0] for row in rows)
    top = engine.execute(
        "SELECT k, COUNT(*) AS n, MEDIAN(z) AS m FROM v GROUP BY k ORDER BY n DESC, k LIMIT 2"
    )
    best = sorted(counts, key=lambda k: (-counts[k], k))[:2]
    assert top["k"].to_pylist() == best
    assert top["n"].to_pylist() == [counts[k] for k in best]
    for k, m in zip(top["k"].to_pylist(), top["m"].to_pylist(), strict=True):
        values = sorted(row[3] for row in rows if row[0] == k)
        assert m == values[(len(values) + 1) // 2 - 1]
    by_z = engine.execute("SELECT k, z FROM v ORDER BY z DESC LIMIT 3")
    assert by_z["z"].to_pylist() == sorted((row[3] for row in rows), reverse=True)[:3]
    texts = [f"SELECT k, x, y, z FROM v [RANGE {size} SECONDS] WHERE k = 'q'" for size in (2, 6, 12)]
    before = engine.stats()["views"]["v"]["probes"]
    many = engine.select_many(texts)
    assert engine.stats()["views"]["v"]["probes"] == before + 1  # one for all of them
    assert [table.to_pylist() for table in many] == [engine.execute(text).to_pylist() for text in texts]
    assert many[0].num_rows < many[2].num_rows


REFUSED = {
    "SELECT a.k FROM a [ROWS 5] JOIN b [RANGE 5 SECONDS] ON a.k = b.k EVERY 1 SECOND": "do not mix",
    "SELECT a.k FROM a [ROWS 5] JOIN b [ROWS 5] ON a.k = b.k": "say how often",
    "SELECT a.k FROM a [ROWS 5 SLIDE 2] JOIN b [ROWS 5] ON a.k = b.k EVERY 1 SECOND": "instead of the SLIDE",
    "SELECT a.k FROM a [ROWS 5] JOIN b [ROWS 5] ON a.x < b.y EVERY 1 SECOND": "needs an equality",
    "SELECT k FROM a [ROWS 5] JOIN b [ROWS 5] ON a.k = b.k EVERY 1 SECOND": "'k' is in both streams",
    "SELECT a.k FROM a [ROWS 5] JOIN b [ROWS 5] ON a.k = c.k JOIN c [ROWS 5] USING (k) EVERY 1 SECOND": "joined later",
    "SELECT a.k FROM a [ROWS 5 TO 2] JOIN b [ROWS 5] ON a.k = b.k EVERY 1 SECOND": "ends in the past",
    "SELECT a.k FROM a [ROWS 5] JOIN a [ROWS 5] ON a.k = a.k EVERY 1 SECOND": "two inputs are called",
    "SELECT k FROM a [ROWS 5] WHERE NOT EXISTS (SELECT 1 FROM b [ROWS 5]) EVERY 1 SECOND": "needs an equality",
    "SELECT k FROM a [ROWS 5] WHERE x = 1 OR NOT EXISTS (SELECT 1 FROM b [ROWS 5] WHERE a.k = b.k) EVERY 1 SECOND":
        "NOT EXISTS stands alone",
    "SELECT k FROM a [ROWS 5] WHERE NOT EXISTS (SELECT 1 FROM b [ROWS 5] WHERE a.k < b.k) EVERY 1 SECOND":
        "by equality",
    "SELECT a.k FROM a [ROWS 5] JOIN b [ROWS 5] ON a.k = b.k ORDER BY k EVERY 1 SECOND": "ordered by its key",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(tmp_path, text):
    engine = Engine(archive=tmp_path)
    engine.execute(STREAMS)
    with pytest.raises(MuntinError, match=REFUSED[text]):
        engine.execute(f"CREATE MATERIALIZED VIEW v AS {text}")
    assert not list(tmp_path.iterdir())


def test_streams_of_views_cannot_be_dropped(tmp_path):
    engine = Engine(archive=tmp_path)
    engine.execute(f"{STREAMS}; {THREE}")
    with pytest.raises(MuntinError, match="'c' is read by query 'v'"):
        engine.execute("DROP STREAM c")
    with pytest.raises(MuntinError, match="ORDER BY needs LIMIT"):
        engine.execute("SELECT k, COUNT(*) FROM a [RANGE 5 SECONDS] GROUP BY k ORDER BY k")
    with pytest.raises(MuntinError, match="'nn' is none"):
        engine.execute("SELECT k, COUNT(*) AS n FROM v GROUP BY k ORDER BY nn")
    engine.execute("DROP MATERIALIZED VIEW v; DROP STREAM c")


VALUED = st.lists(
    st.tuples(st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]), st.integers(0, 2)), max_size=12
)


@given(VALUED, VALUED)
@settings(max_examples=60, deadline=None)
def test_matching_rows(left, right):
    def columns(rows):
        return [pa.array([x for x, _ in rows], pa.float64()), pa.array([n for _, n in rows], pa.int64())]

    def equal(x, y):
        return x is not None and y is not None and (x == y or (x != x and y != y))

    found = match_rows(columns(left), columns(right))
    expected = [
        (i, j) for i, (x, n) in enumerate(left) for j, (y, m) in enumerate(right) if n == m and equal(x, y)
    ]
    assert list(zip(*(each.tolist() for each in found), strict=True)) == expected
