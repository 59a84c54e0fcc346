"""Money through an engine: in by all formats, out exactly, beside an oracle of `decimal.Decimal` and no shared code."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import muntin
from muntin.engine.event_file import open_events
from muntin.errors import MuntinError, SchemaError
from muntin.serve.json_text import json_rows
from muntin.serve.wire import CSV, JSON, LINES, key_of, read_rows
from muntin.stream import Stream
from muntin.table import Table

KIND = pa.decimal128(18, 2)
STREAM = "CREATE STREAM s (ts TIMESTAMP, k BIGINT, amount DECIMAL(18, 2)) TIMESTAMP BY ts DELAY 3 SECONDS"
SECOND, EPOCH = 10**6, datetime(1970, 1, 1)
Event = tuple[int, int, Decimal | None]
QUERIES = {
    "by_key": "SELECT k, SUM(amount) AS sum, AVG(amount) AS avg, MIN(amount) AS min, MAX(amount) AS max, "
    "COUNT(DISTINCT amount) AS kinds FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY k",
    "whole": "SELECT SUM(amount) AS sum, AVG(amount) AS avg, MIN(amount) AS min, MAX(amount) AS max, "
    "COUNT(DISTINCT amount) AS kinds FROM s [RANGE 20 SECONDS SLIDE 5 SECONDS] WHERE amount <= 9.995",
}


def events_of(random: random.Random, many: int, sign: int) -> list[Event]:
    """Small amounts, and some so large that a sum of ten exceeds 64 bits; some late, some NULL."""
    found: list[Event] = []
    for number in range(many):
        large = sign * random.randrange(10**18 - 9, 10**18)
        units = random.choice([random.randrange(-2000, 2000), large, large, large, large])
        amount = None if random.random() < 0.05 else Decimal(units).scaleb(-2)
        found.append(
            (number * SECOND // 2 - random.choice([0, 0, 1, 2, 9]) * SECOND, random.randrange(3), amount)
        )
    return found


def admitted(events: list[Event]) -> Iterator[Event]:
    greatest: int | None = None
    for event in events:
        if greatest is None or event[0] >= greatest - 3 * SECOND:
            greatest = event[0] if greatest is None else max(greatest, event[0])
            yield event


def expected(amounts: list[Decimal]) -> tuple[Any, ...]:
    if not amounts:
        return None, None, None, None, 0
    with localcontext(prec=60):
        total = sum(amounts, Decimal("0.00"))
    mean = Fraction(total) / len(amounts)
    return total, mean.numerator / mean.denominator, min(amounts), max(amounts), len(set(amounts))


@pytest.mark.parametrize("seed", range(2))
def test_answers_are_those_of_python(seed: int, tmp_path: Path) -> None:
    """Whatever the batches, and with a checkpoint in between."""
    chance = random.Random(seed)
    events, engine = events_of(chance, 160, 1 - 2 * seed), muntin.Engine()
    engine.execute(STREAM)
    for name, sql in QUERIES.items():
        engine.register(sql, name=name)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in QUERIES}
    start, stop = 0, chance.randrange(40, 120)
    while start < len(events):
        batch = events[start : start + chance.randrange(1, 30)]
        start += len(batch)
        at, keys, amounts = zip(*batch, strict=True)
        engine.push("s", {"ts": list(at), "k": list(keys), "amount": pa.array(amounts, KIND)})
        for name, table in engine.advance().items():
            rows[name] += table.to_pylist()
        if start >= stop:
            engine.checkpoint(tmp_path / "kept")
            engine, stop = muntin.Engine.restore(tmp_path / "kept"), len(events) + 1
    counted = list(admitted(events))
    assert all(rows.values())
    for name, found in rows.items():
        for row in found:
            end = (row["window_end"] - EPOCH) // timedelta(microseconds=1)
            inside = [
                amount
                for at, key, amount in counted
                if end - 20 * SECOND <= at < end
                and amount is not None
                and (name == "by_key" or amount <= Decimal("9.99"))
                and row.get("k", key) == key
            ]
            assert tuple(row[column] for column in ("sum", "avg", "min", "max", "kinds")) == expected(inside)
    assert max(abs(row["sum"] or 0) for row in rows["by_key"]) > Decimal(2**63).scaleb(-2)  # beyond 64 bits


def test_batches_keep_every_digit_or_are_refused() -> None:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, a DECIMAL(12, 2)) TIMESTAMP BY ts")
    engine.register("SELECT LAST(a) AS a FROM s [ROWS 1]", name="last")
    given = [
        [Decimal("9.99")], [9.99], [7], pa.array([Decimal("9.990")]), pa.array([9], pa.int8()), [1234567890.12],
        pa.array([Decimal("9.99")], pa.decimal256(50, 20)), [None],
    ]  # fmt: skip
    wanted = ["9.99", "9.99", "7", "9.99", "9", "1234567890.12", "9.99", None]
    for at, (values, value) in enumerate(zip(given, wanted, strict=True)):
        engine.push("s", {"ts": [at], "a": values})
        if value is not None:
            assert engine.lookup("last").to_pylist()[0]["a"] == Decimal(value)
    for wrong in ([9.994], [Decimal("9.999")], [10**10], [1e30], [float("nan")], ["9.99"], [1 / 3]):
        with pytest.raises(SchemaError, match="column 'a' of the batch does not fit"):
            engine.push("s", {"ts": [99], "a": wrong})


def with_exponents(text: str, folder: Path) -> Iterator[Callable[[], Any]]:
    """All ways in which a text is read as a decimal."""
    stream = Stream("s", pa.schema([("ts", pa.int64()), ("a", KIND), ("k", pa.string())]), "ts")
    quoted, escaped = f'"{text}"', f'"{text}"'.replace("e", "\\u0065")
    for number, value in enumerate((text, quoted, escaped)):
        line = f'{{"ts": 1, "a": {value}, "k": "1e-9999"}}'
        path = folder / f"{number}.jsonl"
        path.write_text('{"ts": 0, "a": null, "k": "1e-9999"}\n' + line)
        yield lambda path=path: list(open_events(path, stream).batches(10))  # type: ignore[misc]
        yield lambda line=line: read_rows(stream, line.encode(), LINES)  # type: ignore[misc]
        yield lambda line=line: read_rows(stream, f"[{line}]".encode(), JSON)  # type: ignore[misc]
    csv = f"ts,a,k\n1,{text},1e-9999\n"
    (folder / "events.csv").write_text(csv)
    yield lambda: list(open_events(folder / "events.csv", stream).batches(10))
    yield lambda: read_rows(stream, csv.encode(), CSV)
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k VARCHAR) TIMESTAMP BY ts")
    engine.register("SELECT MAX(CAST(k AS DECIMAL(18, 2))) AS a FROM s [ROWS 5]", name="cast")
    yield lambda: engine.push("s", {"ts": [1], "k": [text]})


def test_exponents_that_no_decimal_has(tmp_path: Path) -> None:
    """Arrow would end the process. Shorter ones are read as they always were."""
    for read in with_exponents("1e-999999999", tmp_path):
        with pytest.raises(MuntinError, match=r"'1[eE]-999999999' has an exponent that no DECIMAL has"):
            read()
    for read in with_exponents("150e-002", tmp_path):
        read()


def test_files_and_requests(tmp_path: Path) -> None:
    """CSV, JSON and Parquet, by their digits; the server's JSON has texts."""
    table = pa.table(
        {"ts": pa.array([1, 2]), "a": pa.array([Decimal("9.99"), Decimal("9007199254740993.01")], KIND)}
    )
    pq.write_table(table, tmp_path / "events.parquet")
    (tmp_path / "events.csv").write_text("ts,a\n1,9.99\n2,9007199254740993.01\n")
    (tmp_path / "events.jsonl").write_text('{"ts": 1, "a": 9.99}\n{"ts": 2, "a": 9007199254740993.01}\n')
    stream = Stream("s", table.schema, "ts")
    for file in ("events.parquet", "events.csv", "events.jsonl"):
        read = pa.Table.from_batches(open_events(tmp_path / file, stream).batches(10))
        assert read["a"].to_pylist() == table["a"].to_pylist(), file
    bodies = {
        JSON: b'[{"ts": 1, "a": 9.99}, {"ts": 2, "a": 9007199254740993.01}]',
        LINES: b'{"ts": 1, "a": "9.99"}\n{"ts": 2, "a": 9007199254740993.01}',
        CSV: b"ts,a\n1,9.99\n2,9007199254740993.01\n",
    }
    for kind, body in bodies.items():
        assert read_rows(stream, body, kind)["a"].to_pylist() == table["a"].to_pylist(), kind
    assert json_rows(table) == [{"ts": 1, "a": "9.99"}, {"ts": 2, "a": "9007199254740993.01"}]
    assert key_of("9.99", [("a", KIND)]) == key_of(9.99, [("a", KIND)]) == Decimal("9.99")


def test_keys_and_tables() -> None:
    engine = muntin.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, price DECIMAL(9, 2), n INTEGER) TIMESTAMP BY ts")
    engine.execute("CREATE TABLE tiers (price DECIMAL(9, 2) PRIMARY KEY, fee DECIMAL(6, 4))")
    engine.execute("INSERT INTO tiers VALUES (9.99, 0.0125), (5, -0.5)")
    engine.register("SELECT price, SUM(n * price) AS v FROM s [ROWS 5] GROUP BY price", name="by_price")
    engine.register(
        "SELECT s.price, SUM(s.n * s.price) * t.fee AS owed FROM s [RANGE 1 HOUR] AS s JOIN tiers AS t "
        "ON s.price = t.price GROUP BY s.price, t.fee HAVING SUM(s.price) > t.fee",
        name="fees",
    )
    engine.push("s", {"ts": [1, 2, 3], "price": [9.99, 5.0, 9.99], "n": [2, 1, 1]})
    assert engine.lookup("by_price", key=Decimal("9.990")).to_pylist()[0]["v"] == Decimal("29.97")
    assert engine.lookup("by_price", key=[5]).to_pylist()[0]["v"] == Decimal("5.00")
    assert [row["owed"] for row in engine.lookup("fees").to_pylist()] == [
        Decimal("0.374625"),
        Decimal("-2.500000"),
    ]
    for wrong in (9.99, "9.99", Decimal("9.999"), 10**9, True):
        with pytest.raises(MuntinError, match="is not a value of key 'price'"):
            engine.lookup("by_price", key=wrong)
    for wrong in ("NaN", "sNaN", "Infinity", "1E+999999999", "1E-999999999", "9" * 5_000):
        with pytest.raises(MuntinError, match="is not a value of key 'price'"):
            engine.lookup("by_price", key=Decimal(wrong))
    for nothing in ("0E+999999999", "-0E-999999999"):
        assert engine.lookup("by_price", key=Decimal(nothing)).num_rows == 0
    engine.register("SELECT SUM(price * 1000000000000000) AS v FROM s [ROWS 5]", name="large")
    with pytest.raises(MuntinError, match="does not fit"):  # 18 digits are kept, and these are 24
        engine.push("s", {"ts": [4], "price": [Decimal("9999999.99")], "n": [1]})


@pytest.mark.parametrize("kind", [pa.decimal128(19, 2), pa.decimal256(12, 2)])
def test_types_that_cannot_be_kept(kind: pa.DataType) -> None:
    schema = pa.schema([("ts", pa.int64()), ("a", kind)])
    for make in (lambda: Stream("s", schema, "ts"), lambda: Table("s", schema, ("ts",))):
        with pytest.raises(SchemaError, match="a DECIMAL has at most 18 digits"):
            make()


def test_parameters_keep_their_digits() -> None:
    engine = muntin.Engine()
    engine.execute(STREAM)
    limit = Decimal("1234567890123456.78")
    engine.register(
        "SELECT COUNT(*) AS n FROM s [ROWS 9] WHERE amount = $limit", "q", parameters={"limit": limit}
    )
    cents = Decimal("0.01")
    engine.push(
        "s",
        {"ts": [1, 2, 3], "k": [1, 1, 1], "amount": pa.array([limit, limit + cents, limit - cents], KIND)},
    )
    assert engine.lookup("q").to_pylist()[0]["n"] == 1
