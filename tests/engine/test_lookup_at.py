"""Look-ups at instants of their own give what `lookup` gives once the watermark has passed each of them.

Random streams are asked after every step, also after restarts, for random keys and instants: long ago, just now, and
yet to come; of every kind of window, with runs that are fed at once and with lanes from one constant on.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import muntin
from answers import is_close
from casefile import Case, Lookup, write_case
from effort import some_of
from muntin.errors import MuntinError, NoValue, WindowTooLarge
from muntin.plan import choices
from muntin.structure import key_runs
from queries import random_question
from reference import AtInstant
from replay import Pair
from requests_at import keyed_question, random_requests, sketched_question
from scenario import Ask, SeededDice, random_case


@pytest.fixture(params=["as planned", "soon"], autouse=True)
def _planned(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "soon":
            for name in ("MANY_LANES", "MANY_LANES_PER_KEY", "MANY_RANGES_PER_KEY"):
                patch.setattr(choices, name, 1)
            for name in ("_FEED", "_READ"):
                patch.setattr(key_runs, name, 0.0)
        yield


@pytest.mark.parametrize("question", [random_question, keyed_question])
@pytest.mark.parametrize("first", range(0, some_of(600, 1), 9))
def test_random_requests(question: Ask, first: int) -> None:
    counted: Counter[str] = Counter()
    for seed in range(first, first + 9):
        case = random_case(SeededDice(seed), f"requests {seed}", 24, 4, question)
        play(case, SeededDice(-1 - seed), counted)
    assert counted["complete"] > 300, counted
    assert counted["found"] > 20, counted


def play(case: Case, dice: SeededDice, counted: Counter[str]) -> None:
    pair = Pair(case)
    times = [0]
    for step in case.steps:
        if isinstance(step, Lookup):
            continue
        pair.take(step)
        if hasattr(step, "batch"):
            times += step.batch["ts"]
        try:
            compare(pair, dice, times[-12:], counted)
        except Exception as error:
            raise AssertionError(f"{error}\n\nafter {step}\n\n{write_case(case)}") from error


def compare(pair: Pair, dice: SeededDice, times: list[int], counted: Counter[str]) -> None:
    requests = random_requests(dice, times, dice.pick((1, 8, 20)))
    names = list(pair.reference.standing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without a value
        wide = pair.engine.lookup_at(names, requests)
    assert wide.num_rows == requests.num_rows
    assert wide.select(requests.column_names).equals(requests)
    for name in names:
        query = pair.engine.queries[name]
        outputs = [each.name for each in query.outputs]
        rows = wide.select([f"{name}.{each}" for each in (*outputs, "found", "complete")]).to_pylist()
        asked = [
            (tuple(row[key.name] for key in query.keys) or None, row["at"])
            for row in requests.set_column(6, "at", requests["at"].cast(pa.int64())).to_pylist()
        ]
        for (key, at), row, expected in zip(asked, rows, pair.reference.lookup_at(name, asked), strict=True):
            got = {column.removeprefix(f"{name}."): value for column, value in row.items()}
            compare_row(pair.engine, name, key, at, got, expected)
            counted["complete"] += got["complete"]
            counted["found"] += got["found"]


def compare_row(
    engine: muntin.Engine, name: str, key: Any, at: int, got: dict[str, Any], expected: AtInstant
) -> None:
    what = f"{name} {engine.queries[name].text}: key {key} at {at}: got {got}, expected {expected}"
    if got["complete"]:
        assert expected.complete is not False, what
        assert got["found"] is expected.found, what
        for column, value in expected.values.items():
            assert is_close(value, got[column], expected.slack.get(column, 0.0)), what
        return
    assert not got["found"], what
    assert all(got[column] is None for column in expected.values), what
    if expected.complete is False:  # events may still come
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = engine.lookup(name, key=None if key is None else [key], at=at)
    except (WindowTooLarge, NoValue):
        return
    assert not any(found["complete"].to_pylist()), what  # covered, so it must be complete


@pytest.mark.parametrize("seed", range(some_of(200, 5)))
def test_sketches_answer_as_look_ups_do(seed: int) -> None:
    """Nobody knows exactly what they say, but `lookup` says the same."""
    dice = SeededDice(seed)
    case = random_case(dice, "sketches", 30, 2, sketched_question)
    pair, times = Pair(case), [0]
    for step in case.steps:
        if isinstance(step, Lookup):
            continue
        pair.take(step)
        if not hasattr(step, "batch"):
            continue
        times += step.batch["ts"]
        requests = random_requests(dice, times[-12:], 10)
        for name in pair.reference.standing:
            is_keyed = bool(pair.engine.queries[name].keys)
            for row in pair.engine.lookup_at(name, requests).to_pylist():
                if row["complete"]:
                    found = pair.engine.lookup(
                        name, key=[row["k"]] if is_keyed else None, at=row["at"]
                    ).to_pylist()
                    assert row["found"] is (len(found) == 1)
                    if found:
                        assert row["a0"] == found[0]["a0"]


# -- by hand ---------------------------------------------------------------------------------------


def small() -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(
        "CREATE STREAM s (ts BIGINT, k VARCHAR, j BIGINT, v BIGINT) TIMESTAMP BY ts DELAY 2 MICROSECONDS"
    )
    engine.register(
        "SELECT k, SUM(v) AS total, COUNT(*) AS many FROM s [RANGE 5 MICROSECONDS] GROUP BY k", "loose"
    )
    engine.register("SELECT SUM(v) AS total FROM s [RANGE 6 MICROSECONDS SLIDE 3 MICROSECONDS]", "whole")
    engine.register(
        "SELECT j AS id, k, LAST(v) AS v FROM s [ROWS 1] GROUP BY j, k HAVING LAST(v) > 2", "pairs"
    )
    engine.push("s", {"ts": [1, 2, 2, 4, 9, 12], "k": list("abaaba"), "j": [1] * 6, "v": [1, 2, 3, 4, 5, 6]})
    return engine


def rows(table: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def test_a_row_for_each_request_in_its_order() -> None:
    """
    a  1 . 2 . 4 . . . . . . 12      watermark: 12 - 2
    b  . 2 . . . . . . 9 . .
    """
    requests = {
        "k": ["a", "b", "a", "c", None, "a", "a"],
        "at": [5, 10, 5, 5, 5, 10, 11],
        "label": list(range(7)),
    }
    found = small().lookup_at("loose", requests)
    assert found.column_names == ["k", "at", "label", "total", "many", "found", "complete"]
    assert rows(found, "total", "many", "found", "complete") == [
        (8, 3, True, True),
        (5, 1, True, True),
        (8, 3, True, True),
        (None, 0, False, True),  # never seen
        (None, 0, False, True),
        (None, 0, False, True),  # silent
        (None, None, False, False),  # an event at 10 may still come
    ]


def test_several_queries_side_by_side() -> None:
    requests = {"k": ["a", "a", "a"], "id": [1, 1, 2], "at": [2, 8, 8]}
    found = small().lookup_at(["whole", "pairs"], requests)
    assert found.column_names == [
        "k", "id", "at", "whole.total", "whole.found", "whole.complete", "pairs.v", "pairs.found", "pairs.complete",
    ]  # fmt: skip
    assert rows(found, "whole.total", "whole.found") == [(None, True), (10, True), (10, True)]
    assert rows(found, "pairs.v", "pairs.found") == [(None, False), (4, True), (None, False)]


def test_what_has_been_forgotten_is_not_complete() -> None:
    engine = small()
    engine.push("s", {"ts": [1000], "k": ["a"], "j": [1], "v": [1]})
    engine.advance()  # else what has closed is kept for who may ask for it
    engine.push("s", {"ts": [2000], "k": ["a"], "j": [1], "v": [1]})
    found = engine.lookup_at(["loose", "whole"], {"k": ["a", "a"], "at": [5, 1998]})
    for name in ("loose", "whole"):
        assert rows(found, f"{name}.total", f"{name}.found", f"{name}.complete")[0] == (None, False, False), (
            name
        )
        assert rows(found, f"{name}.complete")[1] == (True,)


def test_a_query_that_came_late_is_not_complete_at_once() -> None:
    engine = small()
    engine.register("SELECT k, SUM(v) AS total FROM s [RANGE 4 MICROSECONDS] WHERE j > 0 GROUP BY k", "late")
    engine.push("s", {"ts": [15, 20], "k": ["a", "a"], "j": [1, 1], "v": [1, 1]})
    found = engine.lookup_at("late", {"k": ["a"] * 3, "at": [15, 17, 18]})
    assert rows(found, "total", "complete") == [(None, False), (1, True), (1, True)]


def test_before_the_first_event_nothing_is_known() -> None:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, v BIGINT) TIMESTAMP BY ts")
    engine.register("SELECT COUNT(*) AS many FROM s [RANGE 5 MICROSECONDS]", "q")
    assert rows(engine.lookup_at("q", {"at": [0, 9]}), "many", "complete") == 2 * [(None, False)]
    assert engine.lookup_at("q", {"at": pa.array([], pa.int64())}).num_rows == 0
    engine.advance(until=9)
    assert rows(engine.lookup_at("q", {"at": [0, 9, 10]}), "many", "complete") == [
        (0, True), (0, True), (None, False),
    ]  # fmt: skip


def test_rows_without_a_value_are_not_found() -> None:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts BIGINT, k BIGINT, v BIGINT) TIMESTAMP BY ts")
    engine.register(
        "SELECT k, SUM(v) AS total, COUNT(*) AS many FROM s [RANGE 9 MICROSECONDS] GROUP BY k", "q"
    )
    engine.push("s", {"ts": [1, 2, 3, 9], "k": [1, 1, 2, 3], "v": [2**62, 2**62, 7, 0]})
    with pytest.warns(RuntimeWarning, match="leaves out 1 row"):
        found = engine.lookup_at("q", {"k": [1, 1, 2], "at": [9, 2, 9]})
    assert rows(found, "total", "many", "found", "complete") == [
        (None, None, False, True), (2**62, 1, True, True), (7, 1, True, True),
    ]  # fmt: skip
    assert engine.stats()["queries"]["q"]["overflows"] == 1


def test_requests_as_users_have_them() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    engine, given = small(), {"k": ["a", "b"], "at": [5, 5]}
    expected = engine.lookup_at("loose", given)
    table = pa.table(given)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(1))
    for each in (table, table.to_batches()[0], reader, pandas.DataFrame(given), polars.DataFrame(given)):
        assert engine.lookup_at("loose", each)["total"].equals(expected["total"])
    stamps = pa.table({"who": ["a"], "asked": pa.array([5_900], pa.timestamp("ns", "Europe/Oslo"))})
    renamed = stamps.rename_columns(["k", "asked"])
    assert rows(engine.lookup_at("loose", renamed, at="asked"), "total") == [(8,)]
    coded = pa.table({"k": pa.array(["b"]).dictionary_encode(), "at": [5]})
    assert rows(engine.lookup_at("loose", coded), "total") == [(2,)]


@pytest.mark.parametrize(
    ("names", "requests", "told"),
    [
        ("loose", {"k": ["a"]}, "no column 'at', the instants to look up"),
        ("loose", {"kk": ["a"], "at": [1]}, "no column 'k', a key of query 'loose'; did you mean 'kk'"),
        ("loose", {"k": [1], "at": [1]}, "column 'k' of the batch does not fit the requests"),
        ("loose", {"k": ["a", "a"], "at": [1, None]}, "'at' is NULL in row 1"),
        ("loose", {"k": ["a"], "at": ["noon"]}, "column 'at' of the batch does not fit the requests"),
        ("loose", {"k": ["a"], "at": [1], "found": [1]}, "the requests have a column 'found'"),
        ("loose", {"k": ["a"], "at": [2**62]}, "outside the years 1 to 9999"),
        ("looser", {"at": [1]}, "there is no query 'looser'; did you mean 'loose'"),
        ([], {"at": [1]}, "give the name of a query"),
        ("loose", 17, "a batch cannot be a int"),
        ("named", {"at": [1]}, "'at' is a key of query 'named'"),
        ("joined", {"k": ["a"], "at": [1]}, "joins table 'limits', whose rows of today would leak"),
        ("both", {"at": [1]}, "joins two streams"),
    ],
)
def test_bad_requests_are_refused(names: Any, requests: Any, told: str) -> None:
    engine = small()
    engine.register("SELECT j AS at, COUNT(*) AS n FROM s [ROWS 2] GROUP BY j", "named")
    engine.execute("CREATE TABLE limits (k VARCHAR, most BIGINT, PRIMARY KEY (k))")
    engine.register(
        "SELECT p.k, SUM(p.v) AS t, l.most FROM s [RANGE 9 MICROSECONDS SLIDE 1 MICROSECOND] AS p JOIN limits AS l "
        "ON p.k = l.k GROUP BY p.k", "joined",
    )  # fmt: skip
    engine.execute("CREATE STREAM t (ts BIGINT, k VARCHAR) TIMESTAMP BY ts")
    engine.register(
        "SELECT s.v FROM s [RANGE 9 MICROSECONDS] JOIN t [RANGE 9 MICROSECONDS] ON s.k = t.k", "both"
    )
    with pytest.raises(MuntinError, match=re.escape(told)):
        engine.lookup_at(names, requests)
