"""EXPLAIN on Spark: what tasks do with events, what travels, and how each shard serves the queries of its route."""

from __future__ import annotations

from collections import OrderedDict
from textwrap import indent
from typing import TYPE_CHECKING, Any

from muntin.argument import shown
from muntin.errors import MuntinError, NotFound
from muntin.lane import Asked
from muntin.plan import request_of
from muntin.plan.explain import explain_join
from muntin.plan.request import demands_in
from muntin.spark.fold import FoldPlan
from muntin.spark.job import Job, Route, is_together, read_query
from muntin.spark.join_job import JoinJob, is_merged
from muntin.spark.plan_job import can_fold
from muntin.spark.ranked import is_ranked
from muntin.spark.shard import SparkShard
from muntin.window import span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLANNED = "muntin job"  # the metadata of the column `query`: which job answers
_JOBS: OrderedDict[str, Job] = OrderedDict()  # that this process has planned, by fingerprint …
_MOST_JOBS = 64  # … the last so many


def remember(job: Job) -> None:
    """Let `explain` find a job that is planned."""
    _JOBS[job.fingerprint] = job
    _JOBS.move_to_end(job.fingerprint)
    while len(_JOBS) > _MOST_JOBS:
        _JOBS.popitem(last=False)


def explain(answers: DataFrame) -> str:
    """The plan behind answers: routes, shards, what tasks fold, what travels, and the groups of each shard.

    `answers` is the DataFrame that `shared_windows` returned, or one made from it that still has its column `query`. It
    is the plan of the queries given there; those that came by a control stream are not part of it.
    """
    if not hasattr(answers, "schema"):
        raise MuntinError(f"answers is a DataFrame that shared_windows made, not {shown(answers)}")
    field: Any = next((each for each in answers.schema if each.name == "query"), None)
    if field is None or PLANNED not in field.metadata:
        raise MuntinError(
            "this DataFrame does not say which job answers: give the one that shared_windows returned, or one made "
            "from it that still has its column 'query'"
        )
    job = _JOBS.get(field.metadata[PLANNED])
    if job is None:
        raise NotFound(
            f"this process has not planned these answers, or has planned {_MOST_JOBS} other jobs since: call "
            "shared_windows with the same arguments, and explain what it returns"
        )
    return explain_job(job)


def explain_job(job: Job) -> str:
    """The plan of a job."""
    if isinstance(job, JoinJob):
        return _explain_joins(job)
    shards = sum(route.shards for route in job.routes)
    stream = job.stream
    head = (
        f"job over stream {stream.name} (DELAY {span(stream.delay)}): {_counted(len(job.routes), 'route')}, "
        f"{_counted(shards, 'shard')}; tasks read {', '.join(job.reading.schema.names)}; bad events: {job.bad_events}"
    )
    return "\n\n".join([head, *(_explain_route(job, route) for route in job.routes)])


def _explain_joins(job: JoinJob) -> str:
    """The plan of joins: where events meet, and who answers a query."""
    streams = ", ".join(f"{each.name} (DELAY {span(each.delay)})" for each in job.streams)
    shards = sum(route.shards for route in job.routes)
    parts = [
        f"job over streams {streams}: {_counted(len(job.routes), 'route')}, {_counted(shards, 'shard')}; nothing is "
        "folded, the columns that joins read travel to the shard of their join key"
    ]
    for route in job.routes:
        queries = {name: job.read(text) for name, text in route.queries.items()}
        merged = [name for name, query in queries.items() if route.shards > 1 and is_merged(query)]
        lines = [
            f"route {route.name}: {_counted(len(queries), 'query')} in {_counted(route.shards, 'shard')}"
        ]
        lines += [f"  reads {', '.join(route.columns)}"]
        if merged:
            lines.append(f"  partials of all shards are merged in one more step for {', '.join(merged)}")
        if is_together(route.name):
            lines.append("  one shard receives all events: its aggregates cannot be merged")
        signature = next(iter(queries.values())).signature
        parts.append("\n".join(lines) + "\n\n" + indent(explain_join(signature, queries, None), "    "))
    return "\n\n".join(parts)


def _explain_route(job: Job, route: Route) -> str:
    by = f"by {route.keys}" if route.keys else "without keys"
    lines = [f"route {by}: {_counted(len(route.queries), 'query')} in {_counted(route.shards, 'shard')}"]
    if route.whole:
        lines.append("  events are dealt out to all shards; one more step merges what these say of a window")
    ranked = [
        name
        for name, text in route.queries.items()
        if is_ranked(read_query(job.stream, text, tables=job.tables))
    ]
    if ranked and route.shards > 1:
        lines.append(f"  one more step ranks the first keys of all shards for {', '.join(ranked)}")
    for table, columns in route.held.items():
        where = "all shards" if columns is None else f"the shard of {', '.join(name for name, _ in columns)}"
        lines.append(f"  rows of table {table} are held by {where}")
    lines += [f"  {line}" for line in _explain_packing(job, route)]
    shard = SparkShard(job, route, 0)
    shard.register(route.queries)
    _, _, plan = shard.explain().partition("): ")  # after the name of the stream and its delay, which we know
    return "\n".join(lines) + "\n\n" + indent(f"each shard: {plan}", "    ")


def _explain_packing(job: Job, route: Route) -> list[str]:
    if route.fold is None:
        return [f"events travel as they are ({', '.join(route.columns)}): {_why_not_folded(job, route)}"]
    if not route.fold.queries:
        return ["nothing travels: there is no query yet"]
    plan = FoldPlan(job.reading, route.fold, job.tables)
    lines = ["tasks fold events; cells travel, of a slice and a key each:"]
    for where, needs in sorted(plan.needs.items(), key=lambda each: str(each[0] or "")):
        held = ", ".join(sorted(map(str, needs)))
        if isinstance(where, Asked):
            some = f"{_counted(len(plan.lanes[where]), 'lane')} of {', '.join(map(str, where.indexed))}"
        else:
            some = "all events" if where is None else f"WHERE {where}"
        lines.append(f"  {some}, slices of {span(plan.steps[where])}: {held}")
    return lines


def _why_not_folded(job: Job, route: Route) -> str:
    if route.whole:
        return "sketches take in events one by one"
    for name, text in route.queries.items():
        request = request_of(read_query(job.stream, text, tables=job.tables), is_by_demand=True)
        if not all(can_fold(*each) for each in demands_in(request)):
            return f"query '{name}' needs more than slices tell"
    return "fold=False, or a control stream without a roster, whose queries may need each of them"


def _counted(count: int, what: str) -> str:
    plural = {"query": "queries"}.get(what, f"{what}s")
    return f"{count:,} {what if count == 1 else plural}"
