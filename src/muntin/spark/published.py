"""Published metrics: the numbers of `shared_windows` as gauges of Spark's own metrics system, for its sinks.

Spark's metrics of a streaming query are of its own making (rates, latency, rows of state): what a query *observes* does
not reach the sinks. But Spark has a source of metrics for accumulators, and the driver may make accumulators and set
them when a listener is told of a micro-batch. So the numbers go wherever Spark's metrics go: Prometheus, Graphite, JMX.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

from muntin.spark.connect import refuse_client
from muntin.spark.progress import Progress, progress_of
from muntin.spark.report import JobReport, QueryReport, RouteReport

_SOURCE = "org.apache.spark.metrics.source.LongAccumulatorSource$"
_NOW = "state_bytes"  # all others add up from micro-batch to micro-batch


def publish_metrics(session: SparkSession, *, per_query: bool = True) -> MetricsPublisher:
    """Have Spark's metrics system publish what `shared_windows` does, from now on; see `spark.metrics.conf`.

    Gauges are called `AccumulatorSource.muntin.<job>.<number>`, `….route.<keys>.<number>` and
    `….query.<name>.<number>`: the job is the `name` of `shared_windows`, and the numbers are those of `Progress`. All
    but `state_bytes` add up while the driver lives. A gauge takes about a fifth of a millisecond whenever it changes:
    with thousands of queries, leave theirs out (`per_query=False`).
    """
    publisher = MetricsPublisher(session, per_query)
    session.streams.addListener(publisher)
    return publisher


class MetricsPublisher(StreamingQueryListener):
    """What `publish_metrics` has added to a session; `session.streams.removeListener` takes it away."""

    def __init__(self, session: SparkSession, per_query: bool):
        refuse_client(
            session,
            "publish_metrics",
            "the driver publishes metrics, and this process is none. A ProgressListener has the same numbers here",
        )
        self._context: Any = session.sparkContext._jsc.sc()
        jvm: Any = session.sparkContext._jvm
        self._to_scala_map = jvm.PythonUtils.toScalaMap
        self._source = jvm.java.lang.Class.forName(_SOURCE).getField("MODULE$").get(None)
        self._per_query = per_query
        self._gauges: dict[str, Any] = {}
        self._values: Counter[str] = Counter()

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to tell yet."""

    def onQueryProgress(self, event: Any) -> None:
        progress = progress_of(event.progress)
        if progress is not None:
            self.publish(progress)

    def onQueryIdle(self, event: Any) -> None:
        """Nothing happened."""

    def onQueryTerminated(self, event: Any) -> None:
        """The last numbers stay."""

    def publish(self, progress: Progress) -> None:
        """Add the numbers of a micro-batch to what was published before."""
        came: Counter[str] = Counter()
        bytes_now: Counter[str] = Counter()
        reports: list[JobReport | RouteReport | QueryReport] = [*progress.jobs, *progress.routes]
        for report in [*reports, *(progress.queries if self._per_query else ())]:
            for number, count in asdict(report).items():
                if not isinstance(count, str):
                    (bytes_now if number == _NOW else came)[gauge_name(report, number)] += count
        for name, count in came.items():
            if count or name not in self._gauges:
                self._values[name] += count
                self._set(name, self._values[name])
        for name, count in bytes_now.items():
            self._set(name, count)

    def _set(self, name: str, value: int) -> None:
        if name not in self._gauges:
            self._gauges[name] = self._context.longAccumulator(name)
            self._source.register(self._context, self._to_scala_map({name: self._gauges[name]}))
        self._gauges[name].setValue(value)


def gauge_name(of: JobReport | RouteReport | QueryReport, number: str) -> str:
    """A name that every sink takes.

    >>> gauge_name(QueryReport("trades", "busy hours", 1, 0), "answers")
    'muntin.trades.query.busy_hours.answers'
    """
    parts = [of.job]
    if isinstance(of, RouteReport):
        parts += ["route", of.route or "none"]
    elif isinstance(of, QueryReport):
        parts += ["query", of.query]
    return ".".join(["muntin", *(re.sub(r"\W+", "_", part) for part in parts), number])
