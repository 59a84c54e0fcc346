"""Windows by count: guesses choose parts, real positions decide answers."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import some_of
from muntin.archive import Archive, Definition
from muntin.archive.liveness import Arrivals
from tests.archive.naive import COLUMNS, Oracle, assert_agrees, deliver_counted, table

SIZES = (12, 9)
KEYS = [1, 2, 3]
LABELS = [
    "count_rebuild 2x2", "count_no_rebuild 3x3", "rebuild 2x3", "no_rebuild 2x2", "reindex 4", "del 4",
    "reindex_by_expiry 3", "del_by_expiry 3", "chronological 2x2", "random_rebuild 2x2", "none 2x2",
]  # fmt: skip


def by_count(every=2, window=16, sizes=SIZES, **more) -> Definition:
    return Definition(COLUMNS, ("k",), window, every, inputs=("a", "b"), sizes=sizes, by_count=True, **more)


def match(key, a, b, now):
    return {"k": key, "payload": f"{key} {a} {b} {now}", "a": a, "b": b, "generated_at": now}


@st.composite
def deliveries(draw):
    """Updates with the counts of both streams, at rates that change, and matches of events in the windows."""
    now, seen, steps = 0, [0, 0], []
    for _ in range(draw(st.integers(1, 15))):
        now += draw(st.sampled_from([2, 2, 2, 1, 5, 40]))
        for stream in (0, 1):
            seen[stream] += draw(st.sampled_from([0, 1, 2, 3, 8]))
        rows = []
        for key in draw(st.lists(st.sampled_from(KEYS), max_size=6)) if min(seen) else []:
            places = [
                draw(st.integers(max(1, count - size), count))
                for count, size in zip(seen, SIZES, strict=True)
            ]
            rows.append(match(key, *places, now))
        steps.append((now, tuple(seen), rows))
    return steps


@pytest.mark.parametrize("label", LABELS)
@settings(max_examples=some_of(3, 67))
@given(steps=deliveries(), reopen_at=st.integers(0, 8), reach=st.sampled_from([None, 0, 1]))
def test_agrees_with_the_oracle(label, steps, reopen_at, reach):
    with tempfile.TemporaryDirectory() as folder:
        made = by_count(reach=reach)
        archive, oracle = Archive.create(folder, made, label), Oracle(sizes=SIZES)
        for number, (now, counts, rows) in enumerate(steps):
            deliver_counted(archive, oracle, now, counts, rows)
            assert_agrees(archive, oracle, KEYS)
            if number == reopen_at:
                archive.close()
                archive = Archive.open(folder)
                assert_agrees(archive, oracle, KEYS)
        archive.close()


def test_dies_with_the_first_input_that_leaves(tmp_path):
    columns = pa.schema([("k", pa.int64()), *((name, pa.int64()) for name in ("a", "b", "c"))])
    made = Definition(columns, ("k",), 50, 1, inputs=("a", "b", "c"), sizes=(50, 50, 50), by_count=True)
    for counts in ((51, 2, 2), (1, 52, 2), (1, 2, 52)):
        with Archive.create(tmp_path / str(counts), made, "count_rebuild 2x2") as archive:
            row = {"k": [7], "a": [1], "b": [2], "c": [2], "generated_at": [1]}
            archive.update(1, row, counts=(1, 2, 2))
            alive = tuple(min(count, last) for count, last in zip(counts, (50, 51, 51), strict=True))
            archive.update(2, counts=alive)
            assert archive.view.probe(7).num_rows == 1
            archive.update(2, counts=counts)  # probed at once: no slot has passed, the guess is far off
            assert archive.view.probe(7).num_rows == 0


def stream(updates, seed, factor=2.0):
    """Updates of two streams whose rates change between half and double for a while, with random matches."""
    random = np.random.default_rng(seed)
    seen, rate = np.zeros(2, np.int64), np.ones(2)
    for slot in range(updates):
        if slot % 20 == 0:
            rate = random.choice([1 / factor, 1.0, factor], 2)
        seen += random.poisson(8 * rate)
        places = [np.maximum(1, count - random.integers(0, 128, 12)) for count in seen]
        rows = [
            match(int(random.integers(5)), int(a), int(b), slot + 1) for a, b in zip(*places, strict=True)
        ]
        yield slot + 1, tuple(int(count) for count in seen), rows


@pytest.mark.parametrize(("generations", "expiries"), [(2, 2), (4, 4), (8, 2), (2, 8)])
def test_touched_parts_are_a_row_and_the_columns_around_now(tmp_path, generations, expiries):
    made = by_count(every=1, window=16, sizes=(128, 128), reach=1)
    label = f"count_rebuild {generations}x{expiries}"
    names = [name for name in made.schema.names if name != "expires_at"]
    with Archive.create(tmp_path / "a", made, label) as archive:
        for now, counts, rows in stream(24, seed=2):
            touched = archive.update(now, table(rows, names), counts=counts)
            if now < 2:
                continue
            classes = {((slot * expiries) // 16) % expiries for slot in (now - 2, now - 1, now)}
            due = {(g, e) for g in range(generations) for e in classes}
            got_new = {((now - 1) % generations, e) for e in range(expiries)}
            assert len(due) <= touched.parts <= len(due | got_new)
            assert len(due) == generations * len(classes)


@pytest.mark.parametrize("label", ["rebuild 4x4", "count_rebuild 4x4"])
def test_what_outlived_its_guess_in_a_part_that_is_not_due_stays(tmp_path, label):
    """New results open it, but nobody takes its overdue results elsewhere."""
    made, oracle = by_count(every=1, window=16, sizes=(128, 128), reach=1), Oracle(sizes=(128, 128))
    with Archive.create(tmp_path, made, label) as archive:
        for now, counts, rows in stream(60, seed=4, factor=4.0):
            deliver_counted(archive, oracle, now, counts, rows)
            assert archive.view.read_all().num_rows == len(oracle.alive())


def retained(tmp_path, made, label, updates=90):
    """Dead results that are kept at each update, from the second window on."""
    names = [name for name in made.schema.names if name != "expires_at"]
    dead = []
    with Archive.create(tmp_path, made, label) as archive:
        for now, counts, rows in stream(updates, seed=3):
            archive.update(now, table(rows, names), counts=counts)
            if now > 32:
                dead.append(archive.view.stats()["dead"])
    return dead


def test_the_dead_do_not_pile_up(tmp_path):
    """A tuple whose real death lies outside its class waits for a turn of the classes, not for ever."""
    made = by_count(every=1, window=16, sizes=(128, 128), reach=1)
    dead = retained(tmp_path, made, "count_rebuild 4x4", updates=150)
    most = max(dead[:58])
    assert most < 260
    assert max(dead) < 1.5 * most + 50
    assert sum(dead[:58]) / 58 < 60


def test_a_wider_reach_keeps_fewer_dead(tmp_path):
    narrow = by_count(every=1, window=16, sizes=(128, 128), reach=1)
    wide = by_count(every=1, window=16, sizes=(128, 128), reach=6)
    kept = retained(tmp_path / "a", narrow, "count_rebuild 4x4", updates=60)
    kept_wide = retained(tmp_path / "b", wide, "count_rebuild 4x4", updates=60)
    assert sum(kept_wide) < sum(kept)


def test_guess_is_exact_at_a_steady_rate():
    made = by_count(every=10, window=160, sizes=(100, 100))
    arrivals = Arrivals()
    for update in range(20):
        arrivals = arrivals.observe(10 * update, (5 * update, 10 * update), made)
    rows = pa.table({"a": [95, 50], "b": [190, 190]})
    # 95 events of a have come, 5 each update: number 195 comes after 20 updates, number 290 of b after 10.
    assert arrivals.guess(rows, 190, made).tolist() == [190 + 100, 190 + 100]
    assert arrivals.reach(made) == 1


def test_reach_grows_with_the_variance():
    made = by_count(every=1, window=16, sizes=(100, 100))
    random, arrivals, seen = np.random.default_rng(1), Arrivals(), np.zeros(2, np.int64)
    for update in range(100):
        seen += random.choice([2, 20], 2)
        arrivals = arrivals.observe(update, tuple(seen.tolist()), made)
    assert 1 < arrivals.reach(made) <= 8


def test_lazy_indexes_are_refused(tmp_path):
    with pytest.raises(Exception, match="do not expire by time; use count_rebuild"):
        Archive.create(tmp_path, by_count(), "lazy_rebuild 3x3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "2 inputs need as many counts, not 0"),
        ({"counts": (1,)}, "not 1"),
        ({"counts": (0, 5)}, "cannot fall"),
    ],
)
def test_bad_counts_change_nothing(tmp_path, arguments, message):
    with Archive.create(tmp_path, by_count(), "count_rebuild 2x2") as archive:
        archive.update(1, counts=(3, 3))
        with pytest.raises(Exception, match=message):
            archive.update(2, **arguments)
        assert archive.view.now == 1


@pytest.mark.parametrize("seed", range(some_of(20, 50)))
def test_of_streams_that_come_evenly_the_guess_is_right(seed):
    """A result dies at the update by which as many events have come after one of its own as the window holds: told a
    step before it at most, and never after it."""
    random = np.random.default_rng(seed)
    every, sizes = int(random.integers(1, 50)), tuple(random.integers(5, 60, 2).tolist())
    rates = random.integers(0 if seed % 3 else 1, 6, 2)
    made, arrivals, seen = by_count(every, 20 * every, sizes), Arrivals(), np.array([100, 200])
    for step in range(5):
        arrivals = arrivals.observe(step * every, tuple((seen + step * rates).tolist()), made)
    now, seen = 4 * every, seen + 4 * rates
    places = [
        random.integers(count - size + 1, count + 1, 30) for count, size in zip(seen, sizes, strict=True)
    ]
    guess = arrivals.guess(pa.table(dict(zip("ab", places, strict=True))), now, made)
    for told, *own in zip(guess.tolist(), *places, strict=True):
        steps = next(
            (
                steps
                for steps in range(1, 8 * 20 + 1)
                if (own + np.array(sizes) <= seen + steps * rates).any()
            ),
            None,
        )
        if steps is None:  # never, or so late that it is guessed anew before
            assert told == now + 20 * every * (8 if rates.any() else 1)
        else:
            assert now + (steps - 1) * every < told <= now + steps * every


def test_how_far_around_now_is_looked_depends_on_how_evenly_events_came():
    """At least a slot, if they came evenly; at most half of a window, if nobody could have told."""
    made = by_count(every=2, window=40)  # 20 slots
    reach = [
        Arrivals(0, (9, 9), (rate, rate), (0.0, 0.0), (variance, 0.0)).reach(made)
        for rate, variance in ((5.0, 0.0), (5.0, 5.0), (5.0, 20.0), (5.0, 1e9), (0.0, 1e9))
    ]
    assert reach == [1, 4, 8, 10, 1]  # two deviations of 20 steps: 2 * sqrt(20 * 5) / 5
    assert Arrivals(0, (9, 9), (5.0, 5.0), (0.0, 0.0), (1e9, 0.0)).reach(by_count(every=16, window=16)) == 1
    assert Arrivals(0, (9, 9), (5.0, 5.0), (0.0, 0.0), (1e9, 0.0)).reach(by_count(reach=3)) == 3
