"""How far a job of Spark is, as its tracker tells: without Spark."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from muntin.run import spark_progress
from muntin.run.pipeline import Report
from muntin.run.spark_progress import JobWatch


class Shown:
    """A progress that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, float]] = []

    def show(self, events: int, answers: int, fraction: float) -> None:
        self.told.append((events, fraction))

    def note(self, text: str) -> None: ...

    def close(self) -> None: ...


class Session:
    """A session whose only stage is done: the one that reads; Spark has not planned the next one yet."""

    def __init__(self, tasks: int, records: int):
        stage = SimpleNamespace(numTasks=tasks, numCompletedTasks=tasks)
        tracker = SimpleNamespace(
            getJobIdsForGroup=lambda group: [1],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[7]),
            getStageInfo=lambda each: stage,
        )
        attempt = SimpleNamespace(inputRecords=lambda: records)
        store = SimpleNamespace(lastStageAttempt=lambda each: attempt)
        scala = SimpleNamespace(statusStore=lambda: store)
        self.sparkContext: Any = SimpleNamespace(
            setJobGroup=lambda group, description: None,
            statusTracker=lambda: tracker,
            _jsc=SimpleNamespace(sc=lambda: scala),
        )


def wait_for(shown: Shown, many: int) -> None:
    deadline = time.monotonic() + 120
    while len(shown.told) < many and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_part_is_whole_when_it_is_over(monkeypatch: Any) -> None:
    monkeypatch.setattr(spark_progress, "_EVERY", 0.01)
    shown, report = Shown(), Report(1, Path("answers"))
    watch = JobWatch(Session(tasks=3, records=40), shown, report, 2)
    with watch.part():
        wait_for(shown, 1)
    assert shown.told[0] == (40, 0.375)  # three tasks of four at least, in the first part of two
    assert [fraction for _, fraction in shown.told[:-1]] == [0.375] * (len(shown.told) - 1)
    assert shown.told[-1][1] == 0.5


def test_an_event_that_is_read_again_counts_once(monkeypatch: Any) -> None:
    """Of the second part 30 of 40 events are new, of the third none."""
    monkeypatch.setattr(spark_progress, "_EVERY", 0.01)
    shown, report = Shown(), Report(1, Path("answers"))
    watch = JobWatch(Session(tasks=3, records=40), shown, report, 3)
    for again, after in ((0, 40), (10, 70), (70, 70)):
        with watch.part(again):
            wait_for(shown, len(shown.told) + 1)
            report.events = after
            wait_for(shown, len(shown.told) + 2)
    assert [events for events, _ in shown.told] == sorted(events for events, _ in shown.told)
    assert {events for events, _ in shown.told} == {40, 70}
