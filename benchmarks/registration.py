"""Queries that come and go on a running engine: registrations, drops, first answers, and what pushes notice of it."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from itertools import cycle
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Column, Result
from muntin import Engine
from muntin.testing import TradeStream

COLUMNS = [
    Column("what", "what"), Column("target", "target"), Column("clock", "by the clock", ",.4g"),
    Column("cpu", "CPU", ",.4g"), Column("unit", "unit"),
]  # fmt: skip
TRADES = TradeStream(seed=4, rate=2_000.0)
BATCH = 20_000
_FILLING = 80  # batches until no window that is pushed to grows any more
_TURNS = 40
ROUNDS = 5
RATE = 100  # queries that come, and go, in a second while others push
WINDOWS = (
    (30, 5),
    (60, 10),
    (120, 10),
    (300, 10),
    (300, 60),
    (600, 60),
    (1_200, 60),
    (1_800, 300),
    (3_600, 600),
)


def run(quick: bool) -> Result:
    """Time each step on one engine with `live` queries, and check answers of queries that came last."""
    live, runs, seconds = (300, 40, 0.5) if quick else (10_000, 500, 20.0)
    engine, batches = running_engine(base=100)
    queries = mixed_queries(live, seed=1, tag="live")
    rows = _rounds(engine, queries, 1 if quick else ROUNDS)
    for what, ask in (("its first value", _ask_one), ("its first answer, of all keys", _ask_all)):
        clock, cpu = _first_answers(engine, mixed_queries(runs, seed=2, tag="first"), ask)
        rows.append(_named(f"a registration and {what}, median of {runs}", "<= 2 ms", clock, cpu, "ms"))
    rows.append(_pushes(engine, batches, seconds))
    check(engine, batches)
    return Result(
        name="registration",
        title="Queries come and go",
        notes=(
            f"An engine with {live:,} live queries of ten kinds (screens per key with thresholds, spreads, FILTER and "
            "WHERE, several keys, historical windows, bands, windows without SLIDE, ROWS) and windows of hundreds of "
            f"lengths, over trades of 5,000 symbols. First values are looked up by `value`, of one "
            "key, first answers by `lookup`. For the last row two "
            f"engines' worth of {BATCH:,}-event batches are pushed in turns, with and without another thread that "
            f"registers and drops {RATE} queries a second; the figure is the throughput with it, as a part of that "
            "without, in the median of neighbouring turns; other rows are medians too, the first three of "
            f"{ROUNDS} rounds. CPU time is that of the whole process. Answers of queries that came last are compared "
            "with a computation in NumPy."
        ),
        columns=COLUMNS,
        rows=rows,
        parameters={"live": live, "runs": runs, "batch": BATCH, "rate": RATE},
    )


def _rounds(engine: Engine, queries: dict[str, str], rounds: int) -> list[dict[str, Any]]:
    """All come one by one, go, come at once, and go again but for the last time: the median of some rounds."""
    named = f"{len(queries):,} registrations"
    steps: list[tuple[str, str, Callable[[], object]]] = [
        (f"{named}, one by one", "< 6 s", lambda: _register(engine, queries)),
        (f"{len(queries):,} drops, one by one", "< 2 s", lambda: _drop(engine, queries)),
        (f"{named} through `register_many`", "< 2 s", lambda: engine.register_many(queries)),
    ]
    times: dict[str, list[tuple[float, float]]] = {what: [] for what, _, _ in steps}
    for turn in range(rounds):
        if turn:
            _drop(engine, queries)
        for what, _, action in steps:
            before, cpu = time.perf_counter(), time.process_time()
            action()
            times[what].append((time.perf_counter() - before, time.process_time() - cpu))
    return [
        _named(what, target, *map(statistics.median, zip(*times[what], strict=True)), "s")
        for what, target, _ in steps
    ]


def running_engine(base: int) -> tuple[Engine, cycle[pa.RecordBatch]]:
    """An engine with some queries that has seen events, and more of these, which go on for ever."""
    engine = Engine()
    engine.execute(TRADES.create_statement)
    engine.register_many(mixed_queries(base, seed=3, tag="base"))
    some = list(TRADES.batches(10 * BATCH, BATCH))
    for batch in some:
        engine.push("trades", batch)
    return engine, cycle(some)


def mixed_queries(count: int, seed: int, tag: str) -> dict[str, str]:
    """Queries as people write them, no two alike."""
    random = Random(seed)
    kinds, weights = list(MIX), list(MIX.values())
    return {f"{tag} {number}": random.choices(kinds, weights)[0](random) for number in range(count)}


def screen(random: Random) -> str:
    value = f"{random.choice(('SUM', 'AVG', 'MAX', 'MIN', 'COUNT'))}({random.choice(('price', 'shares'))})"
    return _keyed(f"{value} AS v", random, f"{value} > {random.randrange(10, 1_000_000)}")


def spread(random: Random) -> str:
    part = random.randrange(1, 100) / 1000
    having = f"MAX(price) - MIN(price) > {part} * AVG(price) AND COUNT(*) > {random.randrange(5, 500)}"
    return _keyed("MAX(price) - MIN(price) AS spread", random, having)


def pressure(random: Random) -> str:
    asked = f"SUM(shares) FILTER (WHERE side = '{random.choice(('ask', 'bid'))}')"
    return _keyed(
        f"{asked} / SUM(shares) AS p", random, f"{asked} > 0.{random.randrange(51, 99)} * SUM(shares)"
    )


def vwap(random: Random) -> str:
    where = f" WHERE exchange = '{random.choice(('NASDAQ', 'NYSE', 'ARCA'))}'"
    having = f"SUM(shares) > {random.randrange(100, 100_000)}"
    return _keyed("SUM(price * shares) / SUM(shares) AS vwap", random, having, where)


def two_keys(random: Random) -> str:
    return f"SELECT exchange, side, SUM(shares) AS v FROM trades {_window(random)} GROUP BY exchange, side"


def market(random: Random) -> str:
    value = f"{random.choice(('SUM', 'AVG', 'MAX', 'MIN'))}({random.choice(('price', 'shares'))})"
    return f"SELECT {value} AS v, COUNT(*) AS n FROM trades {_window(random)}"


def historical(random: Random) -> str:
    to = random.randrange(1, 200)
    size = to + random.randrange(1, 400)
    return (
        "SELECT SUM(shares) AS v, MAX(price) AS high "
        f"FROM trades [RANGE {size} SECONDS TO {to} SECONDS SLIDE 1 SECOND]"
    )


def band(random: Random) -> str:
    low = random.randrange(1, 300)
    where = f"price BETWEEN {low} AND {low + random.randrange(1, 100)}.5"
    return f"SELECT SUM(shares) AS v FROM trades [RANGE {random.randrange(1, 300)} SECONDS] WHERE {where}"


def instant(random: Random) -> str:
    return f"SELECT COUNT(*) AS n, MAX(price) AS high FROM trades [RANGE {random.randrange(1, 120)} SECONDS]"


def rows_window(random: Random) -> str:
    return f"SELECT AVG(price) AS p FROM trades [ROWS {random.randrange(10, 5_000)}]"


MIX: dict[Callable[[Random], str], int] = {  # in a hundred
    screen: 40, market: 12, historical: 10, spread: 8, vwap: 8, pressure: 6, band: 5, instant: 5, rows_window: 3,
    two_keys: 3,
}  # fmt: skip


def _keyed(item: str, random: Random, having: str, where: str = "") -> str:
    return f"SELECT symbol, {item} FROM trades {_window(random)}{where} GROUP BY symbol HAVING {having}"


def _window(random: Random) -> str:
    size, slide = random.choice(WINDOWS)
    return f"[RANGE {size + slide * random.randrange(60)} SECONDS SLIDE {slide} SECONDS]"


def _register(engine: Engine, queries: dict[str, str]) -> None:
    for name, sql in queries.items():
        engine.register(sql, name)


def _drop(engine: Engine, queries: dict[str, str]) -> None:
    for name in queries:
        engine.drop(name)


def _ask_one(engine: Engine, name: str, sql: str) -> None:
    key: Any = "AAAA" if "GROUP BY symbol" in sql else ("NYSE", "ask") if "GROUP BY" in sql else None
    engine.value(name, key)


def _ask_all(engine: Engine, name: str, sql: str) -> None:
    engine.lookup(name)


def _first_answers(
    engine: Engine, queries: dict[str, str], ask: Callable[[Engine, str, str], None]
) -> tuple[float, float]:
    """Milliseconds by the clock and of work, in the median."""
    spent = []
    for name, sql in queries.items():
        before, cpu = time.perf_counter(), time.process_time()
        engine.register(sql, name)
        ask(engine, name, sql)
        spent.append((time.perf_counter() - before, time.process_time() - cpu))
    _drop(engine, queries)
    clock, work = (1e3 * statistics.median(each) for each in zip(*spent, strict=True))
    return clock, work


def _pushes(engine: Engine, batches: cycle[pa.RecordBatch], seconds: float) -> dict[str, Any]:
    """In short turns with and without registrations beside them, so that what else the machine does meets both."""
    queries = cycle(mixed_queries(1_000, seed=5, tag="passing").items())
    pushed: dict[bool, list[float]] = {False: [], True: []}
    for shift in range(_FILLING):
        engine.push("trades", _later(next(batches), shift))
    shift = _FILLING
    for turn in range(_TURNS):
        stop, is_disturbed = threading.Event(), turn % 2 == 1
        thread = threading.Thread(target=_come_and_go, args=(engine, queries, stop))
        if is_disturbed:
            thread.start()
        count, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds / _TURNS:
            engine.push("trades", _later(next(batches), shift))
            count, shift = count + 1, shift + 1
        pushed[is_disturbed].append(count * BATCH / (time.perf_counter() - begin))
        stop.set()
        if is_disturbed:
            thread.join()
    ratio = statistics.median(with_it / without for without, with_it in zip(*pushed.values(), strict=True))
    return _named("push throughput while others register", ">= 0.9", ratio, None, "of that without")


def _come_and_go(engine: Engine, queries: cycle[tuple[str, str]], stop: threading.Event) -> None:
    while not stop.wait(1 / RATE):
        name, sql = next(queries)
        engine.register(sql, name)
        engine.drop(name)


def _later(batch: pa.RecordBatch, many: int) -> pa.RecordBatch:
    """The same events, later by so many batches' worth of time after the first ten."""
    span = int(BATCH / TRADES.rate * 1e6)
    ts = batch["ts"].cast(pa.int64()).to_numpy() + (10 + many - many % 10) * span
    return batch.set_column(
        batch.schema.get_field_index("ts"), batch.schema.field("ts"), pa.array(ts).view(batch["ts"].type)
    )


def _named(what: str, target: str, clock: float, cpu: float | None, unit: str) -> dict[str, Any]:
    return {"what": what, "target": target, "clock": clock, "cpu": cpu, "unit": unit}


def check(engine: Engine, batches: cycle[pa.RecordBatch]) -> None:
    """A query that comes now, fed from now on, against NumPy."""
    engine.register("SELECT symbol, SUM(shares) AS v FROM trades [RANGE 1 HOUR] GROUP BY symbol", "checked")
    start = engine.stats()["streams"]["trades"]["greatest"].astype("datetime64[us]").astype(np.int64)
    ts = next(batches)
    column = ts["ts"].cast(pa.int64()).to_numpy()
    later = ts.set_column(
        ts.schema.get_field_index("ts"), ts.schema.field("ts"),
        pa.array(column - column.min() + start + 1).view(ts["ts"].type),
    )  # fmt: skip
    engine.push("trades", later)
    found = engine.lookup("checked")
    expected = later.to_pandas().groupby("symbol")["shares"].sum().to_dict() if len(later) else {}
    assert dict(zip(found["symbol"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
