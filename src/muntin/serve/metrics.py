"""Counters of a service in the text format of Prometheus."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from muntin.serve.latency import STEPS
from muntin.serve.service import Service


def metrics_text(service: Service) -> str:
    """All counters, as of now."""
    return "".join(_lines(service))


def _lines(service: Service) -> Iterator[str]:
    engine = service.engine.stats(queries=False)
    streams: dict[str, Any] = engine["streams"]
    for name, kind, help in (
        ("events", "counter", "Events taken in."),
        ("late", "counter", "Events left out because they came too late."),
        ("ahead", "counter", "Events left out because they lay too far ahead."),
        ("bytes", "gauge", "State of the stream's queries."),
    ):
        yield from _metric(f"muntin_stream_{name}", kind, help, {
            f'{{stream="{_escaped(stream)}"}}': told[name] for stream, told in streams.items()
        })  # fmt: skip
    yield from _metric("muntin_queries", "gauge", "Queries registered.", {"": service.queries})
    yield from _metric(
        "muntin_answers_total", "counter", "Rows given out since the start.", {"": service.answers.rows}
    )
    yield from _metric("muntin_followers", "gauge", "Subscriptions.", {"": service.answers.followers})
    yield from _metric(
        "muntin_followers_dropped_total",
        "counter",
        "Subscriptions that were too slow.",
        {"": service.answers.dropped},
    )
    yield from _metric("muntin_waiting", "gauge", "Changes that wait for the writer.", {"": service.waiting})
    yield from _metric("muntin_log_bytes", "gauge", "Bytes of the log on disk.", {"": service.log_bytes})
    yield from _metric(
        "muntin_answers_bytes", "gauge", "Bytes of kept answers on disk.", {"": service.answers.nbytes}
    )
    yield from _metric("muntin_ready", "gauge", "1 if changes are taken.", {"": int(service.is_ready)})
    yield from _metric(
        "muntin_closing_failures_total", "counter", "Times that windows could not be closed and stayed open.",
        {"": service.closing.failures},
    )  # fmt: skip
    yield from _metric(
        "muntin_changes_refused_total", "counter", "Changes that would have closed windows at too many instants.",
        {"": service.debt.refused},
    )  # fmt: skip
    yield from _checkpoints(service)
    yield from _look_ups(service)
    resident = resident_bytes()
    told = {} if resident is None else {"": resident}
    yield from _metric("process_resident_memory_bytes", "gauge", "Memory of the process.", told)
    yield from _connections(service)


def _checkpoints(service: Service) -> Iterator[str]:
    at = service.keeping.at
    age = {} if at is None else {"": round(max(0.0, time.time() - at), 3)}
    yield from _metric("muntin_checkpoint_age_seconds", "gauge", "Seconds since the last checkpoint.", age)
    yield from _metric(
        "muntin_checkpoint_behind",
        "gauge",
        "Records of the log that no checkpoint knows of.",
        {"": service.unkept},
    )
    yield from _metric(
        "muntin_checkpoint_failures_total", "counter", "Checkpoints that could not be written.",
        {"": service.keeping.failures},
    )  # fmt: skip


def _look_ups(service: Service) -> Iterator[str]:
    latency, name = service.look_ups.latency, "muntin_look_up_seconds"
    *counts, many = latency.cumulated()
    steps = {f'_bucket{{le="{step:g}"}}': found for step, found in zip(STEPS, counts, strict=True)}
    yield from _metric(name, "histogram", "How long look-ups of requests took.", {
        **steps, '_bucket{le="+Inf"}': many, "_sum": round(latency.seconds, 6), "_count": many,
    })  # fmt: skip


def resident_bytes() -> int | None:
    """Bytes that the process has in memory, where the system says so."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None


_SOURCE = (
    ("events_total", "counter", "Events taken from the source since the start."),
    ("bad_total", "counter", "Messages or files that are no events, since the start."),
    ("lag", "gauge", "Messages, or files, that wait in the source."),
    ("running", "gauge", "0 if the source has stopped until somebody looks at it."),
    ("failing", "gauge", "1 if something is wrong with the source now."),
)
_SINK = (
    ("delivered_total", "counter", "Answers delivered since the start."),
    ("failures_total", "counter", "Attempts that failed since the start."),
    ("waiting", "gauge", "Answers that are not delivered yet."),
    ("failing", "gauge", "1 if the last attempt failed."),
)


def _connections(service: Service) -> Iterator[str]:
    told = service.connections.told()
    yield from _of_each("source", "stream", told["sources"], _SOURCE)
    yield from _metric("muntin_source_position", "gauge", "The next offset of each partition.", {
        f'{{stream="{_escaped(stream)}",part="{_escaped(part)}"}}': offset
        for stream, each in told["sources"].items() for part, offset in each["position"].items()
    })  # fmt: skip
    yield from _of_each("sink", "sink", told["sinks"], _SINK)


def _of_each(
    what: str, label: str, told: dict[str, dict[str, Any]], metrics: tuple[tuple[str, str, str], ...]
) -> Iterator[str]:
    """Metrics of all sources or of all sinks, those with a value."""
    for name, kind, help in metrics:
        yield from _metric(f"muntin_{what}_{name}", kind, help, {
            f'{{{label}="{_escaped(one)}"}}': value
            for one, each in told.items() if (value := _value(each, name)) is not None
        })  # fmt: skip


def _value(told: dict[str, Any], name: str) -> int | None:
    if name == "failing":
        return int(told["error"] is not None)
    value = told[name.removesuffix("_total")]
    return None if value is None else int(value)


def _metric(name: str, kind: str, help: str, values: dict[str, Any]) -> Iterator[str]:
    yield f"# HELP {name} {help}\n# TYPE {name} {kind}\n"
    for labels, value in values.items():
        yield f"{name}{labels} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
