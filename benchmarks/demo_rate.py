"""The demo's thousand queries: events a second that are pushed and answered, in batches of several sizes."""

from __future__ import annotations

import statistics
import time
from typing import Any

from benchmarks.measure import Column, Result
from muntin import Engine
from muntin.demo.trades import BATCH_ROWS, trade_source
from muntin.testing import BLOCK, TradeStream

COLUMNS = [
    Column("batch", "events a batch", ",d"), Column("queries", "queries", ",d"),
    Column("draw", "drawing, us per event", ".2f"), Column("push", "push, us per event", ".2f"),
    Column("answer", "answers, us per event", ".2f"), Column("rate", "million events/s of CPU time", ".2f"),
    Column("wall", "million events/s by the clock", ".2f"),
    Column("two", "by the clock, 2 threads", ".2f"), Column("rows", "rows", ",d"),
]  # fmt: skip
NOTES = f"""\
What `muntin demo` does without its display: trades of 5,000 symbols are pushed to 1,000 queries and 100,000 rows of
subscriptions, and `advance(together=True)` gives out every window that closed. CPU time of the process, after the first
minute of event time; the demo's batches have {BATCH_ROWS:,} events, and its engine has two threads where there are two
cores. Rows are fewer in larger batches, since windows without SLIDE are answered once for each."""


def run(quick: bool) -> Result:
    """Replay the same events in batches of three sizes."""
    blocks, queries = (24, 60) if quick else (64, 1_000)
    rows = []
    for size in (BLOCK, BATCH_ROWS, 2 * BATCH_ROWS):
        alone, together = (measure(size, blocks, queries, threads) for threads in (1, 2))
        assert alone["rows"] == together["rows"]
        rows.append(alone | {"two": together["wall"]})
    return Result(
        "demo_rate", "The demo's thousand queries", " ".join(NOTES.split()), COLUMNS, rows, {"blocks": blocks}
    )


def measure(size: int, blocks: int, queries: int, threads: int) -> dict[str, Any]:
    """One size of batches, on so many threads."""
    source = trade_source(queries, 0, None)
    stream = TradeStream(seed=0, rate=20_000.0, late=2e-6)
    engine = Engine(threads=threads)
    engine.execute(source.create_statement)
    for name, table in source.tables.items():
        engine.load(name, table)
    engine.register_many(source.queries)
    before = time.process_time()
    batches = list(stream.batches(blocks * BLOCK, size))
    drawing = (time.process_time() - before) / (blocks * BLOCK)
    spent: dict[str, list[float]] = {"push": [], "answer": []}
    seen, many, clock = 0, 0, 0.0
    for batch in batches:
        is_warm = seen >= 16 * BLOCK
        started, clocked = time.process_time(), time.perf_counter()
        engine.push(stream.name, batch)
        pushed = time.process_time()
        more = True
        while more:
            tables = engine.advance(together=True)
            many += sum(table.num_rows for table in tables)
            more = tables.more
        if is_warm:
            spent["push"].append((pushed - started) / batch.num_rows)
            spent["answer"].append((time.process_time() - pushed) / batch.num_rows)
            clock += time.perf_counter() - clocked
        seen += batch.num_rows
    assert engine.lookup("market").num_rows == 1
    push, answer = (statistics.fmean(spent[each]) for each in ("push", "answer"))
    wall = (seen - 16 * BLOCK) / clock / 1e6
    return {"batch": size, "queries": queries, "draw": drawing * 1e6, "push": push * 1e6, "answer": answer * 1e6,
            "rate": 1e-6 / (push + answer), "wall": wall, "rows": many}  # fmt: skip
