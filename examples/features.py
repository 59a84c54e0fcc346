"""Features for a model: the same queries make its training set from history and answer it online."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import muntin

STREAM = "CREATE STREAM orders (ts TIMESTAMP, customer BIGINT, amount DOUBLE, item VARCHAR) TIMESTAMP BY ts"
WINDOWS = {"1h": "1 HOUR", "1d": "1 DAY", "7d": "7 DAYS"}
QUERIES = {
    f"orders_{name}": f"""
        SELECT customer, COUNT(*) AS orders, SUM(amount) AS spent, MAX(amount) AS most,
               ARG_MAX(item, amount) AS dearest
        FROM orders [RANGE {size}] GROUP BY customer"""
    for name, size in WINDOWS.items()
}
FEATURES = ("orders", "spent", "most", "dearest")
BEGIN = np.datetime64("2026-03-01", "us")
CUSTOMERS, DAYS, ORDERS = 200, 10, 20_000


def history(seed: int = 1) -> pa.Table:
    """Orders of ten days, in order of time."""
    random = np.random.default_rng(seed)
    at = np.sort(random.integers(0, DAYS * 86_400_000_000, ORDERS))
    return pa.table(
        {
            "ts": BEGIN + at.astype("timedelta64[us]"),
            "customer": random.integers(0, CUSTOMERS, ORDERS),
            "amount": np.round(random.gamma(2.0, 20.0, ORDERS), 2),
            "item": random.choice(["book", "lamp", "bread", "shoe"], ORDERS),
        }
    )


def training_set(orders: pa.Table, seed: int = 2) -> pa.Table:
    """For a thousand pairs of customer and instant, what was known then: nothing of what came later leaks in."""
    random = np.random.default_rng(seed)
    asked = pa.table(
        {
            "customer": random.integers(0, CUSTOMERS, 1_000),
            "at": BEGIN + random.integers(7, DAYS * 24, 1_000).astype("timedelta64[h]"),
        }
    )
    return muntin.lookup_at(orders, QUERIES, asked, stream=STREAM)


def online(orders: pa.Table, customer: int, at: datetime) -> dict[str, object]:
    """The same features of one customer from an engine that events are pushed to, as a service would have it."""
    engine = muntin.Engine()
    engine.execute(STREAM)
    engine.register_many(QUERIES)
    engine.push("orders", orders.filter(pc.less(orders["ts"], pa.scalar(at, pa.timestamp("us")))))
    engine.advance(until=at)
    rows = {name: engine.lookup(name, key=customer, at=at).to_pylist() for name in QUERIES}
    return {f"{name}.{each}": row[each] for name, found in rows.items() for row in found for each in FEATURES}


def main() -> pa.Table:
    """The training set."""
    return training_set(history())


if __name__ == "__main__":
    for row in main().slice(0, 3).to_pylist():
        print(*(f"{name}: {value}" for name, value in row.items()), sep="\n", end="\n\n")
