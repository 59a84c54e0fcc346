"""`FROM v [RANGE x]`: any windows, any EVERY and any x, compared with all events ever."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from effort import some_of
from muntin import Engine

SECOND = 1_000_000
KEYS = ["p", "q"]


def naive(events, now, sizes, to=None):
    """Rows of the join at an instant: all combinations of events are looked at."""
    to = to or [0] * len(sizes)
    windows = [
        [event for event in side if now - size <= event[0] < now - end]
        for side, size, end in zip(events, sizes, to, strict=True)
    ]
    return Counter(
        (rows[0][1], *(row[2] for row in rows))
        for rows in itertools.product(*windows)
        if len({row[1] for row in rows}) == 1
    )


def held(table, inputs):
    names = ["k", *(f"n{number}" for number in range(inputs))]
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


def view_text(sizes, every, to):
    """A join of as many streams as there are sizes, in microseconds."""
    columns = ", ".join(f"s{number}.n AS n{number}" for number in range(len(sizes)))
    windows = [
        f"s{number} [RANGE {size} MICROSECONDS{f' TO {end} MICROSECONDS' if end else ''}]"
        for number, (size, end) in enumerate(zip(sizes, to, strict=True))
    ]
    joined = windows[0] + "".join(
        f" JOIN {window} ON s{number}.k = s0.k" for number, window in enumerate(windows[1:], 1)
    )
    return f"CREATE MATERIALIZED VIEW v AS SELECT s0.k, {columns} FROM {joined} EVERY {every} MICROSECONDS"


def drawn(random, inputs):
    """Windows and an EVERY: equal windows as often as others, and not always multiples of EVERY."""
    every = int(random.integers(1, 11)) * SECOND
    sizes = [int(random.integers(every // SECOND, 40)) * SECOND for _ in range(inputs)]
    if random.random() < 0.5:
        sizes = [sizes[0]] * inputs
    to = [0] * inputs
    if inputs == 2 and random.random() < 0.3:
        to = [int(random.integers(0, min(sizes))) // 3] * 2
    return sizes, every, to


@pytest.mark.parametrize("inputs", [2, 3])
@pytest.mark.parametrize("seed", range(some_of(7, 43)))
def test_agrees_with_all_events_ever(tmp_path, seed, inputs):
    random = np.random.default_rng((seed, inputs))
    sizes, every, to = drawn(random, inputs)
    engine, events = Engine(archive=tmp_path), [[] for _ in sizes]
    for number in range(inputs):
        engine.execute(f"CREATE STREAM s{number} (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts")
    engine.execute(view_text(sizes, every, to))
    end, found = 60 * SECOND, 0
    for number, side in enumerate(events):
        at = np.sort(random.integers(0, end, 24))
        at[::3] -= at[::3] % SECOND  # on the edges of windows
        at.sort()
        keys, values = [KEYS[n] for n in random.integers(0, 2, 24)], np.arange(24)
        engine.push(f"s{number}", {"ts": at, "k": keys, "n": values})
        side += zip(at.tolist(), keys, values.tolist(), strict=True)
    for until in (20 * SECOND, 37 * SECOND, 60 * SECOND):
        engine.advance(until)
        now = until - until % every
        view = engine._views.at_work["v"].view
        cuts = [int(random.integers(1, max(sizes) + 1)) for _ in range(4)]
        cuts += [int(random.integers(1, max(sizes) // SECOND + 1)) * SECOND for _ in range(3)] + [max(sizes)]
        texts = [f"SELECT {_columns(inputs)} FROM v [RANGE {cut} MICROSECONDS]" for cut in cuts]
        for cut, text, together in zip(cuts, texts, engine.select_many(texts), strict=True):
            smaller = [min(size, cut) for size in sizes]
            wanted = naive(events, now, smaller, to) if now else Counter()
            found += sum(wanted.values())
            assert held(engine.execute(text), inputs) == wanted, (sizes, every, cut)
            assert held(together, inputs) == wanted
            assert held(view.read_all(smaller), inputs) == wanted
            assert held(view.probe_range(sizes=smaller), inputs) == wanted
            for key in KEYS:
                of_key = Counter({row: n for row, n in wanted.items() if row[0] == key})
                assert held(view.probe(key, sizes=smaller), inputs) == of_key
                assert held(view.probe_many(key, [smaller])[0], inputs) == of_key
    assert found or any(to)


def _columns(inputs):
    return ", ".join(["k", *(f"n{number}" for number in range(inputs))])
