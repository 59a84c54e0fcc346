"""The shared roster: how tasks learn which queries came and went by statements, so that they can fold for them.

Tasks that pack events have no state, and pack a micro-batch before any shard has seen its statements. So shards write
the queries that came into a folder that driver and executors share, and tasks read it:

    micro-batch 7   a statement comes; shards judge it, keep it for later, and the first one of its route writes `7`
    micro-batch 8   tasks read the note with the greatest number below 8, and fold for its queries, too;
                    shards begin with what they kept, and find events folded for just these queries

Everything depends on the number of the micro-batch, which a second attempt has again: it writes the same note, and
reads the note that the first attempt read, however far others have come. Tasks tell shards which note they went by; a
shard that expects another one refuses, so a folder that is lost, or of another run, cannot make answers wrong.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import TaskContext

from muntin.errors import CheckpointError, MuntinError
from muntin.spark.job import Job, Route, read_query
from muntin.spark.plan_job import plan_route
from muntin.sql import shared_templates

_BATCH = "streaming.sql.batchId"  # what Spark tells tasks of a streaming query
_MOST_NOTES = 100  # of a route: more than Spark can go back
_MOST_JOBS = 8
_JOBS: dict[tuple[str, tuple[int | None, ...]], Job] = {}  # by job and notes


class Note(NamedTuple):
    """The queries of a route that came and went, as of a micro-batch."""

    batch: int
    configured: str  # of the job whose own queries those that went were
    came: dict[str, str]  # texts by name
    went: list[str]


def this_batch() -> int:
    """The number of the micro-batch that a task is part of."""
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(_BATCH)
    if found is None:
        raise MuntinError("a roster is for streaming queries: Spark does not say which micro-batch this is")
    return int(found)


def write_note(job: Job, route: Route, batch: int, came: Mapping[str, str], went: Sequence[str]) -> None:
    """Let tasks of later micro-batches know; another attempt writes the same again."""
    folder = _folder(job, route)
    folder.mkdir(parents=True, exist_ok=True)
    told = json.dumps({"configured": job.configured, "came": dict(came), "went": list(went)})
    part = folder / f".{batch}-{secrets.token_hex(4)}"
    part.write_text(told, "utf-8")
    os.replace(part, folder / str(batch))
    for old in sorted(_numbers(folder))[:-_MOST_NOTES]:
        (folder / str(old)).unlink(missing_ok=True)


def read_note(job: Job, route: Route, before: int) -> Note | None:
    """What tasks of micro-batch `before` go by: the last note of those that came before it."""
    folder = _folder(job, route)
    found = [number for number in _numbers(folder) if number < before]
    if not found:
        return None
    try:
        told: dict[str, Any] = json.loads((folder / str(max(found))).read_text("utf-8"))
        return Note(max(found), told["configured"], told["came"], told["went"])
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"note {max(found)} of the roster in '{folder}' cannot be read: {error}"
        ) from None


def job_at(job: Job, batch: int | None) -> tuple[Job, dict[str, int | None]]:
    """The job as tasks of a micro-batch have to pack for it, and which note of each route they went by. What was
    planned for it is kept for the next task."""
    if job.roster is None:
        return job, {}
    number = this_batch() if batch is None else batch
    notes = {route.name: read_note(job, route, number) for route in job.routes}
    versions = {name: None if note is None else note.batch for name, note in notes.items()}
    place = (job.fingerprint, tuple(versions.values()))
    if place not in _JOBS:
        if len(_JOBS) >= _MOST_JOBS:
            _JOBS.clear()
        own = {name for route in job.routes for name in route.queries}
        _JOBS[place] = _with_queries(
            job, {route.name: _at_work(job, route, notes[route.name], own) for route in job.routes}
        )
    return _JOBS[place], versions


def _at_work(job: Job, route: Route, note: Note | None, own: set[str]) -> dict[str, str]:
    """The queries of a route, by the same rules as in its shards (`ShardProcessor`): what a run is started with takes
    the place of what statements said of these names."""
    if note is None:
        return route.queries
    if note.configured != job.configured:
        return route.queries | {name: text for name, text in note.came.items() if name not in own}
    return {name: text for name, text in route.queries.items() if name not in note.went} | note.came


def _with_queries(job: Job, queries: Mapping[str, Mapping[str, str]]) -> Job:
    """The job if its routes have these queries."""
    templates = shared_templates()
    routes = []
    for route in job.routes:
        texts = queries[route.name]
        planned = route
        if texts != route.queries:
            parsed = {
                name: read_query(job.stream, text, templates, job.tables) for name, text in texts.items()
            }
            planned = plan_route(route.name, route.keys, parsed, job.stream, route.shards, True, True)
        routes.append(replace(planned, held=route.held))
    return replace(job, routes=tuple(routes))


def check_note(expected: int | None, found: int | None, route: Route, folder: str | None) -> None:
    """An error if tasks went by another note than the one that shards expect."""
    if expected != found:
        said = [f"note {each}" if each is not None else "no note" for each in (expected, found)]
        raise CheckpointError(
            f"the queries by '{route.keys}' are in {said[0]} of the roster, but tasks found {said[1]} in '{folder}': "
            "give the folder that belongs to this checkpoint, an empty one to a new checkpoint, and reach it by the "
            "same path everywhere"
        )


def _folder(job: Job, route: Route) -> Path:
    assert job.roster is not None
    return Path(job.roster) / str(route.ids[0])


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]
    except FileNotFoundError:
        return []
