"""Reports: what a shard says of itself with each portion of its answers, and what they come to by route and by query.

    {"route": "symbol", "events": 0, "cells": 812, "bytes": 20480, "late": 0, "bad": 0, "state_bytes": 65536,
     "answers": {"busy": 12}, "overflows": {}}

They are texts in a column of what shards give out. Spark gathers them with the numbers that it observes, so they reach
the driver exactly with the micro-batches that count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_MOST_QUERIES = 10_000  # of a route, beyond which reports are of the route alone: progress is kept in memory
COUNTED = ("events", "cells", "bytes", "late", "bad", "state_bytes")


@dataclass(frozen=True)
class JobReport:
    """What one `shared_windows` did in one micro-batch."""

    job: str
    events: int  # read by tasks
    late: int
    ahead: int
    bad: int
    state_bytes: int
    answers: int
    overflows: int


@dataclass(frozen=True)
class RouteReport:
    """What the shards of a route did in one micro-batch."""

    job: str
    route: str  # its keys
    events: int  # that came as they are …
    cells: int  # … or folded, in so many cells
    bytes: int  # that came, of both
    late: int
    bad: int
    state_bytes: int
    answers: int
    overflows: int


@dataclass(frozen=True)
class QueryReport:
    """What a query gave out in one micro-batch."""

    job: str
    query: str
    answers: int
    overflows: int


def report_text(
    route: str,
    counts: Mapping[str, int],
    answers: Mapping[str, int],
    overflows: Mapping[str, int],
    queries: int,
) -> str:
    """A report; `queries` is how many the route has."""
    if queries > _MOST_QUERIES:
        answers = {"": sum(answers.values())}
        overflows = {"": sum(overflows.values())}
    told = {"route": route, **counts}
    told |= {"answers": {name: count for name, count in answers.items() if count}}
    return json.dumps(told | {"overflows": dict(overflows)}, ensure_ascii=False)


def read_reports(job: str, texts: Iterable[str]) -> tuple[list[RouteReport], list[QueryReport]]:
    """All reports of a micro-batch, by route and by query; those of one shard may be several."""
    routes: dict[str, Counter[str]] = {}
    answers: Counter[str] = Counter()
    overflows: Counter[str] = Counter()
    for text in texts:
        told = json.loads(text)
        route = routes.setdefault(told["route"], Counter())
        route.update({name: told.get(name, 0) for name in COUNTED})
        route["answers"] += sum(told["answers"].values())
        route["overflows"] += sum(told["overflows"].values())
        answers.update(told["answers"])
        overflows.update(told["overflows"])
    names = sorted((answers | overflows).keys() - {""})
    return (
        [
            RouteReport(job, name, **{each: told[each] for each in (*COUNTED, "answers", "overflows")})
            for name, told in sorted(routes.items())
        ],
        [QueryReport(job, name, answers[name], overflows[name]) for name in names],
    )
