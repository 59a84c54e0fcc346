"""Monitoring: services that burn their error budget too fast, and hours that are unlike the hours before."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa

import muntin

# 99.9 % of requests are to succeed. At 14.4 times the allowed errors, a month's budget is gone in two days: page
# somebody if both the last hour and the last five minutes are that bad, so that the alarm ends when the trouble does.
BURNING = """
  SELECT service,
         COUNT_IF(status >= 500) OVER [RANGE 1 HOUR] / COUNT(*) OVER [RANGE 1 HOUR] AS hour,
         COUNT_IF(status >= 500) / COUNT(*) AS recent
  FROM requests [RANGE 5 MINUTES SLIDE 1 MINUTE]
  GROUP BY service
  HAVING COUNT_IF(status >= 500) OVER [RANGE 1 HOUR] > 0.0144 * COUNT(*) OVER [RANGE 1 HOUR]
     AND COUNT_IF(status >= 500) > 0.0144 * COUNT(*)
  EMIT CHANGES"""
SCRIPT = f"""
CREATE STREAM requests (ts TIMESTAMP, service VARCHAR, status BIGINT, seconds DOUBLE) TIMESTAMP BY ts;

REGISTER QUERY burning AS {BURNING};

-- the windows of one query are the events of another
REGISTER QUERY hours AS
  SELECT service, APPROX_QUANTILE(seconds, 0.99, 0.01) AS p99
  FROM requests [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY service;
CREATE STREAM hourly FROM QUERY hours;
REGISTER QUERY unusual AS
  SELECT service, LAST(p99) AS p99, (LAST(p99) - AVG(p99)) / STDDEV_SAMP(p99) AS z
  FROM hourly [RANGE 30 DAYS SLIDE 1 HOUR] GROUP BY service
  HAVING COUNT(*) > 5 AND LAST(p99) - AVG(p99) > 3 * STDDEV_SAMP(p99);
"""


def requests(random: np.random.Generator, begin: datetime) -> pa.Table:
    """Ten minutes of requests. From 15:00 to 16:00 one in twenty to `search` fails, and at 20:00 `cart` slows down."""
    many = 3_000
    service = random.choice(["search", "cart"], many)
    failing = (service == "search") & (begin.hour == 15) & (random.random(many) < 0.05)
    slow = np.where((service == "cart") & (begin.hour == 20), 3.0, 1.0)
    at = np.datetime64(begin, "us") + np.sort(random.integers(0, 600_000_000, many)).astype("timedelta64[us]")
    return pa.table(
        {
            "ts": at,
            "service": service,
            "status": np.where(failing, 503, 200),
            "seconds": random.exponential(0.1, many) * slow,
        }
    )


def main() -> list[str]:
    """A day; what there was to tell, in order."""
    engine, random, told = muntin.Engine(), np.random.default_rng(1), []
    engine.execute(SCRIPT)
    for minute in range(0, 24 * 60, 10):
        engine.push("requests", requests(random, datetime(2026, 3, 2) + timedelta(minutes=minute)))
        answers = engine.advance()
        for row in answers.get("burning", pa.table({})).to_pylist():
            told.append(f"{row['window_end']:%H:%M} {row['change']} burning: {row['service']}")
        for row in answers.get("unusual", pa.table({})).to_pylist():
            told.append(f"{row['window_end']:%H:%M} unusual: {row['service']}, z {row['z']:.1f}")
    return told


if __name__ == "__main__":
    print(*main(), sep="\n")
