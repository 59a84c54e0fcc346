"""Requests on Spark are answered as the embedded `lookup_at` answers them: however events and requests are dealt out to
tasks, shards and micro-batches, and whatever is lost in between."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from asked import (
    AskedShards,
    Scene,
    answered_table,
    compare,
    cut,
    in_tasks,
    packed_requests,
    rows_of,
    scattered,
    small,
)

from answers import is_close
from effort import some_of
from muntin.spark.asking import plan_lookups
from scenario import SECOND

__all__ = ["small"]


@pytest.mark.parametrize("first", range(0, some_of(600, 3), 6))
def test_tables(first: int) -> None:
    found = 0
    for seed in range(first, first + 6):
        is_scattered = seed % 2 == 0
        scene = Scene(seed, is_distinct=is_scattered)
        expected = scene.expected()
        job = plan_lookups(scene.stream, scene.queries, scene.requests.schema, **scene.options())
        many = scene.dice.whole(1, 4)
        in_order = scene.events.sort_by("ts") if not is_scattered else scene.events
        deal = scattered(in_order, many, seed) if is_scattered else in_tasks(in_order, many)
        got = rows_of(answered_table(job, deal, scattered(scene.requests, scene.dice.whole(1, 3), seed)))
        assert len(got) == len(expected)
        for one, other in zip(expected, got, strict=True):
            compare(one, other, (seed, scene.queries))
            found += sum(other[f"{name}.found"] for name in scene.queries)
    assert found


@pytest.mark.parametrize("first", range(0, some_of(400, 3), 5))
def test_streams(first: int) -> None:
    """Each request is answered once, in the micro-batch that brings the watermark past it."""
    counted: Counter[str] = Counter()
    for seed in range(first, first + 5):
        Play(seed).run(counted)
    assert counted["complete"]


class Play:
    """Micro-batches of events and requests, with attempts and memory lost at random."""

    def __init__(self, seed: int):
        self.scene = scene = Scene(seed)
        self.dice = scene.dice
        self.told = (seed, scene.queries, scene.create)
        self.delay = self.dice.pick((0, SECOND, 30 * SECOND))
        self.shards = AskedShards(
            scene.stream, scene.queries, schema=scene.requests.schema, delay=self.delay, **scene.options()
        )
        self.expected = {row["label"]: row for row in scene.expected()}
        self.at = dict(
            zip(*(scene.requests[name].cast(pa.int64()).to_pylist() for name in ("label", "at")), strict=True)
        )
        self.waiting: dict[int, bool] = {}  # by label: whether it came before what it needs was forgotten
        self.greatest: int | None = None
        self.asked: int | None = None
        self.kept_from = -(2**62)

    def run(self, counted: Counter[str]) -> None:
        parts = self.dice.whole(1, 5)
        events = cut(self.scene.events, parts)
        for part, some in zip(events, cut(self.scene.requests, parts), strict=True):
            packed = self.shards.packed(in_tasks(part, self.dice.whole(1, 3)) if part.num_rows else [])
            packed += packed_requests(self.shards.job, in_tasks(some, self.dice.whole(1, 2)))
            accident = self.dice.pick(("none", "attempt", "memory"))
            if accident == "attempt":
                self.shards.lose(packed)
            if accident == "memory":
                self.shards.restart()
            self._note(part, some)
            self._check(self.shards.answered(packed), counted)
        if self.scene.events.num_rows:
            self.greatest = 10**17
            self._check(self.shards.promise(self.greatest)[""], counted)
            assert not self.waiting
        assert self.shards.late == 0

    def _note(self, events: pa.Table, requests: pa.Table) -> None:
        for label in requests["label"].to_pylist():
            self.waiting[label] = self.at[label] >= self.kept_from
            self.asked = self.at[label] if self.asked is None else max(self.asked, self.at[label])
        for at in events["ts"].cast(pa.int64()).to_pylist():
            self.greatest = at if self.greatest is None else max(self.greatest, at)

    def _check(self, answers: pa.Table, counted: Counter[str]) -> None:
        got = rows_of(answers)
        watermark = None if self.greatest is None else self.greatest - self.scene.stream.delay
        due = [label for label in self.waiting if watermark is not None and self.at[label] <= watermark]
        assert [row["label"] for row in got] == sorted(due), self.told
        for row in got:
            self._check_row(row, self.waiting.pop(row["label"]), counted)
        if watermark is not None:
            reached = watermark if self.asked is None else self.asked
            self.kept_from = max(self.kept_from, min(watermark, reached - self.delay))

    def _check_row(self, row: dict[str, Any], in_time: bool, counted: Counter[str]) -> None:
        expected = self.expected[row["label"]]
        for name in self.scene.queries:
            own = [column for column in row if column.startswith(f"{name}.")]
            complete = row[f"{name}.complete"]
            assert complete or not in_time, (row, self.told)
            if complete:
                for column in own:
                    assert is_close(expected[column], row[column]), (column, row, expected, self.told)
            else:
                assert not row[f"{name}.found"]
                assert all(row[column] is None for column in own if column.split(".")[1][0] not in "fc")
            counted["complete" if complete else "incomplete"] += 1
        for column in self.scene.requests.column_names:
            assert row[column] == expected[column]
