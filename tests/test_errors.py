"""Wrong input is an error that names the problem, and the engine goes on as if the call had not been made.

Each mistake below must raise a `MuntinError` whose first line contains the given words; afterwards
the engine's statistics and all its answers are what they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import muntin
from muntin import CheckpointError, MuntinError, NameTaken, NotFound, SchemaError, SqlError, WindowTooLarge

SECOND = 1_000_000
STREAM = (
    "CREATE STREAM trades (ts TIMESTAMP, symbol VARCHAR, price DOUBLE, shares BIGINT) "
    "TIMESTAMP BY ts DELAY 5 SECONDS"
)
QUERIES = {
    "volume": "SELECT symbol, SUM(shares) AS shares FROM trades [RANGE 10 SECONDS] GROUP BY symbol",
    "total": "SELECT SUM(shares) AS shares, MAX(price) AS high FROM trades [RANGE 4 SECONDS SLIDE 2 SECONDS]",
    "last3": "SELECT AVG(price) AS price, COUNT(*) AS n FROM trades [ROWS 3]",
}
GOOD: dict[str, list[Any]] = {
    "ts": [20 * SECOND, 21 * SECOND], "symbol": ["A", None], "price": [1.5, None], "shares": [3, 4],
}  # fmt: skip

Action = Callable[[muntin.Engine], Any]


def make_engine() -> muntin.Engine:
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(QUERIES)
    rng = random.Random(7)
    times = [second * SECOND for second in range(18)]
    engine.push(
        "trades",
        {
            "ts": times,
            "symbol": [rng.choice(["A", "B", "C"]) for _ in times],
            "price": [rng.random() for _ in times],
            "shares": [rng.randrange(100) for _ in times],
        },
    )
    return engine


def observed(engine: muntin.Engine) -> tuple[Any, ...]:
    """All a user can see, but for what was measured: looking is measured too."""
    answers = {name: engine.lookup(name).to_pylist() for name in engine.queries}
    stats = engine.stats()
    for stream in stats["streams"].values():
        del stream["costs"]
    plan = [line for line in engine.explain().splitlines() if not line.startswith("  measured")]
    return stats, answers, list(engine.queries), list(engine.streams), plan


def assert_refused(action: Action, kind: type[MuntinError], *words: str) -> None:
    """The action raises `kind`, its first line has the words, and nothing has changed."""
    engine = make_engine()
    before = observed(engine)
    with pytest.raises(kind) as caught:
        action(engine)
    first_line = str(caught.value).splitlines()[0]
    for word in words:
        assert word in first_line, f"{word!r} is not in: {first_line}"
    assert observed(engine) == before
    engine.check()
    # and it is as good as one that never saw the mistake
    untouched = make_engine()
    for each in (engine, untouched):
        each.push("trades", GOOD)
    assert observed(engine) == observed(untouched)
    emitted, expected = engine.advance(), untouched.advance()
    assert {name: table.to_pylist() for name, table in emitted.items()} == {
        name: table.to_pylist() for name, table in expected.items()
    }


BAD_QUERIES = {
    "empty text": ("", SqlError, ()),
    "not SQL": ("make me a sandwich", SqlError, ("make",)),
    "misspelt keyword": ("SELECT SUM(shares) AS s FORM trades [ROWS 5]", SqlError, ()),
    "unknown stream": ("SELECT COUNT(*) AS n FROM trade [ROWS 5]", MuntinError, ("trade", "trades")),
    "unknown column": ("SELECT SUM(share) AS s FROM trades [ROWS 5]", SqlError, ("share", "shares")),
    "unknown column in WHERE": (
        "SELECT COUNT(*) AS n FROM trades [ROWS 5] WHERE prize > 1", SqlError, ("prize", "price")),
    "unknown column in FILTER": (
        "SELECT COUNT(*) FILTER (WHERE prize > 1) AS n FROM trades [ROWS 5]", SqlError, ("prize", "price")),
    "unknown key": (
        "SELECT sym, COUNT(*) AS n FROM trades [ROWS 5] GROUP BY sym", SqlError, ("sym", "symbol")),
    "unknown aggregate": ("SELECT SUMM(shares) AS s FROM trades [ROWS 5]", SqlError, ("SUMM",)),
    "text summed": ("SELECT SUM(symbol) AS s FROM trades [ROWS 5]", SqlError, ("SUM", "number")),
    "text in arithmetic": ("SELECT SUM(symbol + 1) AS s FROM trades [ROWS 5]", SqlError, ()),
    "number as condition": ("SELECT COUNT(*) AS n FROM trades [ROWS 5] WHERE shares", SqlError, ()),
    "text compared with number": ("SELECT COUNT(*) AS n FROM trades [ROWS 5] WHERE symbol > 3", SqlError, ()),
    "no window": ("SELECT SUM(shares) AS s FROM trades", SqlError, ("window",)),
    "window of zero": ("SELECT SUM(shares) AS s FROM trades [RANGE 0 SECONDS]", SqlError, ("size",)),
    "rows of zero": ("SELECT SUM(shares) AS s FROM trades [ROWS 0]", SqlError, ("size",)),
    "negative window": ("SELECT SUM(shares) AS s FROM trades [RANGE -5 SECONDS]", SqlError, ()),
    "slide of zero": (
        "SELECT SUM(shares) AS s FROM trades [RANGE 5 SECONDS SLIDE 0 SECONDS]", SqlError, ("SLIDE",)),
    "negative slide": (
        "SELECT SUM(shares) AS s FROM trades [RANGE 5 SECONDS SLIDE -1 SECONDS]", SqlError, ()),
    "TO beyond the size": (
        "SELECT SUM(shares) AS s FROM trades [RANGE 5 SECONDS TO 6 SECONDS]", SqlError, ("TO",)),
    "unknown unit": ("SELECT SUM(shares) AS s FROM trades [RANGE 5 FORTNIGHTS]", SqlError, ("FORTNIGHTS",)),
    "window without unit": ("SELECT SUM(shares) AS s FROM trades [RANGE 5]", SqlError, ()),
    "unclosed window": ("SELECT SUM(shares) AS s FROM trades [RANGE 5 SECONDS", SqlError, ()),
    "column outside GROUP BY": (
        "SELECT price, COUNT(*) AS n FROM trades [ROWS 5] GROUP BY symbol", SqlError, ("price",)),
    "aggregate in WHERE": (
        "SELECT COUNT(*) AS n FROM trades [ROWS 5] WHERE SUM(shares) > 1", SqlError, ("WHERE",)),
    "nested aggregate": ("SELECT SUM(MAX(shares)) AS s FROM trades [ROWS 5]", SqlError, ()),
    "phi out of range": ("SELECT QUANTILE(price, 1.5) AS q FROM trades [ROWS 5]", SqlError, ("phi",)),
    "phi not constant": ("SELECT QUANTILE(price, shares) AS q FROM trades [ROWS 5]", SqlError, ()),
    "too many arguments": ("SELECT SUM(price, shares) AS s FROM trades [ROWS 5]", SqlError, ("SUM",)),
    "two outputs of one name": (
        "SELECT SUM(price) AS s, MAX(price) AS s FROM trades [ROWS 5]", SqlError, ("s",)),
    "ROWS SLIDE with time in OVER": (
        "SELECT SUM(shares) OVER [RANGE 5 SECONDS] AS s FROM trades [ROWS 4 SLIDE 2]", MuntinError, ()),
    "OVER windows that disagree on the slide": (
        "SELECT SUM(shares) OVER [RANGE 4 SECONDS SLIDE 2 SECONDS] AS a, "
        "SUM(shares) OVER [RANGE 4 SECONDS] AS b FROM trades", SqlError, ("SLIDE",)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", BAD_QUERIES)
def test_bad_query(mistake: str) -> None:
    """A query that cannot be accepted is refused whole."""
    sql, kind, words = BAD_QUERIES[mistake]
    assert_refused(lambda engine: engine.register(sql, name="wrong"), kind, *words)


@pytest.mark.parametrize("mistake", BAD_QUERIES)
def test_bad_query_among_good_ones(mistake: str) -> None:
    """register_many registers all or none."""
    sql, kind, words = BAD_QUERIES[mistake]
    queries = {"fine": "SELECT COUNT(*) AS n FROM trades [ROWS 9]", "wrong": sql}
    assert_refused(lambda engine: engine.register_many(queries), kind, *words)


BAD_STATEMENTS = {
    "stream without a time column": ("CREATE STREAM s (v BIGINT) TIMESTAMP BY ts", MuntinError, ("ts",)),
    "time column of text": ("CREATE STREAM s (ts VARCHAR) TIMESTAMP BY ts", MuntinError, ("ts",)),
    "no TIMESTAMP BY": ("CREATE STREAM s (ts TIMESTAMP)", SqlError, ("TIMESTAMP BY",)),
    "unknown type": ("CREATE STREAM s (ts TIMESTAMP, v WIBBLE) TIMESTAMP BY ts", SqlError, ("WIBBLE",)),
    "negative delay": ("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts DELAY -5 SECONDS", MuntinError, ()),
    "column twice": (
        "CREATE STREAM s (ts TIMESTAMP, v BIGINT, v BIGINT) TIMESTAMP BY ts", MuntinError, ("v",)),
    "stream name taken": (STREAM, NameTaken, ("trades",)),
    "drop of an unknown query": ("DROP QUERY volumes", NotFound, ("volumes", "volume")),
    "drop of a stream in use": ("DROP STREAM trades", MuntinError, ("trades", "volume")),
    "unknown statement": ("TRUNCATE trades", SqlError, ()),
    "second of two statements": (
        "CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts; DROP QUERY nobody", NotFound, ("nobody",)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", BAD_STATEMENTS)
def test_bad_statement(mistake: str) -> None:
    """A script runs whole or not at all."""
    sql, kind, words = BAD_STATEMENTS[mistake]
    assert_refused(lambda engine: engine.execute(sql), kind, *words)


def changed(**columns: Any) -> dict[str, Any]:
    """The good batch with some columns replaced, or left out where None."""
    return {name: values for name, values in {**GOOD, **columns}.items() if values is not None}


BAD_BATCHES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "missing column": (changed(price=None), ("price",)),
    "missing time column": (changed(ts=None), ("ts",)),
    "misspelt column": (changed(price=None, prize=[1.0, 2.0]), ("price", "prize")),
    "text for a number": (changed(shares=["three", "four"]), ("shares",)),
    "number for text": (changed(symbol=[1, 2]), ("symbol",)),
    "fractions for integers": (changed(shares=[1.5, 2.5]), ("shares",)),
    "number beyond 64 bits": (changed(shares=[2**70, 1]), ("shares",)),
    "mixed types in a column": (changed(shares=[1, "two"]), ("shares",)),
    "text for a time": (changed(ts=["noon", "midnight"]), ("ts",)),
    "NULL time": (changed(ts=[20 * SECOND, None]), ("ts", "NULL")),
    "all NULL": (changed(**{name: [None, None] for name in GOOD}), ("ts", "NULL")),
    "ragged columns": (changed(shares=[1]), ("length",)),
    "a list of rows": ([{"ts": 1}], ("list",)),
    "a number": (42, ("int",)),
    "None": (None, ("NoneType",)),
    "a string": ("batch", ("str",)),
    "nested values": (changed(shares=[[1], [2]]), ("shares",)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", BAD_BATCHES)
def test_bad_batch(mistake: str) -> None:
    """A batch that does not fit its stream is refused whole."""
    batch, words = BAD_BATCHES[mistake]
    assert_refused(lambda engine: engine.push("trades", batch), SchemaError, *words)


def test_bad_row_in_a_good_batch() -> None:
    """One NULL time refuses all events of the batch, not just the ones after it."""
    batch = pa.table({**GOOD, "ts": pa.array([20 * SECOND, None], pa.timestamp("us"))})
    assert_refused(lambda engine: engine.push("trades", batch), SchemaError, "ts", "NULL")


CALLS: dict[str, tuple[Action, type[MuntinError], tuple[str, ...]]] = {
    "push to an unknown stream": (lambda engine: engine.push("trade", GOOD), NotFound, ("trade", "trades")),
    "look-up of an unknown query": (lambda engine: engine.lookup("volumes"), NotFound, ("volumes", "volume")),
    "drop of an unknown query": (lambda engine: engine.drop("volumes"), NotFound, ("volumes", "volume")),
    "explain of an unknown query": (lambda engine: engine.explain("volumes"), NotFound, ("volumes",)),
    "name taken": (lambda engine: engine.register(QUERIES["total"], name="volume"), NameTaken, ("volume",)),
    "key of an un-keyed query": (lambda engine: engine.lookup("total", key="A"), MuntinError, ("key",)),
    "key of two columns for one": (
        lambda engine: engine.lookup("volume", key=("A", "B")), MuntinError, ("key",)),
    "key of a wrong type": (lambda engine: engine.lookup("volume", key=3.5), MuntinError, ()),
    "instant that is none": (
        lambda engine: engine.lookup("volume", at="yesterday"), MuntinError, ("yesterday",)),
    "instant of a wrong type": (
        lambda engine: engine.lookup("volume", at=object()), MuntinError, ("instant",)),
    "advance to no instant": (lambda engine: engine.advance(until="soon"), MuntinError, ("soon",)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", CALLS)
def test_bad_call(mistake: str) -> None:
    """Names, keys and instants that are not there."""
    action, kind, words = CALLS[mistake]
    assert_refused(action, kind, *words)


def test_lookup_beyond_the_state() -> None:
    """A window the state has forgotten is an error that says so, never a truncated value."""
    engine = make_engine()
    engine.push("trades", {**GOOD, "ts": [500 * SECOND, 10_000 * SECOND]})
    engine.advance()
    for name in QUERIES:
        with pytest.raises(WindowTooLarge) as caught:
            engine.lookup(name, at=3 * SECOND)
        assert str(caught.value).splitlines()[0]


def test_sum_beyond_64_bits() -> None:
    """A sum that does not fit is an error of the look-up; the next window is fine again."""
    engine = make_engine()
    engine.register("SELECT SUM(shares) AS shares FROM trades [ROWS 2]", name="pair")
    engine.push("trades", {**GOOD, "shares": [2**62, 2**62]})
    with pytest.raises(MuntinError, match="64 bits"):
        engine.lookup("pair")
    assert engine.lookup("last3")["n"].to_pylist() == [3]
    engine.push("trades", {**GOOD, "ts": [22 * SECOND, 23 * SECOND]})
    assert engine.lookup("pair")["shares"].to_pylist() == [7]


def test_overflow_in_an_expression() -> None:
    """Integer overflow is an error of the push that brought it."""
    engine = make_engine()
    engine.register("SELECT MAX(shares * shares) AS m FROM trades [ROWS 2]", name="square")
    before = observed(engine)
    with pytest.raises(MuntinError):
        engine.push("trades", {**GOOD, "shares": [2**40, 1]})
    assert observed(engine) == before


# -- what is not an error ----------------------------------------------------------------------------


def test_late_events_are_counted() -> None:
    """Time going back beyond the DELAY: the events are left out and counted."""
    engine = make_engine()
    answers = observed(engine)[1]
    engine.push("trades", {**GOOD, "ts": [1 * SECOND, 12 * SECOND - 1]})
    assert engine.stats()["streams"]["trades"]["late"] == 2
    assert observed(engine)[1] == answers


def test_empty_batches() -> None:
    """A batch of no events changes nothing, typed or not."""
    engine = make_engine()
    before = observed(engine)
    engine.push("trades", {name: [] for name in GOOD})
    engine.push("trades", pa.table(GOOD, schema=engine.streams["trades"].schema).slice(0, 0))
    assert observed(engine) == before


def test_unknown_key_has_no_row() -> None:
    """Asking for a key the stream has not had is no error."""
    engine = make_engine()
    assert engine.lookup("volume", key="nobody").num_rows == 0
    assert engine.lookup("volume", key=["nobody", "A"]).num_rows == engine.lookup("volume", key="A").num_rows


def test_columns_beyond_the_schema_are_ignored() -> None:
    engine, plain = make_engine(), make_engine()
    engine.push("trades", {**GOOD, "note": ["x", "y"]})
    plain.push("trades", GOOD)
    assert observed(engine) == observed(plain)


# -- checkpoints ---------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    make_engine().checkpoint(path)
    return path


def test_missing_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(MuntinError, match="nowhere"):
        muntin.Engine.restore(tmp_path / "nowhere")


def test_empty_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    with pytest.raises(CheckpointError, match="empty"):
        muntin.Engine.restore(path)


@pytest.mark.parametrize("foreign", [b"PAR1 this is not ours", b"\x80\x04K\x01.", b"ARROW1\0\0" + bytes(64)])
def test_foreign_file(tmp_path: Path, foreign: bytes) -> None:
    """Neither Parquet nor a pickle nor another's Arrow file is taken for a checkpoint."""
    path = tmp_path / "foreign"
    path.write_bytes(foreign)
    with pytest.raises(CheckpointError, match="foreign"):
        muntin.Engine.restore(path)


@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.9, 0.999])
def test_truncated_checkpoint(checkpoint: Path, part: float) -> None:
    """A file that ends early is refused wherever it ends."""
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(CheckpointError, match="checkpoint"):
        muntin.Engine.restore(checkpoint)


def test_damaged_checkpoint(checkpoint: Path) -> None:
    """A flipped bit anywhere is found by the checksum."""
    content = checkpoint.read_bytes()
    rng = random.Random(3)
    for _ in range(40):
        place = rng.randrange(len(content))
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.randrange(8)
        checkpoint.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            muntin.Engine.restore(checkpoint)


def test_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    """The engine goes on, and an older checkpoint stays as it was."""
    assert_refused(
        lambda engine: engine.checkpoint(tmp_path / "no" / "such" / "folder" / "file"), CheckpointError
    )


def test_checkpoint_restores_what_was_observed(checkpoint: Path) -> None:
    """The undamaged file is fine, so the tests above fail for the right reason."""
    seen, expected = observed(muntin.Engine.restore(checkpoint)), observed(make_engine())
    for stats in (seen[0], expected[0]):
        del stats["streams"]["trades"]["bytes"]  # room to grow, which a checkpoint leaves out
    assert seen[:-1] == expected[:-1]
