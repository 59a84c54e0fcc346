"""Approximate answers through SQL: within their error, which is within what was asked for, whatever happens."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Engine, MuntinError, WindowTooLarge
from tests.sketch.streams import rank_error

SECOND = 1_000_000
STREAM = (
    "CREATE STREAM s (ts BIGINT, k BIGINT, n BIGINT, x DOUBLE, w VARCHAR) TIMESTAMP BY ts DELAY {} SECONDS"
)


pytestmark = pytest.mark.usefixtures("small_blocks")


class Events:
    """All events of a random stream, in order, as the engine takes them in: out of order within the delay."""

    def __init__(self, seed: int, count: int, seconds: int = 60, keys: int = 3):
        random = np.random.default_rng(seed)
        at = np.sort(random.integers(0, seconds * SECOND, count) // 20_000 * 20_000)  # with ties
        self.arrival = np.argsort(at + random.integers(0, SECOND, count), kind="stable")
        x = random.normal(size=count)
        x[random.random(count) < 0.03] = np.nan
        skewed = random.zipf(1.6, count) % 50
        self.at, self.x, self.n = at, x, skewed
        self.k = random.zipf(1.7, count) % keys
        self.w = np.array([f"word {number}" for number in skewed])
        # events with the same time are in the order in which they came
        self.order = self.arrival[np.argsort(at[self.arrival], kind="stable")]

    def batches(self, cuts: list[int]) -> list[dict[str, Any]]:
        edges = sorted({0, len(self.at), *(cut % (len(self.at) + 1) for cut in cuts)})
        parts = [self.arrival[lo:hi] for lo, hi in itertools.pairwise(edges)]
        return [{name: getattr(self, {"ts": "at"}.get(name, name))[part] for name in ("ts", "k", "n", "x", "w")}
                for part in parts]  # fmt: skip

    def window(self, start: int, end: int, seen: np.ndarray, of: str, key: int | None = None) -> np.ndarray:
        """Values of a time window, of the events that have come."""
        some = self.order[np.isin(self.order, seen)]
        kept = (self.at[some] >= start) & (self.at[some] < end)
        if key is not None:
            kept &= self.k[some] == key
        values: np.ndarray = getattr(self, of)[some[kept]]
        return values[~np.isnan(values)] if of == "x" else values


def micros(instant: Any) -> int:
    return int(np.datetime64(instant, "us").astype(np.int64))


def assert_quantile(row: dict[str, Any], name: str, phi: float, eps: float, window: np.ndarray) -> None:
    assert (row[name] is None) == (len(window) == 0)
    if len(window):
        assert row[f"{name}_error"] <= eps
        assert rank_error(window, phi, row[name]) <= row[f"{name}_error"] * len(window) + 1e-9  # of rounding


def assert_items(row: dict[str, Any], support: float, eps: float, window: np.ndarray) -> None:
    true = Counter(window.tolist())
    listed = {each["item"]: each for each in row["top"]}
    assert {item for item, often in true.items() if often > support * len(window)} <= listed.keys()
    for item, each in listed.items():
        assert each["estimate"] == each["lower"] <= true[item] <= each["upper"]
        assert each["upper"] - each["lower"] <= eps * len(window)
        assert true[item] > (support - eps) * len(window)
    assert_weights(row["heavy"], support, eps, window)
    assert row["one"] <= true[1] <= row["one"] + row["one_error"]
    assert row["one_error"] <= eps * len(window)


def assert_weights(listed: list[dict[str, Any]], support: float, eps: float, window: np.ndarray) -> None:
    """Items 0 and 1 have weights below 0, so that they do not count, and item 2 has none."""
    true = Counter[int]()
    for item in window[window > 2].tolist():
        true[item] += (item - 2) * 100
    total = sum(true.values())
    assert {item for item, weight in true.items() if weight > support * total} <= {
        each["item"] for each in listed
    }
    for each in listed:
        assert each["estimate"] == each["lower"] <= true[each["item"]] <= each["upper"]
        assert each["upper"] - each["lower"] <= eps * total
        assert true[each["item"]] > (support - eps) * total


QUANTILES = "APPROX_QUANTILE(x, 0.9, 0.25) AS p90, APPROX_QUANTILE(x, 0.1, 0.3) AS p10"
ITEMS = (
    "APPROX_FREQUENT(n, 0.4, 0.25) AS top, APPROX_COUNT(n = 1, 0.25) AS one, "
    "APPROX_FREQUENT(n, 0.4, 0.25, weight => (n - 2) * 100) AS heavy"
)
TIME = (
    "[RANGE 20 SECONDS]",
    "[RANGE 7 SECONDS]",
    "[RANGE 30 SECONDS SLIDE 5 SECONDS]",
    "[RANGE 25 SECONDS TO 10 SECONDS SLIDE 5 SECONDS]",
)


def assert_time_row(row: dict[str, Any], events: Events, seen: np.ndarray, key: int | None) -> None:
    bounds = micros(row["window_start"]), micros(row["window_end"])
    window = events.window(*bounds, seen, "x", key)
    assert_quantile(row, "p90", 0.9, 0.25, window)
    assert_quantile(row, "p10", 0.1, 0.3, window)
    assert_items(row, 0.4, 0.25, events.window(*bounds, seen, "n", key))
    assert row["complete"]


@pytest.mark.parametrize("keys", ["", "k"])
@settings(max_examples=12)
@given(
    seed=st.integers(0, 1000), count=st.integers(1, 3000), delay=st.sampled_from([1, 5]),
    cuts=st.lists(st.integers(0, 3000), max_size=4), advances=st.booleans(), saves=st.booleans(),
)  # fmt: skip
def test_time_windows(
    tmp_path_factory: Any,
    keys: str,
    seed: int,
    count: int,
    delay: int,
    cuts: list[int],
    advances: bool,
    saves: bool,
) -> None:
    """Looked up and emitted, with restarts, in any batches: all within bounds."""
    events = Events(seed, count)
    engine = Engine()
    engine.execute(STREAM.format(delay))
    chosen, group = ("k, ", " GROUP BY k") if keys else ("", "")
    for number, window in enumerate(TIME):
        engine.register(f"SELECT {chosen}{QUANTILES}, {ITEMS} FROM s {window}{group}", f"q{number}")
    seen = np.zeros(0, np.int64)
    done = 0
    for batch in events.batches(cuts):
        engine.push("s", batch)
        done += len(batch["ts"])
        seen = events.arrival[:done]
        answers = [engine.advance()] if advances else []
        answers.append({name: engine.lookup(name) for name in engine.queries})
        for tables in answers:
            for table in tables.values():
                for row in table.to_pylist():
                    assert_time_row(row, events, seen, row.get("k"))
        engine.check()
        if saves:
            path = tmp_path_factory.mktemp("state") / "state"
            engine.checkpoint(path)
            engine = Engine.restore(path)
    if keys:  # exactly the keys that have an event are there
        for name in engine.queries:
            found = engine.lookup(name)
            if not found.num_rows:
                continue
            start, end = (micros(found[side][0].as_py()) for side in ("window_start", "window_end"))
            in_window = (events.at[seen] >= start) & (events.at[seen] < end)
            assert sorted(found["k"].to_pylist()) == sorted(set(events.k[seen][in_window].tolist()))


ROWS = {  # by name: window, slide, what is counted, and what of it is asked for
    "last": ("[ROWS 2000]", "", ""),
    "steps": ("[ROWS 900 SLIDE 70]", "", ""),
    "some": ("[ROWS 500]", " WHERE n > 1", ""),
    "past": ("[ROWS 1500 TO 400]", "", ""),
    "among": ("[ROWS 1200 TO 100 SLIDE 30]", "", " FILTER (WHERE n > 2)"),
}


@settings(max_examples=10)
@given(
    seed=st.integers(0, 1000), count=st.integers(1, 3000), cuts=st.lists(st.integers(0, 3000), max_size=4),
    saves=st.booleans(),
)  # fmt: skip
def test_rows_windows(tmp_path_factory: Any, seed: int, count: int, cuts: list[int], saves: bool) -> None:
    """NULL and NaN, and what does not pass FILTER, have their places, but are no part of n."""
    events = Events(seed, count)
    engine = Engine()
    engine.execute(STREAM.format(1))
    for name, (window, where, filter) in ROWS.items():
        asked = f"{QUANTILES}, {ITEMS}".replace(" AS ", f"{filter} AS ")
        engine.register(f"SELECT {asked} FROM s {window}{where}", name)
    emitted = Counter[str]()
    for batch in events.batches(cuts):
        engine.push("s", batch)
        emitted.update({name: table.num_rows for name, table in engine.advance().items()})
        engine.check()
        if saves:
            path = tmp_path_factory.mktemp("state") / "state"
            engine.checkpoint(path)
            engine = Engine.restore(path)
    order = events.order
    final = int((events.at < events.at.max() - SECOND).sum())
    assert emitted["steps"] == final // 70
    assert emitted["among"] == final // 30
    for name, rows, to, slide, kept in (
        ("last", 2000, 0, 1, order), ("steps", 900, 0, 70, order), ("some", 500, 0, 1, order[events.n[order] > 1]),
        ("past", 1500, 400, 1, order), ("among", 1200, 100, 30, order),
    ):  # fmt: skip
        end = len(kept) // slide * slide
        counted = kept[max(0, end - rows) : max(0, end - to)]
        (row,) = engine.lookup(name).to_pylist()
        asked = counted[events.n[counted] > 2] if name == "among" else counted
        x = events.x[asked]
        assert_quantile(row, "p90", 0.9, 0.25, x[~np.isnan(x)])
        assert_quantile(row, "p10", 0.1, 0.3, x[~np.isnan(x)])
        assert_items(row, 0.4, 0.25, events.n[asked])
        assert row["complete"]
        if len(counted):
            assert micros(row["window_end"]) == events.at[counted[-1]] + 1
            assert events.at[counted[0]] <= micros(row["window_start"]) < micros(row["window_end"])
        else:
            assert row["window_start"] is row["window_end"] is None


@pytest.mark.parametrize("window", [*TIME, "[ROWS 1500]", "[ROWS 900 SLIDE 70]"])
@given(seed=st.integers(0, 100), cuts=st.lists(st.integers(0, 4000), max_size=5))
@settings(max_examples=8)
def test_batches_change_no_answer(window: str, seed: int, cuts: list[int]) -> None:
    """Without keys not even within the error: what a sketch answers depends on events and instants alone."""
    events = Events(seed, 4000)
    tables = []
    for some in ([], cuts):
        engine = Engine()
        engine.execute(STREAM.format(1))
        engine.register(f"SELECT {QUANTILES}, {ITEMS} FROM s {window}", "q")
        emitted = []
        for batch in events.batches(some):
            engine.push("s", batch)
            emitted += engine.advance().get("q", engine.lookup("q").slice(0, 0)).to_pylist()
        tables.append((emitted if "SLIDE" in window else [], engine.lookup("q").to_pylist()))
    assert tables[0] == tables[1]


def loaded(count: int = 4000, delay: int = 1, **options: Any) -> tuple[Engine, Events]:
    engine, events = Engine(**options), Events(1, count)
    engine.execute(STREAM.format(delay))
    return engine, events


def push_all(engine: Engine, events: Events, batches: int = 8) -> None:
    for batch in events.batches(list(range(0, len(events.at), -(-len(events.at) // batches)))):
        engine.push("s", batch)
        engine.advance()


def test_one_sketch_for_all_windows_and_parameters() -> None:
    engine, events = loaded()
    for number, (phi, eps, window) in enumerate(
        [(0.5, 0.2, TIME[0]), (0.99, 0.1, TIME[1]), (0.1, 0.3, TIME[2])]
    ):
        engine.register(f"SELECT APPROX_QUANTILE(x, {phi}, {eps}) AS p FROM s {window}", f"q{number}")
    push_all(engine, events)
    plan = engine.explain()
    assert plan.count("group ") == 1
    assert plan.count("sketch of x") == 1
    assert "error at most 0.1 of the window" in plan
    engine.drop("q1")  # the tightest; those that are left lose nothing
    assert engine.lookup("q0")["complete"].to_pylist() == [True]


def test_a_tighter_promise_while_the_stream_runs() -> None:
    """It has a sketch of its own from then on, and others keep theirs; its answers are incomplete for a while."""
    engine, events = loaded(6000)
    engine.register(f"SELECT APPROX_QUANTILE(x, 0.5, 0.25) AS p FROM s {TIME[0]}", "old")
    batches = events.batches([3000])
    engine.push("s", batches[0])
    engine.advance()
    engine.register(f"SELECT APPROX_QUANTILE(x, 0.5, 0.05) AS p FROM s {TIME[0]}", "new")
    assert engine.lookup("old")["complete"].to_pylist() == [True]
    assert engine.lookup("new")["complete"].to_pylist() == [False]
    assert engine.explain().count("sketch of x") == 2
    engine.push("s", batches[1])
    (row,) = engine.lookup("new").to_pylist()
    window = events.window(
        *(micros(row[side]) for side in ("window_start", "window_end")), events.arrival, "x"
    )
    assert row["complete"]
    assert_quantile(row, "p", 0.5, 0.05, window)
    engine.drop("old")
    assert engine.explain().count("sketch of x") == 1
    engine.check()


@pytest.mark.parametrize("keys", ["", "k"])
def test_windows_in_the_past_registered_while_the_stream_runs(keys: str) -> None:
    """What was settled before tells nothing of them: no answer is wrong, and after TO and the window all are whole."""
    engine, events = loaded(6000)
    chosen, group = ("k, ", " GROUP BY k") if keys else ("", "")
    select = f"SELECT {chosen}{QUANTILES}, {ITEMS} FROM s"
    engine.register(f"{select} [RANGE 9 SECONDS SLIDE 1 SECOND]{group}", "now")
    first, *rest = events.batches([2000, 2500, 3000, 3500, 4000, 4500, 5000])
    engine.push("s", first)
    engine.advance()
    engine.register(f"{select} [RANGE 12 SECONDS TO 6 SECONDS SLIDE 1 SECOND]{group}", "past")
    if not keys:
        engine.register(f"{select} [ROWS 800 TO 300]", "rows")
        assert engine.lookup("rows")["complete"].to_pylist() == [False]
    done, complete = len(first["ts"]), []
    for batch in rest:
        engine.push("s", batch)
        done += len(batch["ts"])
        found = engine.lookup("past")
        for row in [*engine.advance().get("past", found).to_pylist(), *found.to_pylist()]:
            complete.append(row["complete"])
            if row["complete"]:
                assert_time_row(row, events, events.arrival[:done], row.get("k"))
        engine.check()
    assert all(complete[-3:])
    if not keys:
        (row,) = engine.lookup("rows").to_pylist()
        x = events.x[events.order[-800:-300]]
        assert row["complete"]
        assert_quantile(row, "p90", 0.9, 0.25, x[~np.isnan(x)])


def test_state_is_small() -> None:
    """Beside an exact query over the same window."""
    sizes = []
    for call in ("APPROX_QUANTILE(x, 0.9, 0.1)", "QUANTILE(x, 0.9)"):
        engine = Engine()
        engine.execute(STREAM.format(0))
        engine.register(f"SELECT {call} AS p FROM s [RANGE 1 HOUR]", "q")
        random = np.random.default_rng(1)
        for turn in range(15):
            at = turn * 10 * SECOND + np.arange(20_000) * 500
            engine.push("s", {"ts": at, "k": at, "n": at, "x": random.random(20_000), "w": ["a"] * 20_000})
            engine.value("q")
        sizes.append(engine.stats()["streams"]["s"]["bytes"])
    assert 10 * sizes[0] < sizes[1]


@pytest.mark.parametrize("call", [QUANTILES.replace("0.25", "0.02"), "APPROX_FREQUENT(n, 0.4, 0.02) AS top"])
def test_a_budget_is_kept_at_the_cost_of_error(call: str) -> None:
    """Errors grow, and are stated; no answer is wrong by more."""
    sizes = {}
    for budget in (2**30, 200_000):
        engine, events = loaded(30_000, sketch_bytes=budget)
        engine.register(f"SELECT k, {call} FROM s [RANGE 50 SECONDS] GROUP BY k", "q")
        push_all(engine, events)
        (synopsis,) = engine._shards["s"].state.synopses.values()
        sizes[budget] = synopsis.nbytes()
        for row in engine.lookup("q").to_pylist():
            assert row["complete"]
            bounds = micros(row["window_start"]), micros(row["window_end"])
            if "p90" in row:
                window = events.window(*bounds, events.arrival, "x", row["k"])
                assert rank_error(window, 0.9, row["p90"]) <= row["p90_error"] * len(window)
            else:
                true = Counter(events.window(*bounds, events.arrival, "n", row["k"]).tolist())
                assert all(each["lower"] <= true[each["item"]] <= each["upper"] for each in row["top"])
        assert ("for lack of room" in engine.explain()) == (budget < 2**30)
        engine.check()
    assert sizes[200_000] <= 200_000 + 10_000 < sizes[2**30]


def test_a_budget_too_small_for_the_keys_makes_windows_incomplete() -> None:
    engine, events = loaded(8000, sketch_bytes=20_000)
    events.k = np.arange(8000) % 500
    engine.register(f"SELECT k, {QUANTILES} FROM s [RANGE 50 SECONDS] GROUP BY k", "q")
    push_all(engine, events)
    assert not any(engine.lookup("q")["complete"].to_pylist())
    engine.check()


def test_words_are_remembered_while_the_dictionary_forgets() -> None:
    """Many words come once; codes are numbered anew several times."""
    engine = Engine()
    engine.execute(STREAM.format(0))
    engine.register("SELECT APPROX_FREQUENT(w, 0.2, 0.1) AS top, APPROX_COUNT(w = 'often', 0.1) AS often, "
                    "APPROX_COUNT(w = 'never', 0.1) AS never FROM s [RANGE 10 SECONDS]", "q")  # fmt: skip
    engine.register(
        "SELECT k, APPROX_FREQUENT(w, 0.2, 0.1, 0.1) AS top FROM s [RANGE 10 SECONDS] GROUP BY k", "by key"
    )
    for turn in range(20):
        words = [f"word {turn} {number}" for number in range(1400)] + ["often"] * 600
        at = turn * SECOND + np.arange(2000) * 500
        engine.push("s", {"ts": at, "k": at % 2, "n": at, "x": at.astype(float), "w": words})
        engine.advance()
        (row,) = engine.lookup("q").to_pylist()
        true = 600 * min(turn + 1, 10)
        assert [each["item"] for each in row["top"]] == ["often"]
        assert row["often"] <= true <= row["often"] + row["often_error"]
        assert row["never"] == 0
        for keyed in engine.lookup("by key").to_pylist():
            assert [each["item"] for each in keyed["top"]] == ["often"]
        engine.check()
    assert len(next(iter(engine._shards["s"].state.texts.values()))) < 25_000


def test_items_of_every_type() -> None:
    engine = Engine()
    engine.execute(
        "CREATE STREAM t (ts TIMESTAMP, d DATE, b BOOLEAN, x DOUBLE, n SMALLINT, u TIMESTAMP) TIMESTAMP BY ts"
    )
    engine.register("SELECT APPROX_FREQUENT(d, 0.3, 0.1) AS d, APPROX_FREQUENT(b, 0.6, 0.1) AS b, "
                    "APPROX_FREQUENT(x, 0.3, 0.1) AS x, APPROX_FREQUENT(n, 0.3, 0.1) AS n, "
                    "APPROX_COUNT(d = '2020-02-03', 0.1) AS cd, APPROX_COUNT(b = TRUE, 0.1) AS cb, "
                    "APPROX_COUNT(x = 0, 0.1) AS cx, APPROX_COUNT(n = 7, 0.1) AS cn, "
                    "APPROX_COUNT(u = '2020-01-01 00:00:01', 0.1) AS cu, "
                    "APPROX_QUANTILE(n, 0.5, 0.1) AS m FROM t [RANGE 1 HOUR]", "q")  # fmt: skip
    (empty,) = engine.lookup("q").to_pylist()
    assert empty["d"] == []
    assert empty["cd"] == 0
    assert empty["m"] is None
    assert empty["m_error"] is None
    day = np.array(["2020-02-03", "2020-02-03", "2021-01-01"], "datetime64[D]")
    engine.push("t", {"ts": [0, 1, 2], "d": day, "b": [True, False, True], "x": [0.0, -0.0, 1.5], "n": [7, 7, 9],
                      "u": np.array(["2020-01-01T00:00:01"] * 3, "datetime64[us]")})  # fmt: skip
    (row,) = engine.lookup("q").to_pylist()
    assert [(str(each["item"]), each["estimate"]) for each in row["d"]] == [
        ("2020-02-03", 2),
        ("2021-01-01", 1),
    ]
    assert [(each["item"], each["upper"]) for each in row["b"]] == [(True, 2)]
    assert [(each["item"], each["lower"]) for each in row["x"]] == [(0.0, 2), (1.5, 1)]
    assert [each["item"] for each in row["n"]] == [7, 9]
    assert [row[name] for name in ("cd", "cb", "cx", "cn", "cu", "m")] == [2, 2, 2, 2, 3, 7]


def test_expressions_and_having() -> None:
    """An error for each aggregate that an item reads; HAVING may use both."""
    engine, events = loaded()
    engine.register("SELECT k, APPROX_QUANTILE(x, 0.9, 0.2) - APPROX_QUANTILE(x, 0.1, 0.2) AS spread FROM s "
                    "[RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY k HAVING APPROX_COUNT(n = 1, 0.2) > 100 "
                    "AND APPROX_QUANTILE_ERROR(x, 0.9, 0.2) < 1", "q")  # fmt: skip
    assert engine.queries["q"].answer_schema().names[:4] == ["k", "spread", "spread_error", "spread_error_2"]
    push_all(engine, events)
    table = engine.lookup("q")
    assert 0 < table.num_rows < len(set(events.k.tolist()))
    assert engine.value("q", key=table["k"][0].as_py()) == table["spread"][0].as_py()


def test_who_talks_too_much() -> None:
    """EMIT CHANGES over an approximate count."""
    engine = Engine()
    engine.execute(STREAM.format(0))
    engine.register("SELECT k FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k "
                    "HAVING APPROX_COUNT(n = 1, 0.1) > 5 EMIT CHANGES", "q")  # fmt: skip
    changes = []
    for second, ones in enumerate([3, 9, 1, 0, 0]):
        at = second * SECOND + np.arange(10)
        engine.push(
            "s",
            {"ts": at, "k": [7] * 10, "n": [1] * ones + [2] * (10 - ones), "x": [0.0] * 10, "w": [""] * 10},
        )
        changes += engine.advance().get("q", engine.lookup("q").slice(0, 0)).to_pylist()
    assert [row["change"] for row in changes] == ["enter", "leave"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT k, APPROX_QUANTILE(x, 0.5, 0.1) FROM s [ROWS 9] GROUP BY k", "use RANGE, or leave out"),
        ("SELECT /*+ SYNOPSIS(sampled_counts) */ APPROX_COUNT(n = 1, 0.1) FROM s [ROWS 9]", "by what chance"),
        ("SELECT APPROX_QUANTILE(x, 0.5, 0.9) FROM s [ROWS 9]", "eps must lie between"),
        ("SELECT APPROX_QUANTILE(x, 0.5, 0.1, 2) FROM s [ROWS 9]", "delta must lie in"),
        ("SELECT APPROX_QUANTILE(x, 1.5, 0.1) FROM s [ROWS 9]", "phi must lie in"),
        (
            "SELECT APPROX_QUANTILE(x, 0.5) FROM s [ROWS 9]",
            r"write APPROX_QUANTILE\(x, phi, eps \[, delta\]\)",
        ),
        ("SELECT APPROX_FREQUENT(n, 0.1, 0.2) FROM s [ROWS 9]", "support must lie above eps"),
        (
            "SELECT APPROX_FREQUENT(n, 0.4, 0.2, 0.1, weight => k) FROM s [ROWS 9]",
            "with a weight has no delta",
        ),
        (
            "SELECT APPROX_FREQUENT(n, 0.4, 0.2, wait => k) FROM s [ROWS 9]",
            "no argument 'wait'; it takes weight =>",
        ),
        (
            "SELECT APPROX_FREQUENT(n, weight => k, 0.4, 0.2) FROM s [ROWS 9]",
            "the weight is the last argument",
        ),
        ("SELECT APPROX_FREQUENT(n, 0.4, 0.2, weight => x) FROM s [ROWS 9]", "is an integer, not DOUBLE"),
        ("SELECT APPROX_FREQUENT(n, 0.4, 0.2, weight => SUM(k)) FROM s [ROWS 9]", "the argument of another"),
        (
            "SELECT APPROX_COUNT(n = 1, 0.2, weight => k) FROM s [ROWS 9]",
            r"write SUM\(k\) FILTER \(WHERE n = 1\)",
        ),
        ("SELECT SUM(n, weight => k) FROM s [ROWS 9]", "SUM takes no argument 'weight'"),
        (
            "SELECT /*+ SYNOPSIS(sliding_counts) */ APPROX_FREQUENT(n, 0.4, 0.2, weight => k) FROM s [ROWS 9]",
            "it knows no weights",
        ),
        ("SELECT APPROX_COUNT(n, 0.2) FROM s [ROWS 9]", r"write APPROX_COUNT\(x = 7, 0.01\)"),
        ("SELECT APPROX_COUNT(n > 1, 0.2) FROM s [ROWS 9]", r"write APPROX_COUNT\(x = 7, 0.01\)"),
        ("SELECT APPROX_COUNT(n = k, 0.2) FROM s [ROWS 9]", "with a constant"),
        ("SELECT APPROX_COUNT(n = 2.5, 0.2) FROM s [ROWS 9]", "never equals it"),
        ("SELECT APPROX_COUNT(n = NULL, 0.2) FROM s [ROWS 9]", "nothing equals NULL"),
        ("SELECT APPROX_QUANTIL(x, 0.5, 0.1) FROM s [ROWS 9]", "did you mean 'APPROX_QUANTILE'"),
    ],
)
def test_what_cannot_be_asked(query: str, message: str) -> None:
    engine, _ = loaded()
    with pytest.raises(MuntinError, match=message):
        engine.register(query, "q")
    assert not engine.queries


def test_instants_behind_the_sketch_are_refused() -> None:
    engine, events = loaded()
    engine.register(f"SELECT {QUANTILES} FROM s [RANGE 5 SECONDS]", "q")
    push_all(engine, events)
    with pytest.raises(WindowTooLarge, match="it answers instants from"):
        engine.lookup("q", at=20 * SECOND)
    assert engine.lookup("q").num_rows == 1


@pytest.mark.parametrize("given", [-1, 2.5, "1 GB"])
def test_no_such_budget(given: Any) -> None:
    with pytest.raises(MuntinError, match="sketch_bytes is a whole number"):
        Engine(sketch_bytes=given)
