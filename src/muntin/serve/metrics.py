"""Counters of a service in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


def _metric(name: str, kind: str, help: str, values: dict[str, Any]) -> Iterator[str]:
    yield f"# HELP {name} {help}\n# TYPE {name} {kind}\n"
    for labels, value in values.items():
        yield f"{name}{labels} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
