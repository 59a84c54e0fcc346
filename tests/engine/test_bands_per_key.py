"""Queries that differ in the ranges of WHERE share a store per key, and answer as if each had its own.

Ranges are shared from one on here, so that short random cases meet them: above and below a cut, and between two; alone
and beside values of other attributes; NULL, NaN, infinities and zeros of both signs; queries that come and go.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import muntin
from effort import some_of
from muntin.plan import choices
from muntin.window import Window
from queries import KEY_EXPRESSIONS, KEYS, SIZES, SLIDES, OwnWindows, Question, random_output
from replay import assert_agreement, disagreement
from scenario import SeededDice, random_case, random_crowd

RANGES = (
    "n > 1", "n >= 2", "n > 2", "n < 3", "n <= 0", "n BETWEEN 0 AND 2", "n BETWEEN 1 AND 40", "n > 2.5", "n < 1e30",
    "n > 0 AND n < 40", "n > 40 AND n < 2", "2 < n", "NOT n <= 2", "n IS NOT NULL", "n > 1 AND n <> 3", "n + 1 > 2",
    "x > 0.1", "x >= CAST('NaN' AS DOUBLE)", "x < CAST('inf' AS DOUBLE)", "x <= -0.0", "x > -0.0", "x < 0.0",
    "y >= 0.25", "y BETWEEN 0.25 AND 1.5", "y < 1.5", "y > 0.5 AND n > 1", "n > 1 OR n IS NULL", "n > j",
    "k = 'a' AND n > 1", "k = 'a' AND n > 2", "k IN ('a', 'b') AND n >= 1", "k = 'b' AND n < 3", "k = 'b' AND n > 1",
    "k = 'a' AND n BETWEEN 1 AND 20", "k = 'a' AND y > 0.5 AND n > 1", "k IS NULL AND n > 1", "j = 1 AND x > 0.1",
    "n > 1 AND w LIKE 'a%'", "b AND n > 1", "j IN (1, 3) AND y < 1.5", "j = 1 AND n < 2", "k = 'a' AND n = 2",
)  # fmt: skip
THRESHOLDS = (
    "SUM(n) >= 3",
    "COUNT(*) > 1",
    "COUNT(*) > 0",
    "MAX(n) < 5",
    "MIN(y) IS NULL",
    "AVG(y) <= 1",
    "SUM(y) > 0",
)


@pytest.fixture(autouse=True)
def _from_one_range_on() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        _bands_from(patch, 1)
        yield


def _bands_from(patch: pytest.MonkeyPatch, many: int) -> None:
    for name in ("MANY_LANES", "MANY_LANES_PER_KEY", "MANY_RANGES_PER_KEY"):
        patch.setattr(choices, name, many)


def ranged_question(dice) -> Question:
    keys = dice.pick(KEYS) if dice.chance(70) else ()
    size = dice.pick(SIZES)
    window = Window("time", size, 0, dice.pick((*SLIDES, size)) if size >= 500_000 else 500_000)
    items = [f"{KEY_EXPRESSIONS[key]} AS {key}" if key in KEY_EXPRESSIONS else key for key in keys]
    calls = [
        "COUNT(*)",
        "SUM(n)",
        "MAX(n)",
        "MIN(y)",
        "AVG(n)",
        "LAST(k)",
        "COUNT(w)",
        "SUM(y)",
        "VAR_SAMP(y)",
    ]
    items += [
        f"{dice.pick(calls) if dice.chance(85) else random_output(dice, OwnWindows(dice, window))} AS a{number}"
        for number in range(dice.whole(1, 3))
    ]
    sql = f"SELECT {', '.join(items)} FROM s {window} WHERE {dice.pick(RANGES)}"
    if keys:
        sql += f" GROUP BY {', '.join(KEY_EXPRESSIONS.get(key, key) for key in keys)}"
    if dice.chance(50):
        sql += f" HAVING {dice.pick(THRESHOLDS)}"
    return Question(sql, keys)


@pytest.mark.parametrize("first", range(0, some_of(1_000, 5), 50))
def test_pairs(first: int) -> None:
    for seed in range(first, first + 50):
        case = random_case(SeededDice(seed), f"bands {seed}", most_queries=6, question=ranged_question)
        assert_agreement(case)


@pytest.mark.parametrize("seed", range(some_of(16, 7)))
def test_crowds(seed: int) -> None:
    case = random_crowd(SeededDice(seed), f"crowd of bands {seed}", question=ranged_question)
    if error := disagreement(case):
        raise error


STREAM = (
    "CREATE STREAM s (ts BIGINT, k BIGINT, c VARCHAR, n BIGINT, tiny TINYINT, small SMALLINT, byte UTINYINT, "
    "word UINTEGER, x DOUBLE, y FLOAT, d DATE, t TIMESTAMP) TIMESTAMP BY ts DELAY 30 SECONDS"
)
MINUTE = 60_000_000
ATTRIBUTES = {
    "n": ("-9223372036854775808", "-1", "0", "2.5", "3", "9223372036854775807", "1e30"),
    "tiny": ("-129", "-128", "0", "1.5", "127", "128"),
    "small": ("-32768", "7", "32767.5"),
    "byte": ("-1", "0", "3", "255", "256"),
    "word": ("0", "4000000000", "4294967295"),
    "x": ("CAST('-inf' AS DOUBLE)", "-0.0", "0.0", "0.1", "5e-324", "CAST('inf' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"),
    "y": ("-0.0", "0.1", "0.25", "CAST('NaN' AS DOUBLE)", "16777217"),
    "d": ("DATE '1969-12-31'", "DATE '1970-01-03'", "DATE '2400-01-01'"),
    "t": ("TIMESTAMP '1970-01-01 00:00:02'", "TIMESTAMP '1970-01-01 00:00:04.5'"),
}  # fmt: skip
TYPED_THRESHOLDS = ("COUNT(*) > 1", "SUM(small) > 3", "MIN(x) < 1", "COUNT(*) < 3")
FLOATS = [-np.inf, -1.5, -0.0, 0.0, 5e-324, 0.1, 0.25, 3.0, np.inf, np.nan, None]


def engine_with(queries: dict[str, str]) -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(queries)
    return engine


def range_of(dice, attribute: str) -> str:
    ends = ATTRIBUTES[attribute]
    first, second = dice.pick(ends), dice.pick(ends)
    return dice.pick(
        (
            *(f"{attribute} {symbol} {first}" for symbol in (">", ">=", "<", "<=")),
            f"{attribute} BETWEEN {first} AND {second}",
            f"{attribute} > {first} AND {attribute} <= {second}",
            f"{attribute} IS NOT NULL",
        )
    )


def typed_query(dice, attributes: tuple[str, ...]) -> str:
    attribute = dice.pick(attributes)
    where = range_of(dice, attribute)
    if dice.chance(30):
        where += f" AND c = '{dice.pick('ab')}'"
    if dice.chance(10):
        where += f" AND {range_of(dice, dice.pick(tuple(ATTRIBUTES)))}"
    window = f"[RANGE {dice.whole(1, 3)} MINUTES SLIDE 1 MINUTE]"
    items, by = ("k, ", " GROUP BY k") if dice.chance(80) else ("", "")
    having = dice.pick(
        ("", " HAVING COUNT(*) > 1", " HAVING SUM(small) > 3", " HAVING MIN(x) < 1", " HAVING COUNT(*) < 3")
    )
    return f"SELECT {items}COUNT(*) AS many, SUM(small) AS s, MIN(x) AS m FROM s {window} WHERE {where}{by}{having}"


def typed_events(rng: np.random.Generator, at: int, many: int = 60) -> pa.RecordBatch:
    def some(values: list) -> list:
        return [values[place] for place in rng.integers(0, len(values), many)]

    whole = {"n": (2**63 - 1, pa.int64()), "tiny": (127, pa.int8()), "small": (32767, pa.int16())}
    columns = {
        "ts": pa.array(at * MINUTE + rng.integers(-20_000_000, MINUTE, many)),
        "k": pa.array(some([1, 2, 3, None]), pa.int64()),
        "c": pa.array(some(["a", "b", "c", None]), pa.string()),
        **{
            name: pa.array(some([-most - 1, -1, 0, 1, 2, 3, most, None]), kind)
            for name, (most, kind) in whole.items()
        },
        "byte": pa.array(some([0, 1, 3, 255, None]), pa.uint8()),
        "word": pa.array(some([0, 1, 4_000_000_000, 4_294_967_295, None]), pa.uint32()),
        "x": pa.array(some(FLOATS), pa.float64()),
        "y": pa.array(some(FLOATS), pa.float32()),
        "d": pa.array(some([-2, -1, 0, 1, 2, 100_000, None]), pa.int32()).cast(pa.date32()),
        "t": pa.array(some([-1, 2_000_000, 2_000_001, 4_500_000, None]), pa.int64()).cast(pa.timestamp("us")),
    }
    return pa.record_batch(columns)


def same(got: pa.Table, expected: pa.Table) -> bool:
    """Whether two answers are the same; NaN is itself, and -0.0 is 0.0."""
    return _text(got) == _text(expected)


def _text(table: pa.Table) -> str:
    return repr(table.to_pydict()).replace("-0.0,", "0.0,").replace("-0.0]", "0.0]")


@pytest.mark.parametrize("seed", range(some_of(16, 13)))
def test_every_type_answers_as_with_filters_of_their_own(seed: int, monkeypatch, tmp_path) -> None:
    dice, rng = SeededDice(seed), np.random.default_rng(seed)
    attributes = tuple(ATTRIBUTES)[seed % 3 :: 3]  # few, so that many queries are alike
    texts = {f"q{i}": typed_query(dice, attributes) for i in range(40)}
    _bands_from(monkeypatch, 1)
    banded = engine_with(texts)
    banded.push("s", typed_events(rng, -9))
    _bands_from(monkeypatch, 10**9)
    alone = engine_with(texts)
    alone.push("s", typed_events(np.random.default_rng(seed), -9))
    assert "the band of" in banded.explain()
    for at in range(6):
        batch = typed_events(rng, at)
        for engine in (banded, alone):
            engine.push("s", batch)
        got, expected = banded.advance(), alone.advance()
        assert got.keys() == expected.keys()
        for name in expected:
            assert same(got[name], expected[name]), (texts[name], got[name], expected[name])
        for name, text in texts.items():
            assert same(banded.lookup(name), alone.lookup(name)), text
            if " BY k" in text:
                assert same(banded.lookup(name, key=[1, 3, None]), alone.lookup(name, key=[1, 3, None])), text
        banded.check()
        if at == 2:
            banded.checkpoint(tmp_path / "state")
            banded = muntin.Engine.restore(tmp_path / "state")


def ranged(above: int, having: str = "", where: str = "") -> str:
    window = "[RANGE 2 MINUTES SLIDE 1 MINUTE]"
    return f"SELECT k, SUM(n) AS total FROM s {window} WHERE n > {above}{where} GROUP BY k{having}"


def numbers(at: int, many: int = 40) -> pa.RecordBatch:
    count = np.arange(many)
    columns = {
        "ts": pa.array(at * MINUTE + count * (MINUTE // many)),
        "k": pa.array(count % 5),
        "n": pa.array(count),
    }
    schema = typed_events(np.random.default_rng(), 0, 1).schema
    empty = {each.name: pa.nulls(many, each.type) for each in schema if each.name not in columns}
    return pa.record_batch(columns | empty)


def test_a_new_cut_splits_a_band_and_knows_only_what_comes() -> None:
    """Queries that were there go on; the new one never counts an event that does not pass, and says what it lacks."""
    engine = engine_with({f"q{i}": ranged(10 * i) for i in range(3)})
    engine.push("s", numbers(0))
    engine.register(ranged(25), "new")
    engine.register(
        "SELECT k, SUM(n) AS total FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] WHERE n < 25 GROUP BY k", "low"
    )
    engine.push("s", numbers(1))
    engine.push("s", numbers(2, 1))
    for i in range(3):
        found = engine.lookup(f"q{i}").to_pydict()
        whole = [sum(n for n in range(40) if n > 10 * i and n % 5 == k) for k in range(5)]
        assert found["total"] == [2 * each for each in whole]
        assert all(found["complete"])
    # what was kept of 1 to 20 before lies in bands of its own; what was kept of 21 on is not known apart
    for name, passing in (("new", [*range(26, 40)]), ("low", [*range(25), *range(1, 21)])):
        found = engine.lookup(name).to_pydict()
        assert found["total"] == [sum(n for n in passing if n % 5 == k) for k in range(5)]
        assert not any(found["complete"])
    engine.push("s", numbers(3, 1))
    assert all(engine.lookup("new").to_pydict()["complete"])
    engine.check()


def test_a_new_cut_at_the_upper_end_knows_only_what_comes() -> None:
    window = "[RANGE 2 MINUTES SLIDE 1 MINUTE]"
    below = f"SELECT k, SUM(n) AS total FROM s {window} WHERE n < {{}} GROUP BY k"
    engine = engine_with({"old": below.format(35)})
    engine.push("s", numbers(0))
    engine.register(below.format(25), "new")
    for at in (1, 2):
        engine.push("s", numbers(at, 40 if at == 1 else 1))
    for name, most, times in (("old", 35, 2), ("new", 25, 1)):
        found = engine.lookup(name).to_pydict()
        assert found["total"] == [times * sum(n for n in range(most) if n % 5 == k) for k in range(5)]
        assert set(found["complete"]) == {name == "old"}
    expected = {name: engine.lookup(name, at=2 * MINUTE) for name in ("old", "new")}
    engine.push("s", numbers(3, 1))
    assert all(engine.lookup("new").to_pydict()["complete"])
    emitted = engine.advance()
    for name, table in expected.items():  # many queries are read in another way than one
        assert emitted[name].slice(emitted[name].num_rows - 5).equals(table)


def test_a_range_whose_cuts_are_there_is_known_as_long_as_these() -> None:
    engine = engine_with({"above": ranged(10), "other": ranged(30)})
    engine.push("s", numbers(0))
    engine.register(ranged(10, where=" AND n <= 30"), "between")
    engine.push("s", numbers(1, 1))
    found = engine.lookup("between").to_pydict()
    assert found["total"] == [sum(n for n in range(11, 31) if n % 5 == k) for k in range(5)]
    assert all(found["complete"])
    engine.drop("other")  # its cut is still needed
    engine.drop("between")
    engine.push("s", numbers(2))
    engine.register(ranged(30), "again")  # meanwhile there was no such cut
    engine.push("s", numbers(3, 1))
    assert not any(engine.lookup("again").to_pydict()["complete"])
    assert all(engine.lookup("above").to_pydict()["complete"])
    engine.check()


def test_constants_that_come_and_go_leave_nothing_behind() -> None:
    engine = engine_with({f"q{i}": ranged(10 * i) for i in range(3)})
    engine.push("s", numbers(0))
    state = engine._shards["s"].state
    for turn in range(2_000):
        engine.register(ranged(40 + turn), f"r{turn}")
        if turn >= 5:
            engine.drop(f"r{turn - 5}")
        if turn % 20 == 0:
            engine.push("s", numbers(1 + turn // 20, 2_100))
        if turn % 500 == 499:
            ((asked, lanes),) = state.lanes.items()
            pairs = state.keys[asked.store_keys]
            assert len(pairs) < 4_096  # beyond so many, those of bands that are gone are forgotten
            assert lanes.nbytes() + state.nbytes() + pairs.nbytes() < 500_000
            assert lanes.seen().cuts == 8
    engine.check()


def test_a_sum_that_does_not_exist_is_left_out_alone() -> None:
    texts = {f"q{i}": ranged(10 * i, " HAVING SUM(n) > 5") for i in range(3)}
    engine = engine_with(texts)
    batch = numbers(0)
    great = pa.array([2**62 if k == 2 else 30 for k in batch.column("k").to_pylist()])
    engine.push("s", batch.set_column(batch.schema.get_field_index("n"), "n", great))
    engine.push("s", numbers(3, 1))
    with pytest.warns(RuntimeWarning, match="64 bits"):
        found = engine.advance(until=MINUTE)
    for name in texts:
        assert found[name].to_pydict()["k"] == [0, 1, 3, 4]
        assert found[name].to_pydict()["total"] == [8 * 30] * 4


def test_the_rest_is_computed_only_for_events_in_a_lane() -> None:
    """An overflow there is an error of the push if the event is in a lane, and of no concern otherwise."""
    where = " AND c = 'a' AND n * n <> 4"
    engine = engine_with({f"q{i}": ranged(i, where=where) for i in range(4)})
    schema = typed_events(np.random.default_rng(), 0, 1).schema
    for great in ("b", "a"):
        for others in (1, 40):  # most events are in a lane, or few
            rows = [{"ts": 0, "k": 1, "c": "a", "n": n} for n in (1, 2, 3)] * 9
            rows += [{"ts": 0, "k": 1, "c": "b", "n": 5}] * others
            rows.append({"ts": 0, "k": 1, "c": great, "n": 2**40})
            full = [{name: row.get(name) for name in schema.names} for row in rows]
            batch = pa.RecordBatch.from_pylist(full, schema)
            if great == "a":
                with pytest.raises(muntin.NoValue, match="64 bits"):
                    engine.push("s", batch)
            else:
                engine.push("s", batch)
    assert engine.lookup("q0", at=MINUTE).to_pydict()["total"] == [2 * 9 * (1 + 3)]


def test_explain_tells_which_range_is_indexed() -> None:
    """A key is not banded if there is another attribute; of two ranges, one is evaluated."""
    engine = engine_with({f"q{i}": ranged(i, where=" AND k < 3 AND c = 'a'") for i in range(4)})
    engine.push("s", numbers(0))
    told = engine.explain()
    assert (
        "  lanes    by the value of c and the band of n: 1 are asked for, 4 ranges, 4 cuts, 0 of 40 events"
        in told
    )
    assert "  evaluated k <= 2\n" in told
    assert "nesting by k where c = ?" in told


@pytest.mark.parametrize(
    ("array", "changed", "message"),
    [
        ("cut", lambda array: array + 1, "other cuts than the queries ask for"),
        ("since", lambda array: np.where(array > 0, 0, 2**63 - 1), "other bands than the queries ask for"),
        ("cut_since", lambda array: array[1:], "cut_since"),
        ("0", lambda array: pa.array(["z"]), "other values than the queries ask for"),
    ],
)
def test_a_snapshot_with_other_bands_is_refused(array: str, changed, message: str) -> None:
    engine = engine_with({f"q{i}": ranged(i, where=" AND c = 'a'") for i in range(4)})
    engine.push("s", numbers(0))
    shard = engine._shards["s"]
    description, arrays = shard.snapshot()
    (name,) = (each for each in arrays if each.startswith("lanes ") and each.endswith(f"/{array}"))
    queries = {name: each.query for name, each in shard.registrations.items()}
    with pytest.raises(muntin.CheckpointError, match=message):
        engine_with({})._shards["s"].restore(description, arrays | {name: changed(arrays[name])}, queries)


def test_ranges_have_to_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    many = choices.MANY_RANGES_PER_KEY
    few = engine_with({f"q{i}": ranged(i) for i in range(many - 1)})
    few.push("s", numbers(0))
    assert "the band of" not in few.explain()
    few.register(ranged(many), "more")
    assert "the band of n: 1 range, 1 cut" in few.explain("more")


def test_a_gap_that_is_filled_is_known_from_then_on(tmp_path) -> None:
    """Both cuts have been there, what lies between them has not; also after a restart."""
    engine = engine_with({"above": ranged(20), "below": ranged(20).replace("n > 20", "n < 10")})
    engine.push("s", numbers(0))
    engine.register(ranged(9, where=" AND n <= 20"), "between")
    engine.checkpoint(tmp_path / "state")
    for each in (engine, muntin.Engine.restore(tmp_path / "state")):
        each.push("s", numbers(1))
        each.push("s", numbers(2, 1))
        found = each.lookup("between").to_pydict()
        assert found["total"] == [sum(n for n in range(10, 21) if n % 5 == k) for k in range(5)]
        assert not any(found["complete"])
        each.push("s", numbers(3, 1))
        assert all(each.lookup("between").to_pydict()["complete"])
        each.check()


def test_lanes_without_keys_are_merged_each_by_itself() -> None:
    window = "[RANGE 2 MINUTES SLIDE 1 MINUTE]"
    texts = {
        f"{c} {low}": f"SELECT SUM(n) AS total FROM s {window} WHERE c = '{c}' AND n > {low}"
        for c in "abz"
        for low in (0, 10, 30, 99)
    }
    engine = engine_with(texts)
    batch = numbers(0)
    place = batch.schema.get_field_index("c")
    engine.push("s", batch.set_column(place, "c", pa.array([*"ab"] * 20)))
    engine.push("s", numbers(3, 1))
    expected = {
        name: sum(n for n in range(40) if n % 2 == "ab".find(name[0]) and n > int(name[2:])) or None
        for name in texts
    }
    found = engine.lookup_many(list(texts), at=MINUTE).to_pydict()
    assert dict(zip(found["query"], found["value"], strict=True)) == expected
    emitted = engine.advance()
    assert {name: emitted[name]["total"].to_pylist()[0] for name in texts} == expected
