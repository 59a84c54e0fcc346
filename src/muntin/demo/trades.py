"""A thousand questions about trades: screens with thresholds, market-wide figures, tuple windows.

A screen is *find all symbols whose … over the last … exceeds …*, the substream filter of Arasu &
Widom, "Resource Sharing in Continuous Sliding-Window Aggregates" (VLDB 2004), example 1.2; the two
named ones are those of their section 1.1.2.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa

from muntin.demo.replay import Source
from muntin.testing import BLOCK, TradeStream, ticker

# Downward momentum: down more than 2 % in 20 minutes while 70 % of the volume traded at the ask.
MOMENTUM = """\
SELECT symbol, LAST(price) AS price, 100 * (LAST(price) / FIRST(price) - 1) AS moved
FROM trades [RANGE 20 MINUTES SLIDE 10 SECONDS]
WHERE exchange = 'NASDAQ'
GROUP BY symbol
HAVING LAST(price) BETWEEN 20 AND 200
   AND LAST(price) < 0.98 * FIRST(price)
   AND SUM(shares) FILTER (WHERE side = 'ask') OVER [RANGE 2 MINUTES]
       >= 0.7 * SUM(shares) OVER [RANGE 2 MINUTES]"""

# High volatility: a spread of 3 % in 30 minutes, and volumes 300 % above what they were before.
VOLATILITY = """\
SELECT symbol, LAST(price) AS price, MAX(price) - MIN(price) AS spread
FROM trades [RANGE 30 MINUTES SLIDE 10 SECONDS]
GROUP BY symbol
HAVING LAST(price) BETWEEN 20 AND 200
   AND MAX(price) - MIN(price) > 0.03 * LAST(price)
   AND AVG(shares) OVER [RANGE 5 MINUTES] > 4 * AVG(shares) OVER [RANGE 30 MINUTES TO 5 MINUTES]"""

# Every row of a table is a rule: its own symbol, span and volume. The table may change while the stream runs.
SUBSCRIPTIONS = """\
CREATE TABLE subscriptions (id BIGINT, symbol VARCHAR, span INTERVAL, floor BIGINT, PRIMARY KEY (id))"""
SUBSCRIBED = """\
SELECT s.id, s.symbol, s.span, SUM(t.shares) AS volume
FROM trades [RANGE s.span UP TO 10 MINUTES SLIDE 10 SECONDS] AS t JOIN subscriptions AS s ON t.symbol = s.symbol
GROUP BY s.id HAVING SUM(t.shares) > s.floor EMIT CHANGES"""
SUBSCRIBERS = 100_000

WINDOWS = (  # seconds: size, slide
    (30, 5), (60, 10), (90, 30), (120, 10), (120, 30), (180, 30), (240, 30), (300, 10), (300, 30),
    (300, 60), (420, 60), (600, 30), (600, 60), (720, 60), (900, 60), (1_200, 60), (1_200, 300),
    (1_800, 60), (1_800, 300), (2_700, 300), (3_600, 60), (3_600, 300), (3_600, 600), (7_200, 600),
)  # fmt: skip
ROWS = ((20, 10), (50, 25), (100, 50))  # events of one symbol: size, slide
BATCH_ROWS = 4 * BLOCK  # 13 seconds of event time, a fraction of one by the clock
SHARES_PER_TRADE = 255  # on average, outside surges
HARMONIC = 9.1  # sum of 1/r over 5,000 symbols: the Zipf law's denominator


def trade_source(queries: int, seed: int, events: int | None) -> Source:
    """Trades of 5,000 symbols under the first `queries` questions of a seeded endless list."""
    stream = TradeStream(seed=seed, rate=20_000.0, late=2e-6)
    named = trade_queries(queries, seed, stream.rate)
    screens = [name for name in named if name.startswith(("volume", "spread"))]
    tables = {"subscriptions": subscription_rows(seed, stream)} if "subscriptions_met" in named else {}
    return Source(
        stream=stream.name,
        title=f"{stream.symbols:,} symbols, about {stream.rate:,.0f} trades a second of event time",
        create_statement="; ".join([stream.create_statement, *([SUBSCRIPTIONS] if tables else [])]),
        queries=named,
        batches=stream.batches(events, BATCH_ROWS),
        watched=("downward_momentum", "volatility_surge", *screens[:3]),
        shown=("market", "downward_momentum", "volatility_surge"),
        tables=tables,
    )


def subscription_rows(seed: int, stream: TradeStream) -> pa.Table:
    """Subscriptions to all symbols, more to those with more trades; about one in fifty is met at a time."""
    random = np.random.default_rng(seed)
    rank = np.minimum(random.zipf(1.3, SUBSCRIBERS) - 1, stream.symbols - 1)
    seconds = 10 * random.integers(1, 61, SUBSCRIBERS)
    mean = SHARES_PER_TRADE * stream.rate * seconds / (HARMONIC * (rank + 1))
    floor = mean * random.uniform(1.2, 3.0, SUBSCRIBERS) + 40 * SHARES_PER_TRADE
    names = pa.array([ticker(number) for number in range(stream.symbols)])
    return pa.table(
        {
            "id": np.arange(SUBSCRIBERS),
            "symbol": names.take(pa.array(rank)),
            "span": pa.array(seconds * 1_000_000, pa.duration("us")),
            "floor": floor.astype(np.int64),
        }
    )


def trade_queries(count: int, seed: int = 0, rate: float = 20_000.0) -> dict[str, str]:
    """`count` queries by name: four fixed ones, then a mix in the proportions of `MIX`.

    >>> list(trade_queries(5))[:3]
    ['market', 'downward_momentum', 'volatility_surge']
    """
    random = Random(seed)
    named = {
        "market": "SELECT COUNT(*) AS trades, SUM(shares) AS volume, AVG(price) AS price "
        "FROM trades [RANGE 1 MINUTE SLIDE 5 SECONDS]",
        "downward_momentum": MOMENTUM,
        "volatility_surge": VOLATILITY,
        "subscriptions_met": SUBSCRIBED,
    }
    kinds, weights = list(MIX), list(MIX.values())
    for number in range(len(named), count):
        kind = random.choices(kinds, weights)[0]
        named[f"{kind.__name__}_{number:04}"] = kind(random, rate)
    return dict(list(named.items())[:count])


def volume(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    least = _round(SHARES_PER_TRADE * _busy(random, size, rate))
    return _screen("SUM(shares) AS volume", size, slide, f"SUM(shares) > {least}")


def trades(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    return _screen("COUNT(*) AS trades", size, slide, f"COUNT(*) > {_round(_busy(random, size, rate))}")


def block_trades(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    mean = random.randrange(400, 900, 50)
    return _screen("AVG(shares) AS mean", size, slide, f"COUNT(*) > 10 AND AVG(shares) > {mean}")


def high(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    return _screen("MAX(price) AS high", size, slide, f"MAX(price) > {random.randrange(250, 450, 10)}")


def low(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    return _screen("MIN(price) AS low", size, slide, f"MIN(price) < {random.randrange(6, 14)}")


def spread(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    part = 0.005 * random.randrange(5, 12)
    return _screen("MAX(price) - MIN(price) AS spread", size, slide,
                   f"MAX(price) - MIN(price) > {part:g} * AVG(price)")  # fmt: skip


def pressure(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    asked = "SUM(shares) FILTER (WHERE side = 'ask')"
    part = 0.01 * random.randrange(80, 95)
    least = _round(SHARES_PER_TRADE * _busy(random, size, rate) / 20)
    return _screen(f"{asked} / SUM(shares) AS pressure", size, slide,
                   f"SUM(shares) > {least} AND {asked} > {part:g} * SUM(shares)")  # fmt: skip


def exchange(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    what = random.choice(("SUM(shares) AS volume", "COUNT(*) AS trades", "AVG(price) AS price"))
    return f"SELECT exchange, {what} FROM trades {_range(size, slide)} GROUP BY exchange"


def whole_market(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    what = random.choice(
        ("SUM(shares) AS volume", "COUNT(*) AS trades", "MAX(price) AS high, MIN(price) AS low")
    )
    return f"SELECT {what} FROM trades {_range(size, slide)}"


def one_symbol(random: Random, rate: float) -> str:
    size, slide = random.choice(WINDOWS)
    return (
        f"SELECT symbol, SUM(price * shares) / SUM(shares) AS vwap FROM trades {_range(size, slide)} "
        f"WHERE symbol = '{ticker(random.randrange(20))}' GROUP BY symbol"
    )


def last_trades(random: Random, rate: float) -> str:
    size, slide = random.choice(ROWS)
    if random.random() < 0.8:
        window = f"[ROWS {size * 100} SLIDE {slide * 100}]"
        return f"SELECT AVG(price) AS price, MAX(shares) AS largest FROM trades {window}"
    return (
        f"SELECT symbol, AVG(price) AS price FROM trades [ROWS {size} SLIDE {slide}] GROUP BY symbol "
        f"HAVING SUM(shares) > {SHARES_PER_TRADE * size * 2}"
    )


def any_instant(random: Random, rate: float) -> str:
    size = random.choice((1, 5, 10))
    if random.random() < 0.5:
        return f"SELECT COUNT(*) AS trades, MAX(price) AS high FROM trades [RANGE {size} SECONDS]"
    least = _round(SHARES_PER_TRADE * _busy(random, size, rate))
    return (
        f"SELECT symbol, SUM(shares) AS volume FROM trades [RANGE {size} SECONDS] GROUP BY symbol "
        f"HAVING SUM(shares) > {least}"
    )


MIX: dict[Callable[[Random, float], str], int] = {  # in a thousand
    volume: 304, trades: 140, block_trades: 80, high: 60, low: 60, spread: 60, pressure: 60,
    exchange: 85, whole_market: 85, one_symbol: 50, any_instant: 10, last_trades: 6,
}  # fmt: skip


def _screen(item: str, size: int, slide: int, having: str) -> str:
    return f"SELECT symbol, {item} FROM trades {_range(size, slide)} GROUP BY symbol HAVING {having}"


def _range(size: int, slide: int) -> str:
    return f"[RANGE {size} SECONDS SLIDE {slide} SECONDS]"


def _busy(random: Random, size: int, rate: float) -> float:
    """A number of trades in `size` seconds that only a few symbols, about 1 to 40, reach."""
    return rate * size / (HARMONIC * random.randrange(2, 40))


def _round(number: float) -> int:
    """To two digits, as people write thresholds."""
    return int(float(f"{number:.1e}"))
