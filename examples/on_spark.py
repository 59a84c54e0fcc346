"""Burn rates on Spark: the query and requests of burn_rates.py, as a DataFrame; a stream has `readStream` instead."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
from burn_rates import BURNING, requests

import muntin.spark


def main() -> list[str]:
    """The day of burn_rates.py; the same alerts."""
    random, begin = np.random.default_rng(1), datetime(2026, 3, 2)
    day = [requests(random, begin + timedelta(minutes=minute)) for minute in range(0, 24 * 60, 10)]
    spark = muntin.spark.local_session()  # or a session of your own
    events = spark.createDataFrame(pa.concat_tables(day).to_pandas())
    answers = muntin.spark.shared_windows(events, {"burning": BURNING}, stream="requests", time="ts")
    burning = muntin.spark.answers_of(answers, "burning").orderBy("window_end", "service").toPandas()
    return [f"{row.window_end:%H:%M} {row.change} burning: {row.service}" for row in burning.itertuples()]


if __name__ == "__main__":
    print(*main(), sep="\n")
