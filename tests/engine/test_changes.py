"""EMIT CHANGES: exactly the differences between what qualifies at one instant and at the next."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from muntin import Engine
from muntin.errors import SqlError
from muntin.plan import choices
from muntin.shard.emit import gathering
from muntin.shard.read import changes as read_changes
from runtimes import checkpointed

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts BIGINT, k VARCHAR, n BIGINT) TIMESTAMP BY ts DELAY 1 SECOND"
QUERIES = {
    "threshold": "SELECT k, SUM(n) AS v FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING SUM(n) > 12",
    "present": "SELECT k, COUNT(*) AS v FROM s [RANGE 3 SECONDS SLIDE 2 SECONDS] GROUP BY k",
    "several": "SELECT k, AVG(n) AS v FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING MAX(n) > 2 * MIN(n)",
    "un-keyed": "SELECT COUNT(*) AS v FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] HAVING COUNT(*) > 9",
}
SLIDE = {"present": 2 * SECOND}


def derived(name: str, answers: list[Any], instants: range) -> list[tuple[str | None, int, str]]:
    """Who enters and leaves, from full answers."""
    at: dict[int, set[str | None]] = {instant: set() for instant in instants}
    for table in answers:
        for row in table.to_pylist():
            at[int(row["window_end"].timestamp() * 1e6)].add(row.get("k"))
    changes, inside = [], set[str | None]()
    for instant in instants:
        for key in sorted(inside ^ at[instant], key=str):
            changes.append((key, instant, "enter" if key in at[instant] else "leave"))
        inside = at[instant]
    return changes


@pytest.mark.parametrize("seed", range(12))
def test_changes_are_the_differences_of_full_answers(seed: int) -> None:
    """Whatever the batching, silence, lateness within DELAY, and a checkpoint in between."""
    rng = np.random.default_rng(seed)
    engine = Engine()
    engine.execute(STREAM)
    for name, sql in QUERIES.items():
        engine.register(sql, f"full {name}")
        engine.register(f"{sql} EMIT CHANGES", name)
    full: dict[str, list[Any]] = {name: [] for name in QUERIES}
    changes: dict[str, list[Any]] = {name: [] for name in QUERIES}
    now, until = 10 * SECOND, 0
    for step in range(20):
        count = int(rng.integers(1, 40))
        at = np.sort(rng.integers(now, now + 3 * SECOND, count)) - rng.integers(0, SECOND, count)
        keys = np.array(list("abcdef"))[rng.integers(0, 6, count)]
        engine.push("s", {"ts": at, "k": keys, "n": rng.integers(0, 9, count)})
        now += int(rng.choice([1, 2, 3, 12])) * SECOND
        if rng.random() < 0.6 or step == 19:
            until = now + 20 * SECOND if step == 19 else 0
            answers = engine.advance(until=until or None)
            for name in QUERIES:
                full[name] += [answers[f"full {name}"]] if f"full {name}" in answers else []
                changes[name] += [answers[name]] if name in answers else []
        if rng.random() < 0.2:
            engine = checkpointed(engine)
        engine.check()
    for name in QUERIES:
        slide = SLIDE.get(name, SECOND)
        expected = derived(name, full[name], range(8 * SECOND, until // slide * slide + 1, slide))
        actual = [
            (row.get("k"), int(row["window_end"].timestamp() * 1e6), row["change"])
            for table in changes[name]
            for row in table.to_pylist()
        ]
        assert sorted(actual, key=str) == sorted(expected, key=str), name
        assert [row[1] for row in actual] == sorted(row[1] for row in actual)  # in order of time


MANY = (
    "SELECT k, SUM(n) AS v FROM s {window} WHERE n {of} GROUP BY k HAVING COUNT(*) > 1",
    "SELECT k, SUM(n) AS v FROM s {window} WHERE n {of} GROUP BY k HAVING SUM(n) > 4",
    "SELECT AVG(n) AS v FROM s {window} WHERE n {of} HAVING AVG(n) > 4",
    "SELECT k, COUNT(*) AS v FROM s {window} WHERE n {of} GROUP BY k ORDER BY v DESC LIMIT 2",
    "SELECT k, MAX(n) * 10 AS v FROM s {window} WHERE k = 'b' GROUP BY k HAVING COUNT(*) > 1",
)


@pytest.mark.parametrize("of", ["> 3", "% 2 = 1"])
@pytest.mark.parametrize(
    "window", ["[RANGE 4 SECONDS SLIDE 1 SECOND]", "[RANGE 3 SECONDS TO 1 SECOND SLIDE 2 SECONDS]"]
)
@pytest.mark.parametrize("most", [9, 2**62])
@pytest.mark.parametrize("lanes", [1, 100])
def test_many_instants_at_once_and_one_by_one(
    of: str, window: str, most: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows in the same order, also if a sum does not exist, from lanes and without."""
    monkeypatch.setattr(choices, "MANY_LANES", lanes)
    monkeypatch.setattr(choices, "MANY_LANES_PER_KEY", lanes)
    monkeypatch.setattr(gathering, "_pay_in_lanes", lambda *given: False)
    at_once = read_changes._at_once
    ways: dict[str, list[Any]] = {"at once": [], "one by one": []}
    taken: list[bool] = []

    def spy(*given: Any) -> Any:
        found = at_once(*given)
        taken.append(found is not None)
        return found

    for way, answers in ways.items():
        monkeypatch.setattr(read_changes, "_at_once", spy if way == "at once" else lambda *given: None)
        engine, rng = Engine(), np.random.default_rng(5)
        engine.execute(STREAM)
        for number, sql in enumerate(MANY):
            engine.register(f"{sql.format(window=window, of=of)} EMIT CHANGES", f"q{number}")
        for step in range(12):
            at = np.sort(rng.integers(step * 20 * SECOND, (step * 20 + 14) * SECOND, 30))
            n = rng.choice([0, 1, 3, 5, 8, most], 30)
            engine.push("s", {"ts": at, "k": np.array(list("abcd"))[rng.integers(0, 4, 30)], "n": n})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                told = engine.advance()
            answers.append({name: table.to_pylist() for name, table in told.items()})
            if step == 6:
                engine = checkpointed(engine)
        answers.append({name: each["overflows"] for name, each in engine.stats()["queries"].items()})
    assert ways["at once"] == ways["one by one"]
    assert sum(map(len, ways["at once"])) > 40
    assert any(taken)
    assert all(taken) == (most == 9)


def test_a_row_has_the_values_of_its_instant() -> None:
    """Who enters or leaves is shown with its values then; one without events has those of an empty window."""
    engine = Engine()
    engine.execute(STREAM)
    engine.register(
        "SELECT k, SUM(n) AS v, COUNT(*) AS c FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k "
        "HAVING SUM(n) > 5 EMIT CHANGES",
        "q",
    )
    engine.push("s", {"ts": [0, SECOND, 2 * SECOND], "k": ["a", "a", "b"], "n": [6, 1, 9]})
    rows = engine.advance(until=10 * SECOND)["q"].select(["k", "v", "c", "change"]).to_pylist()
    assert rows == [
        {"k": "a", "v": 6, "c": 1, "change": "enter"},
        {"k": "a", "v": 1, "c": 1, "change": "leave"},
        {"k": "b", "v": 9, "c": 1, "change": "enter"},
        {"k": "b", "v": None, "c": 0, "change": "leave"},
    ]


def test_look_ups_show_all_who_are_in() -> None:
    """Pull does not change: a query that emits changes is looked up like any other."""
    engine = Engine()
    engine.execute(STREAM)
    engine.register(QUERIES["threshold"], "full")
    engine.register(QUERIES["threshold"] + " EMIT CHANGES", "changes")
    engine.push("s", {"ts": [0, 1, SECOND], "k": ["a", "a", "b"], "n": [7, 7, 20]})
    assert engine.lookup("changes").equals(engine.lookup("full"))


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT COUNT(*) FROM s [RANGE 1 SECOND] EMIT CHANGES", "needs GROUP BY or HAVING"),
        ("SELECT k, COUNT(*) FROM s [ROWS 4 SLIDE 2] GROUP BY k EMIT CHANGES", "follows time"),
        ("SELECT k, COUNT(*) AS change FROM s [RANGE 1 SECOND] GROUP BY k EMIT CHANGES", "column 'change'"),
        ("SELECT k, COUNT(*) FROM s [RANGE 1 SECOND] GROUP BY k EMIT ALL", "expected CHANGES after EMIT"),
    ],
)
def test_what_cannot_change_is_refused(sql: str, message: str) -> None:
    """A query without anything to enter, or that moves by events, says so at the clause."""
    engine = Engine()
    engine.execute(STREAM)
    with pytest.raises(SqlError, match=message):
        engine.register(sql, "q")
