"""A state to a description and arrays, and back. Nothing executable: queries travel as their text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from muntin.arrays import LONG_AGO
from muntin.described import COUNT, WHOLE, Absent, Each, Maybe, check_shape
from muntin.plan import Demand, WindowGroup, demands_of
from muntin.plan.group import STREAM_RING, StoreId, ring_of
from muntin.plan.lanes import lanes_of
from muntin.plan.placement import CallLanes, Placement
from muntin.query import Query
from muntin.shard.clock import CLOCK
from muntin.shard.registration import History, Registration
from muntin.shard.state import State
from muntin.shard.table_join.table_join import join_of
from muntin.store.saved import Saved
from muntin.structure.key_runs_rows import RowsByKeyRuns
from muntin.structure.rescan_rows import RescanRows
from muntin.table_query import TableQuery

_PLACED = {
    "groups": [COUNT],
    "among_lanes": Absent(bool),
    "calls_among_lanes": Absent([COUNT]),
    "began": Absent(WHOLE),
    "answers_from": Absent(WHOLE),
}
_SHAPE = {
    "clock": CLOCK,
    "groups": [
        {
            "number": COUNT,
            "synopsis": str,
            "planned": Absent(str),
            "rule": Maybe(str),
            "adapted": Absent(str),
            "store": str,
            "is_stream_ring": bool,
            "grid": Maybe(COUNT),
            "generation": Absent(COUNT),
        }
    ],
    "registrations": Each(
        {
            "text": str,
            "emitted_to": Maybe(WHOLE),
            "emitted": COUNT,
            "missed": COUNT,
            "overflows": Absent(COUNT),
            "history": Absent(Maybe((WHOLE, WHOLE))),
            **_PLACED,
            "moving": Absent(_PLACED),
        }
    ),
    "forgotten_to": WHOLE,
    "known_from": Absent(WHOLE),
    "needed_bytes": COUNT,
}


def take(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `put` needs: plan, clock and registrations as plain data, the rest as named arrays."""
    state.settle_plan()
    placements, moving = state.manager.placements, state.manager.moving.to
    registrations = {
        name: {
            "text": each.query.text,
            "emitted_to": each.emitted_to,
            "emitted": each.emitted,
            "missed": each.missed,
            "overflows": each.overflows,
            "history": each.history,
            **_placed(placements[name]),
            **({"moving": _placed(moving[name])} if name in moving else {}),
        }
        for name, each in state.registrations.items()
    }
    groups = [
        {
            "number": group.number,
            "synopsis": group.synopsis,
            "planned": group.planned,
            "rule": group.because,
            "adapted": group.adapted,
            "store": group.store.kind,
            "is_stream_ring": group.store._replace(generation=0) == STREAM_RING,
            "grid": group.store.grid,
            "generation": group.store.generation,
        }
        for group in state.manager.groups.values()
    ]
    arrays: dict[str, Any] = {}
    for prefix, holder in _holders(state):
        arrays |= {f"{prefix}/{name}": array for name, array in holder.snapshot().items()}
    arrays |= {
        f"inside {name}": each.inside
        for name, each in state.registrations.items()
        if each.query.emits_changes
    }
    for name in state.registrations:
        if (join := join_of(state, name)) is not None and join.query.emits_changes:
            arrays |= {f"inside {name}/{column}": values for column, values in join.snapshot().items()}
    for keys, dictionary in state.keys.items():
        arrays |= {f"keys {_text(keys)}/{i}": values for i, values in enumerate(dictionary.snapshot())}
    arrays |= {f"text {argument}": dictionary.snapshot() for argument, dictionary in state.texts.items()}
    description = {
        "clock": state.clock.state(),
        "groups": groups,
        "registrations": registrations,
        "forgotten_to": state.forgotten_to,
        "known_from": state.known_from,
        "needed_bytes": state.needed_bytes,
    }
    return description, arrays


def put(
    state: State, description: dict[str, Any], arrays: dict[str, Any], asked: Mapping[str, Query | TableQuery]
) -> None:
    """Fill a state that has no queries yet; those that were `asked` are of the description, parsed again."""
    check_shape(description, _SHAPE, "the state")
    joined = {name: each for name, each in asked.items() if isinstance(each, TableQuery)}
    queries = {name: each.source if isinstance(each, TableQuery) else each for name, each in asked.items()}
    registrations = description["registrations"]
    placed = {
        name: _placement(queries[name], each, state.manager.is_by_demand)
        for name, each in registrations.items()
    }
    moving = {
        name: _placement(queries[name], each["moving"], state.manager.is_by_demand)
        for name, each in registrations.items()
        if "moving" in each
    }
    first_demand: dict[int, Demand] = {}
    for some in (*placed.values(), *moving.values()):
        for number, demand in some.all():
            first_demand.setdefault(number, demand)
    changes = state.manager.adopt(
        [
            _group(saved, first_demand[saved["number"]], state.adaptation is not None)
            for saved in description["groups"]
        ],
        placed,
        moving,
    )
    state.registrations = {
        name: Registration(
            queries[name],
            each["emitted_to"],
            each["emitted"],
            missed=each["missed"],
            history=_history(each),
            overflows=each.get("overflows", 0),
            joined=joined.get(name),
        )
        for name, each in registrations.items()
    }
    state.crowds.alone |= state.registrations
    state.note_emitted()
    state.fit(changes)
    state.clock.restore(description["clock"])
    state.forgotten_to, state.needed_bytes = description["forgotten_to"], description["needed_bytes"]
    _restore(state, arrays)
    state.known_from = description.get("known_from", LONG_AGO)
    state.movers.resume()


def _placed(placement: Placement) -> dict[str, Any]:
    """A placement as plain data, for `_placement`."""
    return {
        "groups": [number for number, _ in placement.all()],
        "among_lanes": placement.is_among_lanes,
        "calls_among_lanes": [
            number
            for number, of_call in enumerate(placement.of_calls)
            if of_call is not None and of_call.is_read
        ],
        "began": placement.began,
        "answers_from": placement.answers_from,
    }


def _placement(query: Query, saved: dict[str, Any], is_by_demand: bool) -> Placement:
    """Where a query was when it was saved, or where it moved to."""
    whole, calls_in_lanes = lanes_of(query, is_by_demand)
    laned, of_lanes = whole or (None, None)
    is_among_lanes = of_lanes is not None and saved.get("among_lanes", False)
    demands = of_lanes if of_lanes is not None and is_among_lanes else demands_of(query)
    reading = set(saved.get("calls_among_lanes", ()))
    calls, of_calls = list(demands.calls), []
    for number, each in enumerate(calls_in_lanes):
        is_read = number in reading
        of_calls.append(None if each is None else CallLanes(each[0], is_read))
        if each is not None and is_read:
            calls[number] = each[1]
    demands = replace(demands, calls=tuple(calls))
    began, answers_from = (saved.get(each, LONG_AGO) for each in ("began", "answers_from"))
    lanes = Placement((), (), laned, is_among_lanes, tuple(of_calls), began, answers_from)
    return lanes.given(demands, saved["groups"])


def _restore(state: State, arrays: dict[str, Any]) -> None:
    """Dictionaries first: they say which ids there are."""
    saved = Saved(arrays)
    for keys, dictionary in state.keys.items():
        dictionary.restore(saved.under(f"keys {_text(keys)}/"))
    for argument, text in state.texts.items():
        text.restore(saved, f"text {argument}")
    many = {keys: len(dictionary) for keys, dictionary in state.keys.items()}
    texts = {argument: len(text) for argument, text in state.texts.items()}
    watermark = state.clock.watermark
    saved = Saved(arrays, many, texts, LONG_AGO if watermark is None else watermark)
    for prefix, holder in _holders(state):
        holder.restore(saved.under(f"{prefix}/"))
    for name, each in state.registrations.items():
        if each.query.emits_changes:
            each.inside = saved.ids(f"inside {name}", each.query.key_expressions).copy()
            if len(np.unique(each.inside)) < len(each.inside):
                raise saved.damaged(f"inside {name}", "has keys twice")
        if (join := join_of(state, name)) is not None and join.query.emits_changes:
            join.restore(saved.under(f"inside {name}/"))


def _group(saved: dict[str, Any], member: Demand, adaptive: bool) -> WindowGroup:
    """A group as it was; where it filters and by which keys, any of its demands knows. If it may not adapt,
    it is served as planned: structures are built from the stores anyway."""
    where, keys = member.where, member.keys
    is_ring = saved["store"] == "ring"
    store = ring_of(member) if is_ring else StoreId(saved["store"], where, keys, saved["grid"])
    store = store._replace(generation=saved.get("generation", 0))
    planned = saved.get("planned", saved["synopsis"])
    if planned == RescanRows.name and keys:  # as 0.1 called it, from the same snapshot
        saved = {**saved, "synopsis": RowsByKeyRuns.name}
        planned = RowsByKeyRuns.name
    group = WindowGroup(saved["number"], planned, saved["rule"], where, keys, store)
    if adaptive:
        group.switch(saved["synopsis"], saved.get("adapted", ""))
    return group


def _holders(state: State) -> list[tuple[str, Any]]:
    """Everything that can snapshot itself, under a name that a restored state gives it too; stores
    first, since synopses are rebuilt from them."""
    stores = [
        (f"{each.kind} {each.grid}{_generation(each)} {each.where or ''} by {_text(each.keys)}", store)
        for each, store in state.stores.items()
    ]
    lanes = [(f"lanes {asked}", each) for asked, each in state.lanes.items()]
    return stores + [(f"group {number}", each) for number, each in state.synopses.items()] + lanes


def _history(saved: dict[str, Any]) -> History | None:
    found = saved.get("history")
    return None if found is None else History(*found)


def _generation(store: StoreId) -> str:
    return f" of history {store.generation}" if store.generation else ""


def _text(keys: tuple[Any, ...]) -> str:
    return ", ".join(str(key) for key in keys)
