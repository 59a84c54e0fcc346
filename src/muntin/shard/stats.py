"""A shard for people and dashboards: its counters, the coverage of its queries, and its plan in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from muntin.arrays import LONG_AGO
from muntin.coverage import Coverage
from muntin.plan.explain import Running, explain_group, explain_stream, predicted_combines
from muntin.plan.fresh_plan import differences_to_fresh_plan
from muntin.plan.nesting import Nesting
from muntin.shard.read.evaluate import is_covered
from muntin.shard.read.reading import Reading, reading_of
from muntin.shard.state import State
from muntin.window import span


def stream_stats(state: State) -> dict[str, Any]:
    """Events accepted and late, event time, watermark, and what is kept."""
    clock, nestings = state.clock, state.manager.nestings()
    return {
        "pushed": clock.events + clock.late_events + clock.ahead_events,
        "events": clock.events,
        "late": clock.late_events,
        "ahead": clock.ahead_events,
        "greatest": _instant(clock.greatest),
        "watermark": _instant(clock.watermark),
        "queries": len(state.registrations),
        "groups": len(state.synopses),
        "keys": sum(len(keys) for keys in state.keys.values()),
        "bytes": state.nbytes(),
        "nestings": {str(each): _nested(nesting) for each, nesting in nestings.items()},
        "costs": {number: _costs(state, number) for number in state.manager.groups},
    }


def running(state: State, number: int) -> Running:
    """A window group at work, as EXPLAIN shows it."""
    group, meter = state.manager.groups[number], state.meter
    return Running(state.synopses[number], meter.groups[number], meter.stores[group.store])


def _nested(nesting: Nesting) -> dict[str, int]:
    """How the windows of one operation signature nest."""
    return {
        "windows": nesting.windows,
        "chains": len(nesting.chains),
        "optimum": nesting.optimum,
        "members": nesting.members,
        "piggybacked": nesting.piggybacked,
    }


def _costs(state: State, number: int) -> dict[str, Any]:
    """What a window group costs, predicted and measured; None where nothing was observed yet."""
    group, (synopsis, own, store) = state.manager.groups[number], running(state, number)
    return {
        "synopsis": group.synopsis,
        "planned": group.planned,
        "combines": predicted_combines(group, synopsis),
        "update_ns": own.updates.mean,
        "store_update_ns": store.updates.mean,
        "lookups": own.lookups.total,
        "lookup_us": None if own.lookups.mean is None else own.lookups.mean / 1000,
    }


def _instant(at: int | None) -> np.datetime64 | None:
    return None if at is None else np.datetime64(at, "us")


# Covered: whether the windows of a query lie within what is known, found without any row of its answer.


def coverage_of(state: State, name: str) -> Coverage:
    """Of a query as of now; O(windows), and if some count events, a look-up."""
    reading, now = reading_of(state, name), state.now_of(name)
    if now is not None and reading.query.slide:
        now -= now % reading.query.slide
    known, covered_from, is_by_count = LONG_AGO, LONG_AGO, False
    for number, window, needs in reading.windows:
        if window.to == window.size:  # holds nothing, of which nothing is missing
            continue
        synopsis = state.synopses[number]
        since = max(synopsis.known_since(window, need) for need in needs)
        if (
            now is not None
            and window.is_time
            and window.settle(now) - window.size < synopsis.forgotten_before
        ):
            since = max(since, synopsis.forgotten_before)  # what others had kept until the query came
        known = max(known, since)
        if window.is_time:
            reached = _up(_up(since + window.size, window.slide), reading.query.slide)
            covered_from = max(covered_from, reached if since > LONG_AGO else LONG_AGO)
        else:
            is_by_count |= since > LONG_AGO
    if known == LONG_AGO or now is None:
        return Coverage(known == LONG_AGO)
    complete = now >= covered_from and (not is_by_count or _is_whole(state, reading, now))
    instant = None if is_by_count or covered_from == LONG_AGO else np.datetime64(covered_from, "us")
    return Coverage(complete, np.datetime64(known, "us"), instant)


def _is_whole(state: State, reading: Reading, now: int) -> bool:
    """Whether the windows of all keys that have events are covered."""
    if not reading.width:
        return False
    instants = np.array([now])
    found = [  # not timed: what is asked for here says nothing of what users look up
        state.synopses[number].lookup(window, window.settle(instants), needs, None, reading.width)
        for number, window, needs in reading.windows
    ]
    return is_covered(reading, found)


def _up(instant: int, slide: int) -> int:
    """The first instant at or after one that a slide reaches."""
    return -(-instant // slide) * slide if slide else instant


def _differences(state: State) -> dict[int, str]:
    """How a fresh plan would serve queries that are served otherwise, by group: why a plan depends on the past."""
    state.settle_plan()
    queries = {name: each.query for name, each in state.registrations.items()}
    return differences_to_fresh_plan(state.manager, queries)


def explain_query(state: State, name: str) -> str:
    """The groups that serve a query, and whether its windows are covered."""
    fresh = _differences(state)
    numbers, groups = sorted(state.manager.placements[name].groups()), state.manager.groups
    parts = [
        explain_group(groups[each], running(state, each), groups.values(), fresh.get(each, ""))
        for each in numbers
    ]
    return "\n\n".join([*parts, f"{name}: {coverage_of(state, name)}"])


def explain_all(state: State) -> str:
    """The plan of all queries."""
    fresh = _differences(state)
    rings = [f"ring of {len(store):,} events" for id, store in state.stores.items() if id.kind == "ring"]
    ahead = "" if state.stream.ahead is None else f" AHEAD {span(state.stream.ahead)}"
    title = f"{state.stream.name} (DELAY {span(state.stream.delay)}{ahead})"
    groups, nestings = state.manager.groups, state.manager.nestings()
    at_work = {number: running(state, number) for number in groups}
    return explain_stream(title, len(state.registrations), groups, at_work, ", ".join(rings), nestings, fresh)
