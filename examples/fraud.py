"""Fraud: accounts that spend more today than they may, and accounts that pay in bursts."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import muntin

SCRIPT = """
CREATE STREAM payments (ts TIMESTAMP, account VARCHAR, amount DECIMAL(12, 2), country VARCHAR)
  TIMESTAMP BY ts DELAY 10 SECONDS;
CREATE TABLE limits (account VARCHAR, daily DECIMAL(12, 2), PRIMARY KEY (account));

-- money is exact, and the day begins at midnight
REGISTER QUERY over_limit AS
  SELECT p.account, SUM(p.amount) AS spent, l.daily
  FROM payments [SINCE DAY SLIDE 1 MINUTE] AS p JOIN limits AS l ON p.account = l.account
  GROUP BY p.account HAVING SUM(p.amount) > l.daily EMIT CHANGES;

-- five payments in two minutes, or from three countries in an hour: who enters, and who leaves again
REGISTER QUERY bursts AS
  SELECT account, COUNT(*) AS payments, SUM(amount) AS spent
  FROM payments [RANGE 2 MINUTES SLIDE 10 SECONDS]
  GROUP BY account HAVING COUNT(*) >= 5 EMIT CHANGES;
REGISTER QUERY countries AS
  SELECT account, COUNT(DISTINCT country) AS countries
  FROM payments [RANGE 1 HOUR SLIDE 1 MINUTE]
  GROUP BY account HAVING COUNT(DISTINCT country) >= 3 EMIT CHANGES;
"""


def payments(random: Random, minute: datetime) -> dict[str, list[Any]]:
    """A minute of payments; at ten past nine one account pays again and again, in other countries."""
    rows = [(minute + timedelta(seconds=6 * i), f"a{random.randrange(50)}", random.randrange(100, 9_000), "DE")
            for i in range(10)]  # fmt: skip
    if (minute.hour, minute.minute) == (9, 10):
        rows += [
            (minute + timedelta(seconds=8 * i), "a7", 30_000, ("DE", "FR", "BR")[i % 3]) for i in range(7)
        ]
    ts, account, cents, country = zip(*sorted(rows), strict=True)
    amount = [Decimal(each).scaleb(-2) for each in cents]
    return {"ts": list(ts), "account": list(account), "amount": amount, "country": list(country)}


def main() -> list[str]:
    """Two hours of payments; the alerts, in the order in which they came."""
    engine, random, alerts = muntin.Engine(), Random(1), []
    engine.execute(SCRIPT)
    engine.load("limits", {"account": [f"a{i}" for i in range(50)], "daily": [Decimal("1500.00")] * 50})
    now = datetime(2026, 3, 2, 8)
    while now < datetime(2026, 3, 2, 10):
        engine.push("payments", payments(random, now))
        now += timedelta(minutes=1)
        for query, rows in engine.advance().items():
            for row in rows.to_pylist():
                if row["change"] == "enter":
                    told = {name: row[name] for name in row if name in ("spent", "payments", "countries")}
                    alerts.append(f"{row['window_end']:%H:%M:%S} {query}: {row['account']} {told}")
    return alerts


if __name__ == "__main__":
    print(*main(), sep="\n")
