"""The generated stream: seeded, independent of the batching, late and out of order as declared."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin.testing import BLOCK, TradeStream


@pytest.mark.parametrize("batch_rows", [1_000, BLOCK, 100_000])
def test_batching_changes_nothing(batch_rows):
    stream = TradeStream(seed=5, symbols=300)
    batches = list(stream.batches(150_000, batch_rows))
    assert {batch.num_rows for batch in batches[:-1]} <= {batch_rows}
    assert pa.Table.from_batches(batches).equals(stream.table(150_000))


def test_seed_decides():
    assert TradeStream(seed=1).table(100).equals(TradeStream(seed=1).table(100))
    assert not TradeStream(seed=1).table(100).equals(TradeStream(seed=2).table(100))


def test_disorder_stays_within_the_delay():
    stream = TradeStream(disorder=0.3)
    assert late_events(stream, stream.table(100_000)) == 0


def test_late_share_is_late():
    stream = TradeStream(late=0.01)
    assert late_events(stream, stream.table(100_000)) == pytest.approx(1_000, rel=0.2)


def test_few_symbols_trade_much_and_prices_are_sane():
    table = TradeStream().table(200_000)
    counts = np.sort(np.unique(table["symbol"].to_numpy(), return_counts=True)[1])[::-1]
    assert counts[:50].sum() > 0.4 * counts.sum()
    assert table["price"].to_numpy().min() > 0
    assert table["shares"].to_numpy().min() >= 100


def late_events(stream: TradeStream, table: pa.Table) -> int:
    ts = table["ts"].cast(pa.int64()).to_numpy()
    reached = np.maximum.accumulate(ts) - stream.delay
    return int((ts[1:] < reached[:-1]).sum())
