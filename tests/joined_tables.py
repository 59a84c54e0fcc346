"""Tables, a stream, and queries that join them in every way; rows drawn at random."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

SECOND = 1_000_000
STREAM = "CREATE STREAM p (ts BIGINT, k BIGINT, g VARCHAR, v BIGINT) TIMESTAMP BY ts DELAY 2 SECONDS"
TABLES = {
    "t": "CREATE TABLE t (k BIGINT, most BIGINT, tier VARCHAR, PRIMARY KEY (k))",
    "r": "CREATE TABLE r (id BIGINT, k BIGINT, g VARCHAR, floor BIGINT, PRIMARY KEY (id))",
    "u": "CREATE TABLE u (id BIGINT, k BIGINT, span INTERVAL, floor BIGINT, PRIMARY KEY (id))",
}
W = "[RANGE 4 SECONDS SLIDE 1 SECOND]"
QUERIES = [
    f"SELECT p.k, SUM(p.v) AS s, t.most FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY p.k HAVING SUM(p.v) > t.most",
    f"SELECT p.k, COUNT(*) AS n, t.tier FROM p {W} AS p JOIN t ON p.k = t.k WHERE tier = 'a' AND v > 1 GROUP BY p.k",
    f"SELECT p.k, p.g, MEDIAN(p.v) AS m, t.most FROM p {W} AS p LEFT JOIN t ON p.k = t.k AND t.tier <> 'b' "
    "WHERE t.tier IS NULL OR t.most > 1 GROUP BY p.k, p.g",
    f"SELECT r.id, SUM(p.v) AS s, COUNT(*) AS n FROM p {W} AS p JOIN r ON p.k = r.k AND p.g = r.g GROUP BY r.id "
    "HAVING SUM(p.v) > r.floor",
    f"SELECT r.id, t.most + r.floor AS x, LAST(p.v) AS l FROM p {W} AS p JOIN r ON p.k = r.k LEFT JOIN t ON p.k = t.k "
    "WHERE t.most IS NULL OR t.most < r.id + 3 GROUP BY r.id",
    "SELECT p.k, AVG(p.v) FILTER (WHERE p.g = 'a') OVER [RANGE 2 SECONDS SLIDE 1 SECOND] / t.most AS x "
    f"FROM p {W} AS p JOIN t USING (k) GROUP BY p.k",
    "SELECT p.k, COUNT(*) AS n, t.tier FROM p [RANGE 5 SECONDS TO 2 SECONDS SLIDE 2 SECONDS] AS p JOIN t ON p.k = t.k "
    "GROUP BY p.k HAVING COUNT(*) > t.most",
    # keys that are merged, and a query without any
    f"SELECT t.tier, COUNT(*) AS n, SUM(p.v) AS s, MAX(p.v) AS m FROM p {W} AS p JOIN t ON p.k = t.k GROUP BY t.tier",
    f"SELECT t.tier, AVG(p.v) AS a FROM p {W} AS p LEFT JOIN t ON p.k = t.k GROUP BY t.tier HAVING COUNT(*) > 1",
    f"SELECT p.g, SUM(p.v) AS s FROM p {W} AS p JOIN t ON p.k = t.k WHERE t.most > 1 GROUP BY p.g",
    f"SELECT COUNT(*) AS n, SUM(p.v) AS s FROM p {W} AS p JOIN t ON p.k = t.k WHERE t.tier = 'a'",
    f"SELECT SUM(p.v) AS s FROM p {W} AS p JOIN t ON p.k = t.k HAVING COUNT(*) > 2",
    # every row of the table
    f"SELECT t.k, t.tier, COUNT(p.v) AS n, SUM(p.v) AS s FROM t LEFT JOIN p {W} AS p ON p.k = t.k GROUP BY t.k",
    f"SELECT t.k, COUNT(p.ts) AS n FROM t LEFT JOIN p {W} AS p ON p.k = t.k AND p.v > 0 WHERE t.tier = 'a' "
    "GROUP BY t.k HAVING COUNT(p.ts) = 0",
    f"SELECT t.tier, COUNT(p.ts) AS n FROM t LEFT JOIN p {W} AS p ON p.k = t.k GROUP BY t.tier",
    f"SELECT r.id, r.floor, MAX(p.v) AS m FROM r LEFT JOIN p {W} AS p ON p.k = r.k AND p.g = r.g GROUP BY r.id",
    # windows of rows
    "SELECT u.id, SUM(p.v) AS s, COUNT(*) AS n FROM p [RANGE u.span UP TO 4 SECONDS SLIDE 1 SECOND] AS p "
    "JOIN u ON p.k = u.k GROUP BY u.id HAVING COUNT(*) > u.floor",
    "SELECT u.id, MEDIAN(p.v) AS m, COUNT(*) OVER [RANGE 3 SECONDS SLIDE 1 SECOND] AS n "
    "FROM p [RANGE u.span UP TO 4 SECONDS STEP 2 SECONDS SLIDE 1 SECOND] AS p JOIN u ON p.k = u.k GROUP BY u.id",
    "SELECT u.id, u.span, COUNT(p.ts) AS n FROM u LEFT JOIN p "
    "[RANGE u.span UP TO 4 SECONDS SLIDE 2 SECONDS OFFSET 1 SECOND] AS p ON p.k = u.k GROUP BY u.id",
    "SELECT p.k, SUM(p.v) AS s, t.most FROM p [SINCE HOUR SLIDE 2 SECONDS OFFSET 1 SECOND] AS p JOIN t ON p.k = t.k "
    "GROUP BY p.k HAVING SUM(p.v) > t.most",
    # without SLIDE, and by rows
    "SELECT p.k, SUM(p.v) AS s, t.most FROM p [RANGE 3 SECONDS] AS p JOIN t ON p.k = t.k GROUP BY p.k",
    "SELECT p.k, SUM(p.v) AS s, t.most FROM p [ROWS 3] AS p JOIN t ON p.k = t.k GROUP BY p.k HAVING SUM(p.v) > t.most",
    "SELECT t.tier, COUNT(*) AS n FROM p [RANGE 3 SECONDS] AS p JOIN t ON p.k = t.k GROUP BY t.tier",
]  # fmt: skip
SPANS = [None, *(timedelta(milliseconds=each) for each in (-1000, 0, 500, 1000, 2000, 4000, 5000))]
TIERS, KEYS = ["a", "b", None], [1, 2, 3, None]
VALUES: dict[str, tuple[list[Any], ...]] = {  # of each column of a row
    "t": ([1, 2, 4], [0, 2, 5, None], TIERS),
    "r": ([1, 2, 3], KEYS, TIERS, [0, 4, None]),
    "u": ([1, 2, 3], KEYS, SPANS, [0, 1, None]),
}
EVENT: tuple[Any, ...] = (range(9), KEYS, TIERS, [0, 1, 5, None])
COLUMNS = {"t": ("k", "most", "tier"), "r": ("id", "k", "g", "floor"), "u": ("id", "k", "span", "floor")}


def drawn(random: Random, table: str, least: int) -> list[tuple[Any, ...]]:
    """Rows with different keys."""
    rows = [tuple(map(random.choice, VALUES[table])) for _ in range(random.randint(least, 4))]
    return list({row[0]: row for row in rows}.values())
