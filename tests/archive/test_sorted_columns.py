"""Bisection in sorted columns finds what reading every row would find: numbers, times, texts, NULL and NaN."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from muntin.archive.sorted_columns import SortedColumns, sought
from muntin.errors import ArchiveError

DAY = dt.date(2026, 1, 1)
# Values in ascending order, among them many of one, so that equal rows lie in runs short and long.
KINDS = {
    "int": (pa.int64(), [-3, 0, 1, 5, 9]),
    "double": (pa.float64(), [-0.5, 0.0, 1.5, 2.0, 3.25]),
    "time": (pa.timestamp("us"), [dt.datetime(2026, 1, day) for day in (1, 2, 3, 5, 8)]),
    "day": (pa.date32(), [DAY + dt.timedelta(day) for day in (0, 1, 2, 9, 10)]),
    "text": (pa.string(), ["", "a", "aa", "b", "ö"]),
    "large text": (pa.large_string(), ["", "a", "aa", "b", "ö"]),
    "bytes": (pa.binary(), [b"", b"\x00", b"a", b"b", b"\xff"]),
    "decimal": (pa.decimal128(5, 2), [-1, 0, 2, 3, 4]),
    "with null": (pa.int64(), [-3, 0, 1, 5, None]),
    "text with null": (pa.string(), ["", "a", "aa", "b", None]),
}
RUNS = [0, 1, 2, 15, 16, 17, 18, 40]


def drawn(random, kind):
    """A column in order, with its values by rank."""
    type, values = KINDS[kind]
    ranks = np.repeat(np.arange(5), random.choice(RUNS, 5))
    return pa.array([values[rank] for rank in ranks], type), ranks


@pytest.mark.parametrize("kind", KINDS)
def test_one_column(kind):
    random = np.random.default_rng(1)
    type, values = KINDS[kind]
    for _ in range(30):
        column, ranks = drawn(random, kind)
        skipped = int(random.integers(0, 1 + min(3, len(column))))
        column, ranks = column[skipped:], ranks[skipped:]  # a slice: its buffers begin elsewhere
        if not len(column):
            continue
        rows = SortedColumns([column])
        for rank, value in enumerate(values):
            wanted = sought(value, pa.field("k", type))
            expected = int((ranks < rank).sum()), int((ranks <= rank).sum())
            assert (rows.bound((wanted,), "left"), rows.bound((wanted,), "right")) == expected
            assert rows.span((wanted,)) == expected
        assert rows.span(()) == (0, len(column))


def test_two_columns():
    """The second is in order only among rows that are equal in the first."""
    random = np.random.default_rng(2)
    for _ in range(40):
        pairs = sorted(zip(*random.integers(0, 4, (2, random.integers(1, 120))).tolist(), strict=True))
        rows = SortedColumns([pa.array([a for a, _ in pairs]), pa.array([f"{b}" for _, b in pairs])])
        for a in range(-1, 5):
            assert rows.span((a,)) == (sum(p[0] < a for p in pairs), sum(p[0] <= a for p in pairs))
            for b in range(-1, 5):
                expected = sum(p < (a, b) for p in pairs), sum(p <= (a, b) for p in pairs)
                assert rows.span((a, f"{b}" if b >= 0 else "")) == expected


def test_a_value_of_another_type_is_refused_by_the_columns_name():
    with pytest.raises(ArchiveError, match=r"'x' .*'k'"):
        sought("x", pa.field("k", pa.int64()))
    assert sought(None, pa.field("k", pa.int64())) is None
