"""Which values are equal, in every kind of view: NULL equals nothing, NaN itself whatever its bits, 0.0 is -0.0."""

from __future__ import annotations

import datetime
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from muntin import Engine

SECOND = 1_000_000


def nan(bits, kind):
    return np.array([bits], f"i{np.dtype(kind).itemsize}").view(kind)[0]


WIDE_NANS = [nan(bits, "f8") for bits in (0x7FF8000000000000, -0x8000000000000, 0x7FF8000000000001)]
NARROW_NANS = [nan(bits, "f4") for bits in (0x7FC00000, -0x400000, 0x7FC00001)]
DAY, MOMENT = datetime.date, datetime.datetime
VALUES = {
    "BOOLEAN": [True, False, None],
    "TINYINT": [-128, 127, 0, None],
    "BIGINT": [-(2**63), 2**63 - 1, 2**53, 2**53 + 1, 0, None],
    "REAL": [0.0, -0.0, *NARROW_NANS, float("inf"), float("-inf"), 1e-45, -1e-45, None],
    "DOUBLE": [0.0, -0.0, *WIDE_NANS, float("inf"), float("-inf"), 5e-324, -5e-324, 2.0**53, None],
    "VARCHAR": ["", " ", "a", "A", "a ", "a\0", "é", "e\u0301", "0", "-0.0", "NULL", None],
    "TIMESTAMP": [MOMENT(1970, 1, 1), MOMENT(1969, 12, 31, 23, 59, 59, 999999), MOMENT(1, 1, 1), None],
    "DATE": [DAY(1970, 1, 1), DAY(1969, 12, 31), DAY(9999, 12, 31), None],
}
VIEWS = {
    "except": "SELECT k, n FROM a [RANGE 6 SECONDS] EXCEPT SELECT k FROM b [RANGE 3 SECONDS]",
    "except two": "SELECT k, n, g FROM a [RANGE 6 SECONDS] EXCEPT SELECT k, g FROM b [RANGE 3 SECONDS]",
    "exists": "SELECT n FROM a [RANGE 6 SECONDS] WHERE NOT EXISTS (SELECT 1 FROM b [RANGE 3 SECONDS] "
    "WHERE b.k = a.k AND b.g = a.g)",
    "by count": "SELECT k, n FROM a [ROWS 9] EXCEPT SELECT k FROM b [ROWS 3]",
    "join": "SELECT a.k, a.n, b.n AS m FROM a [RANGE 6 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k = b.k",
    "wide": "SELECT a.k, a.n, b.n AS m, c.n AS o FROM a [RANGE 6 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k = b.k "
    "JOIN c [RANGE 6 SECONDS] ON c.k = b.k",
    "whole": "SELECT a.k, a.n, b.n AS m, c.n AS o FROM a [RANGE 6 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k = b.k "
    "JOIN c [RANGE 6 SECONDS] ON c.k = b.k AND c.g = a.g + b.g - b.g",
}


def equal(one, other):
    """The rule of docs/concepts/semantics.md, one value at a time."""
    if one is None or other is None:
        return False
    return one == other or (one != one and other != other)


class Twin:
    """All events (time, value, g, n) ever; answers are found by looking at each."""

    def __init__(self):
        self.events = {"a": [], "b": [], "c": []}

    def window(self, name, now, seconds):
        return [event for event in self.events[name] if now - seconds * SECOND <= event[0] < now]

    def answer(self, view, now):
        a, b, c = self.window("a", now, 6), self.window("b", now, 3), self.window("c", now, 6)
        if view == "by count":
            a, b = self.window("a", now, 99)[-9:], self.window("b", now, 99)[-3:]
        pairs = [(x, y) for x in a for y in b if equal(x[1], y[1])]
        if view in ("except", "by count"):
            return Counter((x[3],) for x in a if not any(equal(x[1], y[1]) for y in b))
        if view in ("except two", "exists"):
            return Counter((x[3],) for x in a if not any(equal(x[1], y[1]) and x[2] == y[2] for y in b))
        if view == "join":
            return Counter((x[3], y[3]) for x, y in pairs)
        return Counter(
            (x[3], y[3], z[3])
            for x, y in pairs
            for z in c
            if equal(y[1], z[1]) and (view == "wide" or z[2] == x[2])
        )


def numbers(table):
    names = [name for name in ("n", "m", "o") if name in table.column_names]
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("kind", VALUES)
def test_every_view_compares_alike(tmp_path, kind):
    engine, twin, random = Engine(archive=tmp_path), Twin(), np.random.default_rng(len(kind))
    for name in "abc":
        engine.execute(f"CREATE STREAM {name} (ts BIGINT, k {kind}, g BIGINT, n BIGINT) TIMESTAMP BY ts")
    for name, text in VIEWS.items():
        engine.execute(f'CREATE MATERIALIZED VIEW "{name}" AS {text} EVERY 1 SECOND')
    values, seen = VALUES[kind], Counter()
    column_type = engine.streams["a"].schema.field("k").type
    for turn in range(12):
        for number, name in enumerate("abc"):
            count = 4 if name != "b" else 2
            at = np.sort(random.integers(turn * SECOND, (turn + 1) * SECOND, count))
            chosen = [values[each] for each in random.integers(0, len(values), count)]
            g, n = random.integers(0, 2, count), turn * 100 + number * 10 + np.arange(count)
            keys = arrow(chosen, column_type)
            engine.push(name, {"ts": at, "k": keys, "g": g, "n": n})
            twin.events[name] += zip(at.tolist(), chosen, g.tolist(), n.tolist(), strict=True)
        now = (turn + 1) * SECOND
        engine.advance(now)
        for view in VIEWS:
            wanted = twin.answer(view, now)
            assert numbers(engine.lookup(view)) == wanted, (view, turn)
            seen[view] += len(wanted)
        for value in {id(each): each for each in values if each is not None}.values():
            found = [x for x in twin.window("a", now, 6) if equal(x[1], value)]
            wanted = Counter(
                row for row in twin.answer("join", now).elements() if row[0] in {x[3] for x in found}
            )
            assert numbers(engine.lookup("join", key=[value])) == wanted, value
            wanted = Counter(
                row for row in twin.answer("except", now).elements() if row[0] in {x[3] for x in found}
            )
            assert numbers(engine.lookup("except", key=[value])) == wanted, value
    assert all(seen[view] for view in VIEWS)


def arrow(values, kind):
    """With the bits of floats as they are."""
    if not pa.types.is_floating(kind):
        return pa.array(values, kind)
    dtype = kind.to_pandas_dtype()
    bits = np.array([dtype(0) if value is None else dtype(value) for value in values], dtype)
    return pa.array(bits, mask=np.array([value is None for value in values]))
