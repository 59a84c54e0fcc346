"""Progress: what each micro-batch did, in numbers and as a line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from muntin.spark.flow import METRICS
from muntin.spark.report import JobReport, QueryReport, RouteReport, read_reports


@dataclass(frozen=True)
class Progress:
    """One micro-batch. `lag` is how far the latest event lies behind the clock on the wall."""

    batch: int
    events: int
    late: int
    ahead: int
    bad: int  # left out since they cannot be taken in
    answers: int
    overflows: int  # answers left out since a value of them does not exist
    seconds: float
    state_bytes: int  # of all shards, in memory
    latest: datetime | None  # event time
    lag: timedelta | None
    jobs: tuple[JobReport, ...] = ()  # by the `name` of shared_windows, …
    routes: tuple[RouteReport, ...] = ()  # … by job and keys …
    queries: tuple[
        QueryReport, ...
    ] = ()  # … and by job and query; those that gave nothing out are not among them

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.events / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        late = f", {self.late:,} late" if self.late else ""
        ahead = f", {self.ahead:,} ahead" if self.ahead else ""
        bad = f", {self.bad:,} bad" if self.bad else ""
        lost = f" ({self.overflows:,} left out: they have no value)" if self.overflows else ""
        lag = f", lag {self.lag.total_seconds():,.1f} s" if self.lag is not None else ""
        return (
            f"batch {self.batch}: {self.events:,} events{late}{ahead}{bad} at {self.rate:,.0f}/s, "
            f"{self.answers:,} answers{lost}, "
            f"{self.state_bytes / 2**20:,.1f} MB of state{lag}"
        )


_OF_JOB = ("events", "late", "ahead", "bad", "state_bytes", "answers", "overflows")


def progress_of(reported: Any) -> Progress | None:
    """What a `StreamingQueryProgress` says of our numbers, those of all `shared_windows` in the query together; None
    if it has none of them."""
    observed = (reported.observedMetrics or {}).items()
    named = {name: row.asDict() for name, row in observed if name.startswith(f"{METRICS} ")}
    if not named:
        return None
    named = {name.removeprefix(f"{METRICS} "): each for name, each in named.items()}
    metrics = list(named.values())
    reports = {name: each.pop("reports", None) or [] for name, each in named.items()}
    read = [read_reports(name, texts) for name, texts in reports.items()]
    told = {name: sum(each[name] or 0 for each in metrics) for name in metrics[0]}
    seen = [each["greatest"] for each in metrics if each["greatest"] is not None]
    latest = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=max(seen)) if seen else None
    ended = datetime.fromisoformat(reported.timestamp.replace("Z", "+00:00"))
    return Progress(
        batch=reported.batchId,
        events=told["events"],
        late=told["late"],
        ahead=told["ahead"],
        bad=told["bad"],
        answers=told["answers"],
        overflows=told["overflows"],
        seconds=(reported.durationMs or {}).get("triggerExecution", 0) / 1000,
        state_bytes=told["state_bytes"],
        latest=latest,
        lag=None if latest is None else ended - latest,
        jobs=tuple(
            JobReport(name, **{part: each[part] or 0 for part in _OF_JOB}) for name, each in named.items()
        ),
        routes=tuple(each for routes, _ in read for each in routes),
        queries=tuple(each for _, queries in read for each in queries),
    )


def _to_stderr(progress: Progress) -> None:
    print(progress, file=sys.stderr, flush=True)


class ProgressListener(StreamingQueryListener):
    """Tells `show` of every micro-batch of queries made by `shared_windows`; by default a line on stderr.

    spark.streams.addListener(muntin.spark.ProgressListener())
    """

    def __init__(self, show: Callable[[Progress], None] = _to_stderr):
        self._show = show

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to tell yet."""

    def onQueryProgress(self, event: Any) -> None:
        progress = progress_of(event.progress)
        if progress is not None:
            self._show(progress)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing happened."""

    def onQueryTerminated(self, event: Any) -> None:
        """Spark tells why itself."""
