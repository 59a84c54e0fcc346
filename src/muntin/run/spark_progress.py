"""How far a job of Spark is, told while it runs: tasks that are done, and records that they have read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muntin.run.pipeline import Report, RunProgress

_EVERY = 0.5  # seconds between two looks


class JobWatch:
    """Tells a progress of the jobs of a run, which are so many *parts* one after the other."""

    def __init__(self, session: Any, progress: RunProgress, report: Report, parts: int):
        self._context = session.sparkContext
        self._progress, self._report, self._parts = progress, report, parts
        self._done = 0
        self._furthest = 0.0  # Spark plans further stages while a job runs: what was told is not taken back

    @contextmanager
    def part(self, again: int = 0) -> Iterator[None]:
        """What Spark does meanwhile is the next part. So many of the events that it reads have been counted before."""
        group = f"muntin run, part {self._done + 1} of {self._parts}"
        self._context.setJobGroup(group, group)
        ended = threading.Event()
        looking = threading.Thread(
            target=self._look, args=(group, ended, self._report.events, again), daemon=True
        )
        looking.start()
        try:
            yield
        finally:
            ended.set()
            looking.join()
        self._done += 1
        self.show(self._report.events, 0.0)

    def show(self, events: int, fraction: float) -> None:
        """So many events have been read, and this fraction of a part is done."""
        self._furthest = max(self._furthest, (self._done + fraction) / max(1, self._parts))
        self._progress.show(events, self._report.answers, min(1.0, self._furthest))

    def _look(self, group: str, ended: threading.Event, before: int, again: int) -> None:
        while not ended.wait(_EVERY):
            try:
                records, done, planned = self._so_far(group)
            except Exception:  # a session that ends meanwhile; whoever waits for the job is told
                return
            if planned:  # and while the part goes on, Spark may plan one more task at least
                self.show(before + max(0, records - again), done / max(planned, done + 1))

    def _so_far(self, group: str) -> tuple[int, int, int]:
        """Records read, tasks done and tasks planned of the jobs of a group."""
        tracker, store = self._context.statusTracker(), self._context._jsc.sc().statusStore()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        records = done = planned = 0
        for stage in {stage for job in jobs if job for stage in job.stageIds}:
            if (info := tracker.getStageInfo(stage)) is not None:
                planned += info.numTasks
                done += info.numCompletedTasks
                records += store.lastStageAttempt(stage).inputRecords()
        return records, done, planned
