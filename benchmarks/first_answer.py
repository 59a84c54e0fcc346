"""The child process of `cold_start`: prints the CPU seconds of each phase, and of the clock to the answer, as JSON."""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise


def main(queries: int) -> None:
    """Go from nothing to an answer; `queries` of the demo are registered on the way."""
    began, stamps = time.perf_counter(), [time.process_time()]
    import muntin

    stamps.append(time.process_time())
    engine = muntin.Engine()  # loads what an engine needs
    stamps.append(time.process_time())

    # Drawing the events is not part of any phase.
    drawing = time.perf_counter()
    from muntin.demo.trades import SUBSCRIPTIONS, subscription_rows, trade_queries
    from muntin.testing import TradeStream

    stream = TradeStream(seed=3)
    batch = next(stream.batches(20_000, 20_000))
    texts = trade_queries(queries)
    rows = subscription_rows(3, stream) if "subscriptions_met" in texts else None
    shift = time.process_time() - stamps[-1]
    began += time.perf_counter() - drawing
    engine.execute(stream.create_statement)
    if rows is not None:
        engine.execute(SUBSCRIPTIONS)
        engine.load("subscriptions", rows)
    engine.register_many(texts)
    stamps.append(time.process_time() - shift)
    engine.push(stream.name, batch)
    stamps.append(time.process_time() - shift)
    answer = engine.lookup("market")
    stamps.append(time.process_time() - shift)
    total = time.perf_counter() - began
    engine.advance()
    stamps.append(time.process_time() - shift)
    check(batch, answer)
    phases = ("import", "engine", "register", "push", "lookup", "advance")
    spans = [after - before for before, after in pairwise(stamps)]
    json.dump(dict(zip(phases, spans, strict=True)) | {"total": total}, sys.stdout)


def check(batch, answer) -> None:
    """The look-up against NumPy: trades of the last minute, up to a whole five seconds."""
    import pyarrow as pa

    ts = batch["ts"].cast(pa.int64()).to_numpy()
    end = (int(ts.max()) + 1) // 5_000_000 * 5_000_000
    inside = (ts >= end - 60_000_000) & (ts < end)
    assert answer["trades"].to_pylist() == [int(inside.sum())]
    assert answer["volume"].to_pylist() == [int(batch["shares"].to_numpy()[inside].sum())]


if __name__ == "__main__":
    main(int(sys.argv[1]))
